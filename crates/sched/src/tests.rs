//! Does a search of every policy try all places that may hold jobs, in its order, and then stop?

mod levels;
mod looks;
mod search;
mod tasks;

use super::auto::Decision;
use super::ladder::Ladders;
use super::policy::rows;
use super::*;
use crate::time::Nanos;
use std::collections::HashSet;

const NOW: Nanos = Nanos::from_secs(10);

/// What workers see in these tests.
struct Seen {
    /// At [`NOW`], workers 1 and 2 have been in one job for long, worker 3 for a moment. Worker 5
    /// has nine more jobs, another worker sleeps, and five jobs wait in queues.
    busy: bool,
    /// Jobs in the queues of the first pools.
    jobs: [usize; 3],
    half_full: bool,
}

const FIXED: Seen = Seen { busy: true, jobs: [0; 3], half_full: false };

impl View for Seen {
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        match worker {
            1 | 2 if self.busy => Some(Nanos::ZERO),
            3 if self.busy => Some(NOW),
            _ => None,
        }
    }

    fn backlog(&self, worker: WorkerId) -> usize {
        if self.busy && worker == 5 { 9 } else { 0 }
    }

    fn queue_len(&self, pool: PoolId) -> usize {
        self.jobs.get(pool).copied().unwrap_or(0)
    }

    fn queued(&self) -> usize {
        self.jobs.iter().sum::<usize>() + if self.busy { 5 } else { 0 }
    }

    fn asleep(&self, _: PoolId) -> usize {
        self.busy.into()
    }

    fn places(&self) -> usize {
        if self.half_full { 2 * self.queued() } else { usize::MAX }
    }
}

/// All policies for five workers; those with pools have 2, 1 and 2.
fn policies() -> [Policy; 9] {
    let tuning = tuning(5);
    let pools = Tuning { sizes: Some(vec![2, 1, 2]), ..Tuning::new(5, Nanos::from_micros(50)) };
    [
        tuning.policy("isolated"),
        tuning.policy("global"),
        tuning.policy("steal"),
        pools.policy("pools"),
        tuning.policy("levels"),
        tuning.policy("shed"),
        rows::tasks(&Topology::new(&[2, 1, 2]), Nanos::from_micros(50)),
        levels(),
        rows::ordered(&tuning),
    ]
}

/// A tuning with a budget of 5 us.
fn tuning(workers: usize) -> Tuning {
    Tuning::new(workers, Nanos::from_micros(5))
}

/// Levels from 5 and 20 us on, for five workers.
fn levels() -> Policy {
    levels_of(Ladders::blind([5, 20].map(Nanos::from_micros).into_iter().collect()))
}

fn levels_of(ladders: Ladders) -> Policy {
    Decision::of(ladders, "").make(&tuning(5)).policy
}

/// A job on `worker` in `pool` that has run for `ran_us`.
fn running(worker: WorkerId, pool: PoolId, ran_us: u64) -> RunningJob {
    let ran = Nanos::from_micros(ran_us);
    RunningJob { worker, pool, class: None, attained: Nanos::ZERO, ran, flagged: false }
}

/// The search state of worker 0 before its first search.
fn local(policy: &Policy) -> Local {
    Local::new(0, &policy.topology)
}

/// All steps of one search of `worker` that finds nothing.
fn search(policy: &Policy, worker: WorkerId) -> Vec<Step> {
    search_of(policy, &mut Local::new(worker, &policy.topology))
}

/// All steps of a search that finds nothing, by a worker that may have searched before.
fn search_of(policy: &Policy, local: &mut Local) -> Vec<Step> {
    let mut walk = policy.search(local, NOW, &FIXED);
    let steps: Vec<Step> = std::iter::from_fn(|| walk.next(local, NOW, &FIXED)).take(100).collect();
    assert!(steps.len() < 100, "the search of {local:?} ends");
    steps
}

