//! What a thread has had of its processor.

use super::{Nanos, clock};
use nix::sys::resource::{UsageWho, getrusage};

/// CPU time and waits of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// CPU time of the thread.
    pub cpu: Nanos,
    /// Number of voluntary context switches: waits for something else than the processor.
    pub waits: i64,
}

impl ThreadUse {
    /// The use of the calling thread. Two system calls, 1 us.
    #[cold]
    pub fn now() -> ThreadUse {
        #[cfg(test)]
        if clock::in_virtual_time::is_set() {
            return ThreadUse { cpu: clock::of_thread(), waits: 0 };
        }
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every kernel counts this");
        ThreadUse { cpu: clock::of_thread(), waits: usage.voluntary_context_switches() }
    }

    /// The most that the thread can have worked for since `before`; `None` where it has waited,
    /// which may have been its work's doing.
    pub fn worked_since(&self, before: &ThreadUse) -> Option<Nanos> {
        (self.waits == before.waits).then(|| self.cpu.minus(before.cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a thread that works told from one that waits?
    #[test]
    fn work_is_told_from_waiting() {
        let before = ThreadUse::now();
        let worked = Nanos::from_millis(3);
        while clock::of_thread().minus(before.cpu) < worked {
            std::hint::spin_loop();
        }
        let after = ThreadUse::now();
        assert!(after.worked_since(&before).is_some_and(|cpu| cpu >= worked), "{before:?} {after:?}");
        std::thread::sleep(worked.into());
        assert_eq!(ThreadUse::now().worked_since(&after), None);
    }
}
