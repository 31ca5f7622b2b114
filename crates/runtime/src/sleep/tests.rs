//! Which sleeper is woken? `tests/loom` checks the whole protocol.

use super::idle::{Idle, Readiness};
use crate::sched::{Tuning, WorkerId};
use crate::time::Nanos;
use std::cell::RefCell;

/// The workers that were woken, in order.
#[derive(Default)]
struct Woken(RefCell<Vec<WorkerId>>);

impl Readiness for Woken {
    fn wake(&self, worker: WorkerId) {
        self.0.borrow_mut().push(worker);
    }

    fn arm(&self, _: WorkerId, _: bool) {}

    fn watch(&self, _: WorkerId, _: bool) {}

    fn own(&self, _: WorkerId, _: bool) {}
}

// If the first pool is busy, does a wake from outside find the only sleeper of the second pool, and
// wake it once?
#[test]
fn a_wake_from_outside_finds_a_sleeper_of_any_pool() {
    let policy = Tuning { sizes: Some(vec![2, 1]), ..Tuning::new(3, Nanos::from_micros(50)) }.policy("pools");
    let idle = Idle::new(&policy, policy.queues(), Woken::default());
    idle.announce(2, false);
    assert_eq!([(); 2].map(|()| idle.wake_any()), [true, false]);
    assert_eq!(idle.readiness.0.take(), [2]);
    for worker in [2, 1] {
        idle.announce(worker, false);
    }
    assert!(idle.wake_any());
    assert_eq!(idle.readiness.0.take(), [1], "one of the first pool, if any, and only one");
}