// Where does a search look, and in which order? Steps in one inner list may come in any order. At
// the end it searches queues where other policies may have left jobs.
#[test]
fn each_policy_has_its_order() {
    use Step::{Own, Queue, Receive, Steal};
    let [isolated, global, steal, pools, .., in_order] = policies();
    let sockets = [0, 1, 2, 3, 4].map(Receive);
    let others = [1, 2, 3, 4].map(Steal);
    for (policy, worker, groups, orphans_from) in [
        (&isolated, 3, vec![&[Own][..], &[Receive(3)]], 0),
        (&global, 0, vec![&[Queue(0)], &[Own], &sockets], 1),
        (&in_order, 0, vec![&[Queue(0)], &[Own], &others, &sockets], 1),
        // No step receives from worker 3's socket, because it has been in its job only for a
        // moment.
        (&steal, 0, vec![&[Own], &[Receive(0)], &others, &[Receive(1), Receive(2)]], 0),
        (&pools, 1, vec![&[Own], &[Queue(0)], &sockets, &[Steal(0)]], 3),
        (&pools, 2, vec![&[Queue(1)], &[Own]], 3),
        (&pools, 4, vec![&[Queue(2)], &[Own]], 3),
    ] {
        let steps = search(policy, worker);
        let mut rest = &steps[..];
        for group in groups {
            let (found, behind) = rest.split_at(group.len());
            assert!(group.iter().all(|step| found.contains(step)), "worker {worker}: {group:?} in {steps:?}");
            rest = behind;
        }
        assert_eq!(rest, (orphans_from..QUEUES).map(Queue).collect::<Vec<_>>(), "worker {worker}: {steps:?}");
    }
}

/// Before a worker rests, has it searched all places that may hold jobs, whatever earlier searches
/// found?
#[test]
fn after_any_finds_a_resting_worker_has_looked_everywhere() {
    const DEPTH: usize = 6;
    for policy in policies() {
        for worker in 0..5 {
            let everything: HashSet<Step> = search(&policy, worker).into_iter().collect();
            for sequence in 0..DEPTH.pow(3) {
                let mut local = Local::new(worker, &policy.topology);
                for digit in 0..3 {
                    let mut walk = policy.search(&mut local, NOW, &FIXED);
                    // A step that finds something ends the search.
                    let tries = sequence / DEPTH.pow(digit) % DEPTH;
                    (0..tries).for_each(|_| _ = walk.next(&mut local, NOW, &FIXED));
                }
                let seen: HashSet<Step> = search_of(&policy, &mut local).into_iter().collect();
                assert_eq!(seen, everything, "worker {worker} after {sequence}");
            }
        }
    }
}

// Does a policy have exactly the queues into which it puts requests?
#[test]
fn a_policy_has_the_queues_that_it_fills() {
    for policy in policies() {
        let mut filled: HashSet<PoolId> = policy.uninterrupted.as_ref().map(|_| UNINTERRUPTED).into_iter().collect();
        for pool in 0..policy.topology.pools() {
            let arrived = |worker, class| {
                let mut local = local(&policy);
                (local.worker, local.pool) = (worker, pool);
                policy.place_fresh(&local, class, &FIXED)
            };
            let arrivals = [None, Some(0), Some(1), Some(7)].into_iter();
            let arrivals = arrivals.flat_map(|class| [0, 5].map(|worker| arrived(worker, class)));
            let yields = [0, 1, 5, 20, 100].into_iter().flat_map(|attained_us| {
                [0, 1, 10, 50].map(|ran_us| {
                    let attained = Nanos::from_micros(attained_us);
                    Event::Yielded(RunningJob { attained, ..running(0, pool, ran_us) })
                })
            });
            let hops = (0..policy.topology.pools())
                .flat_map(|pool| [None, Some(1), Some(2)].map(|class| Event::Hopped(pool, class)));
            for place in yields.chain(hops).map(|event| policy.place(pool, event)).chain(arrivals) {
                if let Place::Queue(queue) = place {
                    filled.insert(queue);
                }
            }
        }
        let has: HashSet<PoolId> = (0..QUEUES).filter(|queue| policy.has_queue(*queue)).collect();
        assert_eq!(has, filled, "{policy:?}");
    }
}

// Is a policy refused that puts jobs where no worker looks?
#[test]
#[should_panic(expected = "queue 0 is filled, and no worker looks there")]
fn what_is_filled_must_be_searched() {
    let _ = Policy { fresh: policy::Fresh::QueueUpTo(1), ..policies()[0].clone() }.checked();
}
