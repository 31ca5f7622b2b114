//! Does every policy look at everything it may serve, in its order, and stop looking?

use super::*;
use std::collections::HashSet;

/// Workers 1 and 2 have been in one job for a long time, worker 3 for a moment.
struct Fixed;

impl View for Fixed {
    fn now(&self) -> Nanos {
        Nanos::from_millis(10)
    }

    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        match worker {
            1 | 2 => Some(Nanos::ZERO),
            3 => Some(self.now()),
            _ => None,
        }
    }
}

fn policies() -> [Policy; 4] {
    let topology = Topology::new(&[2, 1, 2]);
    [
        Policy::new(Kind::Isolated(Isolated), &topology),
        Policy::new(Kind::Global(Global), &topology),
        Policy::new(Kind::Steal(Steal { thief_threshold: Nanos::from_micros(20) }), &topology),
        Policy::new(Kind::Pools(Pools { slice: Nanos::from_micros(50) }), &topology),
    ]
}

/// Every step of one search of `worker`, each answered with the next of `outcomes`, then with `Empty`.
fn search(policy: &Policy, worker: WorkerId, outcomes: &[Outcome]) -> Vec<Step> {
    let mut local = Local::new(worker, policy.topology());
    local.begin();
    let mut steps = Vec::new();
    let mut outcomes = outcomes.iter();
    loop {
        let step = policy.next(&mut local, &Fixed);
        steps.push(step);
        assert!(steps.len() < 100, "the search of worker {worker} ends");
        if matches!(step, Step::Idle { .. }) {
            return steps;
        }
        policy.told(&mut local, *outcomes.next().unwrap_or(&Outcome::Empty));
    }
}

#[test]
fn isolated_looks_at_nothing_of_others() {
    assert_eq!(search(&policies()[0], 3, &[]), [Step::Own, Step::Receive(3), Step::Idle { contended: false }]);
}

#[test]
fn global_looks_at_the_queue_then_at_every_socket() {
    let steps = search(&policies()[1], 0, &[]);
    assert_eq!(steps[0], Step::Queue(0));
    let sockets: HashSet<Step> = steps[1..6].iter().copied().collect();
    assert_eq!(sockets, (0..5).map(Step::Receive).collect());
    assert_eq!(steps.len(), 7);
}

#[test]
fn steal_looks_at_every_deque_and_at_the_sockets_of_the_stuck() {
    let steps = search(&policies()[2], 0, &[]);
    assert_eq!(steps[..2], [Step::Own, Step::Receive(0)]);
    let deques: HashSet<Step> = steps[2..6].iter().copied().collect();
    assert_eq!(deques, (1..5).map(Step::Steal).collect());
    let sockets: HashSet<Step> = steps[6..8].iter().copied().collect();
    assert_eq!(sockets, [Step::Receive(1), Step::Receive(2)].into(), "worker 3 will be back in a moment");
    assert_eq!(steps.len(), 9);
}

#[test]
fn pools_receive_in_the_ingress_only() {
    let policy = &policies()[3];
    let ingress = search(policy, 1, &[]);
    assert_eq!(ingress[..2], [Step::Own, Step::Queue(0)]);
    let sockets: HashSet<Step> = ingress[2..7].iter().copied().collect();
    assert_eq!(sockets, (0..5).map(Step::Receive).collect());
    assert_eq!(ingress[7..], [Step::Steal(0), Step::Idle { contended: false }]);
    assert_eq!(search(policy, 2, &[]), [Step::Queue(1), Step::Idle { contended: false }]);
    assert_eq!(search(policy, 4, &[]), [Step::Queue(2), Step::Idle { contended: false }]);
}

/// All sequences of outcomes up to a depth: a find begins the search anew, a competitor is remembered until then, and
/// before a worker may rest it has looked, since its last find, at everything it may serve.
#[test]
fn after_any_outcomes_a_resting_worker_has_looked_everywhere() {
    const DEPTH: u32 = 7;
    let all = [Outcome::Found, Outcome::Empty, Outcome::Contended];
    for policy in policies() {
        for worker in 0..5 {
            let everything: HashSet<Step> = search(&policy, worker, &[]).into_iter().collect();
            for sequence in 0..3_usize.pow(DEPTH) {
                let outcomes: Vec<Outcome> = (0..DEPTH).map(|digit| all[sequence / 3_usize.pow(digit) % 3]).collect();
                let steps = search(&policy, worker, &outcomes);
                let used = &outcomes[..outcomes.len().min(steps.len() - 1)];
                let since = used.iter().rposition(|outcome| *outcome == Outcome::Found).map_or(0, |find| find + 1);
                let contended = used[since..].contains(&Outcome::Contended);
                let mut seen: HashSet<Step> = steps[since..].iter().copied().collect();
                assert_eq!(steps.last(), Some(&Step::Idle { contended }), "{outcomes:?}");
                seen.remove(&Step::Idle { contended });
                seen.insert(Step::Idle { contended: false });
                assert_eq!(seen, everything, "worker {worker} after {outcomes:?}");
            }
        }
    }
}

#[test]
fn a_request_reaches_the_heavy_pool_by_class_by_hop_and_by_slice() {
    let policy = &policies()[3];
    assert_eq!(policy.place(0, Event::Arrived { class: None }), Place::Own);
    assert_eq!(policy.place(0, Event::Arrived { class: Some(0) }), Place::Own);
    assert_eq!(policy.place(0, Event::Arrived { class: Some(1) }), Place::Queue(1));
    assert_eq!(policy.place(0, Event::Arrived { class: Some(7) }), Place::Queue(2));
    assert_eq!(policy.at_hop(0, 2, Nanos::ZERO), Verdict::Hop(2));
    assert_eq!(policy.at_hop(0, 3, Nanos::ZERO), Verdict::Keep, "a pool that is not there");
    assert_eq!(policy.at_checkpoint(0, Nanos::from_micros(49)), Verdict::Keep);
    assert_eq!(policy.at_checkpoint(0, Nanos::from_micros(50)), Verdict::Hop(1));
    assert_eq!(policy.at_checkpoint(2, Nanos::from_secs(1)), Verdict::Keep, "the last pool runs to the end");
}

#[test]
fn who_receives_from_whom_follows_from_the_order() {
    let [isolated, global, steal, pools] = policies();
    assert!(isolated.receives_own(0) && !isolated.receives_others(0));
    assert!(global.receives_own(0) && global.receives_others(0));
    assert!(steal.receives_own(0) && steal.receives_others(0));
    assert!(pools.receives_own(0) && pools.receives_others(0));
    assert!(!pools.receives_own(1) && !pools.receives_others(2));
}
