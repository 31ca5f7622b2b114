//! Can a wake be lost, or a task be in two places, in any interleaving? The join state machine
//! itself is compiled against loom's atomics. loom must also catch a broken twin, which shows that
//! this test can fail.

/// The atomics for `join_state.rs`.
mod atomics {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[expect(dead_code, reason = "a yield is no part of this model")]
#[path = "../../src/continuation/join_state.rs"]
mod join_state;

use join_state::JoinState;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize as Unmodelled;

/// The state that a worker and the wakers of one task share.
trait Machine: Send + Sync + 'static {
    fn new() -> Self;
    fn begin(&self);
    fn park(&self) -> bool;
    fn wake(&self) -> bool;
}

impl Machine for JoinState {
    fn new() -> JoinState {
        JoinState::queued()
    }

    fn begin(&self) {
        JoinState::begin(self);
    }

    fn park(&self) -> bool {
        JoinState::park(self)
    }

    fn wake(&self) -> bool {
        JoinState::wake(self)
    }
}

/// A broken twin: it forgets a wake that comes while the task runs.
struct Forgetful(loom::sync::atomic::AtomicBool);

impl Machine for Forgetful {
    fn new() -> Forgetful {
        Forgetful(loom::sync::atomic::AtomicBool::new(false))
    }

    fn begin(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn park(&self) -> bool {
        self.0.store(true, Ordering::SeqCst);
        true
    }

    fn wake(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// A task that waits for two events. A thread announces each of them.
struct Task<M> {
    machine: M,
    events: AtomicUsize,
    /// Counters of the test. loom need not try different orders of these.
    ends: Unmodelled,
    inside: Unmodelled,
}

impl<M: Machine> Task<M> {
    /// The steps of a worker that took the task from a queue.
    fn work(&self) {
        loop {
            self.machine.begin();
            assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "one worker at a time");
            // Relaxed here and in the waker, because the state machine itself must carry the news.
            let done = self.events.load(Ordering::Relaxed) == 2;
            self.inside.fetch_sub(1, Ordering::Relaxed);
            if done {
                self.ends.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if self.machine.park() {
                return;
            }
        }
    }
}

/// The thread that queues the task also runs it, so the model needs no waiting worker. The task
/// must end exactly once.
fn two_wakers<M: Machine>() {
    let mut model = loom::model::Builder::new();
    // Known protocols of this kind break with one or two preemptions. All orders would take hours.
    model.preemption_bound = Some(3);
    model.check(|| {
        let counters = (AtomicUsize::new(0), Unmodelled::new(0), Unmodelled::new(0));
        let task = Arc::new(Task { machine: M::new(), events: counters.0, ends: counters.1, inside: counters.2 });
        let wakers = [0, 1].map(|_| {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                task.events.fetch_add(1, Ordering::Relaxed);
                if task.machine.wake() {
                    task.work();
                }
            })
        });
        task.work();
        wakers.into_iter().for_each(|waker| waker.join().expect("no waker fails"));
        assert_eq!(task.ends.load(Ordering::Relaxed), 1, "the task has ended, once");
    });
}

#[test]
fn no_wake_is_lost_and_no_task_runs_twice() {
    two_wakers::<JoinState>();
}

#[test]
fn loom_catches_a_machine_that_forgets() {
    assert!(catch_unwind(AssertUnwindSafe(two_wakers::<Forgetful>)).is_err());
}
