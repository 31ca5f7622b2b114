//! For how long workers were ready to run while their CPU ran other threads, by the kernel's
//! `schedstat` of each thread.
//!
//! On a shared host, this is the part of a latency that has its cause outside the server.

use crate::time::Nanos;
use nix::unistd::gettid;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};

/// Stores the id of the calling thread, a worker's, in `thread`.
pub fn enter(thread: &AtomicI32) {
    // Ordering: relaxed, because the number guards no other data.
    thread.store(gettid().as_raw(), Ordering::Relaxed);
}

/// For each worker, how long its thread has waited for a CPU since its start. `None` if the kernel
/// does not report it.
pub fn waits(threads: &[AtomicI32]) -> Vec<Option<Nanos>> {
    let thread = |thread: &AtomicI32| match thread.load(Ordering::Relaxed) {
        0 => Some(Nanos::ZERO),
        id => wait_of(id),
    };
    threads.iter().map(thread).collect()
}

/// How long the thread with this id has waited for a CPU since its start. `None` if the kernel does
/// not report it.
pub fn wait_of(thread: i32) -> Option<Nanos> {
    wait(&fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

/// The second figure of a thread's `schedstat` (`Documentation/scheduler/sched-stats.rst`):
/// nanoseconds on a run queue.
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

    // Is a thread's figure read once the thread has begun, and zero before?
    #[test]
    fn a_thread_that_has_begun_is_read() {
        let threads: [AtomicI32; 2] = Default::default();
        assert_eq!(waits(&threads), [Some(Nanos::ZERO); 2]);
        enter(&threads[1]);
        assert!(matches!(waits(&threads)[..], [Some(Nanos::ZERO), Some(_)]), "{:?}", waits(&threads));
    }
}
