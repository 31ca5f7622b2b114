//! Does every policy look at everything it may serve, in its order, and stop looking?

mod levels;
mod looks;
mod tasks;

use super::ladder::Ladders;
use super::policy::rows;
use super::*;
use crate::time::Nanos;
use std::collections::HashSet;

const NOW: Nanos = Nanos::from_millis(10);

/// What workers see.
struct Seen {
    /// At [`NOW`] workers 1 and 2 have been in one job for a long time, worker 3 for a moment. Worker 5 has two more to do,
    /// another one sleeps, and five jobs wait in queues.
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
        if self.busy && worker == 5 { 2 } else { 0 }
    }

    fn queue_len(&self, pool: PoolId) -> usize {
        self.jobs.get(pool).copied().unwrap_or(0)
    }

    fn queued(&self) -> usize {
        if self.busy { 5 } else { self.jobs.iter().sum() }
    }

    fn asleep(&self, _: PoolId) -> usize {
        self.busy.into()
    }

    fn queues_are_half_full(&self) -> bool {
        self.half_full
    }

    fn debt(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Of five workers; those with pools have 2, 1 and 2.
fn policies() -> [Policy; 10] {
    let tuning = tuning(5);
    let pools = Tuning { sizes: Some(vec![2, 1, 2]), ..Tuning::new(5, Nanos::from_micros(50)) };
    [
        tuning.policy("isolated"),
        tuning.policy("global"),
        tuning.policy("steal"),
        pools.policy("pools"),
        tuning.policy("ondemand"),
        Tuning { reserved: Some(2), ..tuning.clone() }.policy("hybrid"),
        tuning.policy("shed"),
        reserve(),
        rows::tasks(&Topology::new(&[2, 1, 2]), Nanos::from_micros(50)),
        levels(),
    ]
}

/// With a budget of 5 us.
fn tuning(workers: usize) -> Tuning {
    Tuning::new(workers, Nanos::from_micros(5))
}

/// Levels from 5 and 20 us on, for five workers.
fn levels() -> Policy {
    levels_of(Ladders::blind([5, 20].map(Nanos::from_micros).into_iter().collect()))
}

fn levels_of(ladders: Ladders) -> Policy {
    Tuning { ladders: Some(ladders), ..tuning(5) }.policy("levels")
}

/// `reserve` where classes 0 and 1 have one worker each, the others three.
fn reserve() -> Policy {
    rows::by_group(estimate::Groups { group_of: [0, 1, 2, 2, 2, 2, 2, 2], sizes: vec![1, 1, 3] }, &tuning(5))
}

/// A job on `worker`, which is in `pool`, that has run for `ran_us`.
fn running(worker: WorkerId, pool: PoolId, ran_us: u64) -> Running {
    let ran = Nanos::from_micros(ran_us);
    Running { worker, pool, class: None, continuation: false, attained: Nanos::ZERO, ran, flagged: false }
}

/// Every step of one search of `worker`, which finds nothing.
fn search(policy: &Policy, worker: WorkerId) -> Vec<Step> {
    search_of(policy, &mut Local::new(worker, policy.topology()))
}

/// Every step of one search that finds nothing, for a worker that may have searched before.
fn search_of(policy: &Policy, local: &mut Local) -> Vec<Step> {
    let mut walk = policy.search(local);
    let steps: Vec<Step> = std::iter::from_fn(|| walk.next(local, NOW, &FIXED)).take(100).collect();
    assert!(steps.len() < 100, "the search of {local:?} ends");
    steps
}

/// The first step of a search.
fn first_of(policy: &Policy, local: &mut Local) -> Option<Step> {
    policy.search(local).next(local, NOW, &FIXED)
}

fn arrived(class: Option<u8>) -> Event {
    Event::Arrived { class, backlog: 0 }
}

// Where does a search look, and in which order? The steps of a group come in any order. At the end it looks for what other
// policies may have left.
#[test]
fn each_policy_has_its_order() {
    use Step::{Own, Queue, Receive, Steal};
    let [isolated, global, steal, pools, ..] = policies();
    let sockets = [0, 1, 2, 3, 4].map(Receive);
    let others = [1, 2, 3, 4].map(Steal);
    for (policy, worker, groups, orphans_from) in [
        (&isolated, 3, vec![&[Own][..], &[Receive(3)]], 0),
        (&global, 0, vec![&[Queue(0)], &[Own], &sockets], 1),
        // Worker 3 will be back in a moment.
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

/// Each socket has its turn, so requests are received in nearly the order in which they were sent. The searches between,
/// which find something nearer, must not matter.
#[test]
fn sockets_are_received_from_in_turn_however_many_searches_lie_between() {
    for (policy, before) in [(&policies()[1], 2), (&policies()[3], 2), (&policies()[4], 10)] {
        let mut local = Local::new(1, policy.topology());
        let mut from = Vec::new();
        for nearer in [0, 1, 4, 2, 60, 3, 7] {
            (0..nearer).for_each(|_| assert!(!matches!(first_of(policy, &mut local), Some(Step::Receive(_)))));
            // The socket after the last one is empty.
            let mut walk = policy.search(&mut local);
            let steps: Vec<Step> = (0..before + 2).map_while(|_| walk.next(&mut local, NOW, &FIXED)).collect();
            match steps.last() {
                Some(Step::Receive(owner)) => from.push(*owner),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(from, [2, 4, 1, 3, 0, 2, 4], "every other one, for the one between was empty");
    }
}

/// Whatever searches before have found: before a worker may rest it has looked at everything it may serve.
#[test]
fn after_any_finds_a_resting_worker_has_looked_everywhere() {
    const DEPTH: usize = 6;
    for policy in policies() {
        for worker in 0..5 {
            let everything: HashSet<Step> = search(&policy, worker).into_iter().collect();
            for sequence in 0..DEPTH.pow(3) {
                let mut local = Local::new(worker, policy.topology());
                for digit in 0..3 {
                    let mut walk = policy.search(&mut local);
                    // A find ends the search here.
                    let tries = sequence / DEPTH.pow(digit) % DEPTH;
                    (0..tries).for_each(|_| _ = walk.next(&mut local, NOW, &FIXED));
                }
                let seen: HashSet<Step> = search_of(&policy, &mut local).into_iter().collect();
                assert_eq!(seen, everything, "worker {worker} after {sequence}");
            }
        }
    }
}

// Is each victim the first one as often as any other?
#[test]
fn no_victim_is_always_first_or_never() {
    let mut local = Local::new(2, policies()[2].topology());
    let mut first = [0; 5];
    for _ in 0..5_000 {
        let steps = search_of(&policies()[2], &mut local);
        let victims: Vec<WorkerId> =
            steps.iter().filter_map(|step| if let Step::Steal(victim) = step { Some(*victim) } else { None }).collect();
        assert_eq!(victims.len(), 4, "each of the others once");
        first[victims[0]] += 1;
    }
    assert_eq!(first, [1_250, 1_250, 0, 1_250, 1_250]);
}

#[test]
fn shed_gives_away_what_is_too_much() {
    let policy = &policies()[6];
    let behind = |backlog| policy.place(0, Event::Arrived { class: None, backlog });
    assert_eq!([0, 7, 8, 31].map(behind), [Place::Own, Place::Own, Place::Queue(0), Place::Queue(0)]);
    assert_eq!(search(policy, 0)[..3], [Step::Own, Step::Queue(0), Step::Receive(0)], "before any victim");
}

#[test]
fn reserve_lets_heavy_workers_help_the_light_and_all_workers_receive() {
    let policy = &policies()[7];
    assert_eq!([0, 1, 2, 7].map(|class| policy.place(0, arrived(Some(class)))), [0, 1, 2, 2].map(Place::Queue));
    assert_eq!(search(policy, 0)[..2], [Step::Queue(0), Step::Own]);
    assert!(!search(policy, 0).contains(&Step::Queue(1)), "a light worker takes nothing heavy");
    let heaviest = search(policy, 4);
    assert_eq!(heaviest[..4], [Step::Queue(2), Step::Own, Step::Queue(0), Step::Queue(1)]);
    for worker in 0..5 {
        let sockets = search(policy, worker).into_iter().filter(|step| matches!(step, Step::Receive(_))).count();
        assert_eq!(sockets, 5, "worker {worker}");
    }
    assert_eq!([policy.servers_of(0), policy.servers_of(1), policy.servers_of(2)], [0..3, 1..3, 2..3]);
    assert_eq!(policy.servers_of(5), 0..1, "a pool that is no more");
    assert_eq!(policies()[3].servers_of(0), 0..1, "in strict pools nobody helps");
}

#[test]
fn a_request_reaches_the_heavy_pool_by_class_by_hop_and_by_slice() {
    let policy = &policies()[3];
    assert_eq!(policy.place(0, arrived(None)), Place::Own);
    assert_eq!(policy.place(0, arrived(Some(0))), Place::Own);
    assert_eq!(policy.place(0, arrived(Some(1))), Place::Queue(1));
    assert_eq!(policy.place(0, arrived(Some(7))), Place::Queue(2));
    assert_eq!(policy.place(1, arrived(None)), Place::Queue(0), "it begins where all begin");
    assert_eq!(policy.at_hop(&running(0, 0, 0), 2), Verdict::Hop(2));
    assert_eq!(policy.at_hop(&running(0, 0, 0), 3), Verdict::Keep, "a pool that is not there");
    assert_eq!(policy.ask_after(&running(0, 0, 20)), Some(Nanos::from_micros(30)));
    assert_eq!(policy.at_checkpoint(&running(0, 0, 49)), Verdict::Keep);
    assert_eq!(policy.at_checkpoint(&running(0, 0, 50)), Verdict::Hop(1));
    let in_last = [49, 50, 120].map(|ran| policy.at_checkpoint(&running(3, 2, ran)));
    assert_eq!(in_last, [Verdict::Keep, Verdict::TakeTurns, Verdict::TakeTurns]);
    let us = |us| Some(Nanos::from_micros(us));
    assert_eq!([20, 50].map(|ran| policy.ask_after(&running(3, 2, ran))), [us(30), us(50)]);
    let one = Tuning { sizes: Some(vec![5]), ..tuning(5) }.policy("pools");
    assert_eq!((one.ask_after(&running(0, 0, 0)), one.at_checkpoint(&running(0, 0, 50))), (None, Verdict::Keep));
}

#[test]
fn heavy_work_goes_on_in_the_order_in_which_it_began() {
    let interrupted = Running { continuation: true, ..running(0, 0, 5) };
    for policy in [&policies()[4], &policies()[5]] {
        let steps = search(policy, 0);
        let queues: Vec<Step> = steps.into_iter().filter(|step| matches!(step, Step::Queue(_))).collect();
        let (Place::Queue(new), Place::Queue(again)) =
            (policy.place(0, Event::Yielded(running(0, 0, 5))), policy.place(0, Event::Yielded(interrupted)))
        else {
            panic!("heavy work waits in queues");
        };
        assert_eq!(queues[..4], [UNINTERRUPTED, 0, again, new].map(Step::Queue));
        assert_eq!(policy.at_checkpoint(&running(0, 0, 4)), Verdict::Keep, "light so far");
        assert_eq!(
            policy.at_checkpoint(&running(0, 0, 5)),
            Verdict::Yield,
            "others may have turned out heavy before it"
        );
        assert_eq!(policy.at_checkpoint(&interrupted), Verdict::YieldIfWanted);
    }
}

// Does a policy have exactly the queues into which something puts a request?
#[test]
fn a_policy_has_the_queues_that_it_fills() {
    for policy in policies() {
        let mut filled: HashSet<PoolId> = policy.uninterrupted_max().map(|_| UNINTERRUPTED).into_iter().collect();
        for pool in 0..policy.topology().pools() {
            let arrivals = [None, Some(0), Some(1), Some(7)].map(|class| Event::Arrived { class, backlog: 99 });
            let yields = [0, 1, 5, 20, 100].into_iter().flat_map(|attained_us| {
                [0, 1, 10, 50].map(|ran_us| {
                    let attained = Nanos::from_micros(attained_us);
                    Event::Yielded(Running { continuation: attained_us > 0, attained, ..running(0, pool, ran_us) })
                })
            });
            let hops = (0..policy.topology().pools())
                .flat_map(|pool| [None, Some(1), Some(2)].map(|class| Event::Hopped(pool, class)));
            for event in arrivals.into_iter().chain(yields).chain(hops) {
                if let Place::Queue(queue) = policy.place(pool, event) {
                    filled.insert(queue);
                }
            }
        }
        let has: HashSet<PoolId> = (0..QUEUES).filter(|queue| policy.has_queue(*queue)).collect();
        assert_eq!(has, filled, "{policy:?}");
    }
}

#[test]
fn ondemand_asks_more_workers_the_more_requests_wait() {
    let policy = &policies()[4];
    let flagged = |worker, waiting| {
        let mut flagged = Vec::new();
        policy.on_arrivals(&FIXED, NOW, worker, waiting, |other| flagged.push(other));
        flagged
    };
    assert!(flagged(0, 0).is_empty());
    assert_eq!(flagged(0, 1), [1]);
    assert_eq!(flagged(1, 1), [2], "the next in turn");
    assert_eq!(flagged(0, 99), [1, 2], "worker 3 has been in its job for a moment only");
    let steal = &policies()[2];
    steal.on_arrivals(&FIXED, NOW, 0, 99, |_| panic!("nobody gives way under steal"));
    let flagged = Running { flagged: true, ..running(0, 0, 9) };
    assert_eq!(policy.at_checkpoint(&flagged), Verdict::Yield);
}

#[test]
fn hybrid_looks_more_often_on_reserved_workers() {
    let policy = &policies()[5];
    let watch = |running: Running| policy.watch(&running, &FIXED, NOW);
    let heavy = |worker| Running { continuation: true, ..running(worker, 0, 0) };
    let (short, long) = (Watch::Closely, Watch::Every(Nanos::from_micros(50)));
    assert_eq!([0, 1, 2, 4].map(|worker| watch(heavy(worker))), [short, short, long, long]);
    assert_eq!(policy.ask_after(&heavy(4)), None, "what it notices is all that interrupts it");
    assert_eq!(policy.ask_after(&running(4, 0, 2)), Some(Nanos::from_micros(3)), "the rest of the budget");
    assert_eq!(watch(running(4, 0, 2)), Watch::Never, "a light request does not step aside");
}

#[test]
fn who_receives_from_whom_follows_from_the_order() {
    let [isolated, global, steal, pools, ondemand, hybrid, shed, reserve, tasks, levels] = policies();
    assert!(isolated.receives_own(0) && !isolated.receives_others(0));
    assert!(!tasks.receives_own(0) && !tasks.receives_others(0) && !tasks.has_watchers());
    for policy in [global, steal, ondemand, hybrid, shed, levels] {
        assert!(policy.receives_own(0) && policy.receives_others(0) && policy.has_watchers(), "{policy:?}");
    }
    assert!(pools.receives_own(0) && pools.receives_others(0));
    assert!(!pools.receives_own(1) && !pools.receives_others(2));
    assert!((0..3).all(|pool| reserve.receives_own(pool) && reserve.receives_others(pool)));
}

// Is a policy refused that puts jobs where no worker looks?
#[test]
#[should_panic(expected = "queue 0 is filled, and no worker looks there")]
fn what_is_filled_must_be_searched() {
    let _ = Policy { fresh: policy::Fresh::Queue, ..policies()[0].clone() }.checked();
}
