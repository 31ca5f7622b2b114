//! What became of a thread's time: it worked, it waited for something, or the kernel ran others in its place.

use crate::time::{Nanos, clock};
use nix::sys::resource::{UsageWho, getrusage};

/// CPU time and waits of the calling thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::server::path) struct ThreadUse {
    /// CPU time of the thread.
    cpu: Nanos,
    /// Number of voluntary context switches: waits for something else than the processor.
    waits: i64,
}

impl ThreadUse {
    /// Two system calls, 1 us. An `emulated` core sleeps while it works: there all time counts as CPU time.
    pub(in crate::server::path) fn now(emulated: bool) -> ThreadUse {
        if emulated {
            return ThreadUse { cpu: clock::now(), waits: 0 };
        }
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every kernel counts this");
        ThreadUse { cpu: clock::of_thread(), waits: usage.voluntary_context_switches() }
    }

    /// The most that the thread can have worked for since `before`; `None` where it has waited, which may have been its work's
    /// doing.
    pub(in crate::server::path) fn worked_since(&self, before: &ThreadUse) -> Option<Nanos> {
        (self.waits == before.waits).then(|| self.cpu.minus(before.cpu))
    }
}

#[cfg(test)]
pub(in crate::server::path) mod tests {
    use super::*;

    /// A thread that has used this much CPU time, and waited so often.
    pub(in crate::server::path) fn used(cpu: Nanos, waits: i64) -> ThreadUse {
        ThreadUse { cpu, waits }
    }

    // Is a thread that works told from one that waits?
    #[test]
    fn work_is_told_from_waiting() {
        let before = ThreadUse::now(false);
        let worked = Nanos::from_millis(3);
        while clock::of_thread().minus(before.cpu) < worked {
            std::hint::spin_loop();
        }
        let after = ThreadUse::now(false);
        assert!(after.worked_since(&before).is_some_and(|cpu| cpu >= worked), "{before:?} {after:?}");
        std::thread::sleep(worked.into());
        assert_eq!(ThreadUse::now(false).worked_since(&after), None);
        let emulated = ThreadUse::now(true);
        std::thread::sleep(worked.into());
        assert!(ThreadUse::now(true).worked_since(&emulated).is_some_and(|cpu| cpu >= worked));
    }
}
