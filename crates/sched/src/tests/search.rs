//! When do others receive from a stuck worker's socket, and do all victims have their turn? Method:
//! searches of worker 0 under `steal`, beside four others.

use super::*;

/// The others have each been in one job since then, and have more jobs.
struct Busy(Nanos);

impl View for Busy {
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        (worker > 0).then_some(self.0)
    }

    fn backlog(&self, worker: WorkerId) -> usize {
        (worker > 0).into()
    }

    fn queue_len(&self, _: PoolId) -> usize {
        0
    }

    fn queued(&self) -> usize {
        4
    }

    fn asleep(&self, _: PoolId) -> usize {
        0
    }

    fn places(&self) -> usize {
        usize::MAX
    }
}

fn steps(policy: &Policy, local: &mut Local, since: Nanos) -> Vec<Step> {
    let view = Busy(since);
    let mut walk = policy.search(local, NOW, &view);
    std::iter::from_fn(|| walk.next(local, NOW, &view)).take(100).collect()
}

// Workers are stuck after 20 us, on any time scale.
#[test]
fn a_socket_is_helped_once_its_worker_is_stuck() {
    for time_scale in [1, 50] {
        let policy = Tuning { time_scale, ..tuning(5) }.policy("steal");
        let helps = |busy: Nanos| steps(&policy, &mut local(&policy), NOW.minus(busy)).contains(&Step::Receive(3));
        let threshold = Nanos::from_micros(20).times(time_scale);
        assert_eq!([threshold.minus(Nanos::new(1)), threshold].map(helps), [false, true], "{time_scale}");
    }
}

// Does a worker whose own socket always holds datagrams begin a search at the socket of a parked
// worker once in a while? Does it leave that of a worker with a long job to its owner?
#[test]
fn overload_does_not_close_the_socket_of_a_parked_worker() {
    for (name, since, counts) in [
        ("steal", Nanos::ZERO, 5..=20),
        ("shed", Nanos::ZERO, 5..=20),
        ("steal", NOW.minus(Nanos::from_millis(99)), 0..=0),
    ] {
        let policy = tuning(5).policy(name);
        let mut local = local(&policy);
        let searches = std::iter::repeat_with(|| steps(&policy, &mut local, since)).take(61 * 40);
        let firsts: Vec<_> = searches.filter_map(|steps| steps.first().copied()).collect();
        for owner in 1..5 {
            let times = firsts.iter().filter(|first| **first == Step::Receive(owner)).count();
            assert!(counts.contains(&times), "{name} since {since}: {times} times from worker {owner}");
        }
    }
}

// Do four searches begin with four different victims, among deques and among sockets?
#[test]
fn no_victim_is_always_the_first() {
    let policy = tuning(5).policy("steal");
    let mut local = local(&policy);
    let searches: Vec<_> = (0..4).map(|_| steps(&policy, &mut local, Nanos::ZERO)).collect();
    for others in [[1, 2, 3, 4].map(Step::Steal), [1, 2, 3, 4].map(Step::Receive)] {
        let first = |steps: &Vec<Step>| *steps.iter().find(|step| others.contains(step)).expect("all are searched");
        assert_eq!(searches.iter().map(first).collect::<HashSet<_>>(), HashSet::from(others), "{searches:?}");
    }
}

// Does a request move to the next pool after its slice? Does it take turns in the last pool if
// others wait there?
#[test]
fn in_the_last_pool_requests_take_turns() {
    let policy = &policies()[3];
    for (worker, pool, verdict) in [(0, 0, Verdict::Hop(1)), (2, 1, Verdict::Hop(2)), (4, 2, Verdict::TakeTurns)] {
        let verdicts = [49, 50].map(|ran_us| policy.at_checkpoint(&running(worker, pool, ran_us)));
        assert_eq!(verdicts, [Verdict::Keep, verdict], "pool {pool}");
    }
}
