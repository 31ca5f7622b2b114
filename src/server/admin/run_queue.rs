//! How long workers were ready to run while their CPU did something else: the kernel's `schedstat` of each thread.
//!
//! On a host that is shared, this is the part of a latency that is not the server's.

use crate::sched::WorkerId;
use crate::time::Nanos;
use nix::unistd::gettid;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};

/// The threads of all workers.
#[derive(Debug)]
pub(in crate::server) struct RunQueue {
    /// The kernel's number of each worker's thread; 0 before it runs.
    threads: Box<[AtomicI32]>,
}

impl RunQueue {
    /// The threads of this many workers, of which none runs yet.
    pub(in crate::server) fn new(workers: usize) -> RunQueue {
        RunQueue { threads: (0..workers).map(|_| AtomicI32::new(0)).collect() }
    }

    /// Notes that the calling thread is that of `worker`.
    pub(in crate::server) fn enter(&self, worker: WorkerId) {
        // Ordering: relaxed, a number that guards nothing.
        self.threads[worker].store(gettid().as_raw(), Ordering::Relaxed);
    }

    /// For each worker, how long its thread has waited for a CPU since it began; `None` where the kernel does not say.
    pub(in crate::server) fn waits(&self) -> Vec<Option<Nanos>> {
        let thread = |thread: &AtomicI32| match thread.load(Ordering::Relaxed) {
            0 => Some(Nanos::ZERO),
            id => wait(&fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?),
        };
        self.threads.iter().map(thread).collect()
    }
}

/// The second figure of a thread's `schedstat` (`Documentation/scheduler/sched-stats.rst`): nanoseconds on a run queue.
fn wait(schedstat: &str) -> Option<Nanos> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_second_figure() {
        assert_eq!(wait("123 456 7\n"), Some(Nanos::new(456)));
        assert_eq!((wait(""), wait("1"), wait("1 x 2")), (None, None, None));
    }

    // Is a thread read once it has begun, and no other one?
    #[test]
    fn a_thread_that_has_begun_is_read() {
        let queue = RunQueue::new(2);
        assert_eq!(queue.waits(), [Some(Nanos::ZERO); 2]);
        queue.enter(1);
        assert!(matches!(queue.waits()[..], [Some(Nanos::ZERO), Some(_)]), "{:?}", queue.waits());
    }
}
