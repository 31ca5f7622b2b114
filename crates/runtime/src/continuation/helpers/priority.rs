//! The priority of helpers, and of other threads that give way to workers.

use crate::time::Nanos;
use nix::libc::{SCHED_FLAG_KEEP_POLICY, SCHED_OTHER, SYS_sched_setattr, sched_attr, syscall};
use rustix::process::{getpriority_process, setpriority_process};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::{fs, io};

/// The nice value of helpers. A helper gets 1/69 of the CPU time of a worker on the same CPU.
pub(super) const NICE: i32 = 19;

/// The nice value of the spare helper. It gets a fifth of a CPU whose worker never sleeps.
pub(super) const NICE_OF_SPARE: i32 = 6;

/// The time that a helper may run before the kernel looks for another thread: the longest that
/// Linux allows. A worker, whose time is shorter, takes the CPU when it wakes. With equal times it
/// may have to wait until the helper has used its own.
const SLICE: Nanos = Nanos::from_millis(100);

/// The same for the spare helper: the kernel's usual time. Its share is so large that a worker
/// often owes it time, and then may not take the CPU before the slice ends.
const SLICE_OF_SPARE: Nanos = Nanos::ZERO;

/// What has become of the priority of some threads.
// Ordering: relaxed throughout, for pages and the log.
pub struct Priorities {
    /// Whether a thread has left a real-time policy.
    left_real_time: AtomicBool,
    /// The error with which the system has denied a thread its priority; 0 = none.
    denied: AtomicI32,
}

/// The priorities of all helpers.
pub static PRIORITIES: Priorities = Priorities::new();

/// Gives this thread the lowest ordinary priority, also if it has had real-time priority. When
/// workers wake, they take its CPU at once, from Linux 6.12 on.
///
/// # Errors
/// If the system denies `setpriority(2)` or `sched_setattr(2)`, as filters of system calls do.
pub fn step_back() -> io::Result<()> {
    step_back_to(NICE)
}

/// Steps back as [`step_back`] does, to this nice value.
pub(super) fn step_back_to(nice: i32) -> io::Result<()> {
    // Some filters allow this call only.
    setpriority_process(None, nice)?;
    set(SCHED_OTHER as u32, 0, nice, if nice == NICE_OF_SPARE { SLICE_OF_SPARE } else { SLICE })
}

impl Priorities {
    const fn new() -> Priorities {
        Priorities { left_real_time: AtomicBool::new(false), denied: AtomicI32::new(0) }
    }

    /// Lets this thread, a helper that starts, [step back](step_back_to). Logs the first error.
    pub(super) fn begin(&self, nice: i32) {
        self.left_real_time.fetch_or(is_real_time(), Ordering::Relaxed);
        if let Err(error) = step_back_to(nice)
            && self.denied.swap(error.raw_os_error().unwrap_or(-1), Ordering::Relaxed) == 0
        {
            tracing::warn!(%error, "helper threads do not give way to workers: sched_setattr fails");
        }
    }

    /// What an operator should know, a line of text each.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let left = self.left_real_time.load(Ordering::Relaxed);
        let left = left.then(|| "helpers have left real time: they get the CPU time that it leaves".to_owned());
        let denied = self.denied.load(Ordering::Relaxed);
        let denied = (denied != 0).then(|| io::Error::from_raw_os_error(denied));
        let denied = denied.map(|error| format!("helpers do not give way to workers: sched_setattr: {error}"));
        left.into_iter().chain(denied)
    }
}

/// Lets workers that wake take this thread's CPU at once: `sched_setattr(2)`, from Linux 6.12 on.
/// The nice value stays.
///
/// # Errors
/// If the system denies the call, or the thread has a real-time policy, which it keeps.
pub fn give_way() -> io::Result<()> {
    set(0, SCHED_FLAG_KEEP_POLICY as u64, getpriority_process(None)?, SLICE)
}

fn set(policy: u32, flags: u64, nice: i32, slice: Nanos) -> io::Result<()> {
    let attributes = sched_attr {
        size: size_of::<sched_attr>() as u32,
        sched_policy: policy,
        sched_flags: flags,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice.get(),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns. It
    // changes nothing but this thread's scheduling.
    #[expect(unsafe_code, reason = "no crate sets a slice, and p99 is a third lower: benches/RESULTS.md, quic")]
    let result = unsafe { syscall(SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this thread has a real-time policy.
fn is_real_time() -> bool {
    policy().is_some_and(|policy| policy != SCHED_OTHER && policy <= nix::libc::SCHED_RR)
}

/// The scheduling policy of this thread: field 41 of `/proc/PID/stat`.
fn policy() -> Option<i32> {
    let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The name of the thread may contain spaces; the third field follows it.
    stat.rsplit_once(") ")?.1.split(' ').nth(38)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use thread_priority::{
        RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id,
    };

    /// The policy, the nice value and the slice of this thread. Kernels before 6.12 show no slice.
    fn scheduling() -> (Option<i32>, i32, Option<String>) {
        let own = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let slice = own.lines().find_map(|line| line.strip_prefix("se.slice")?.split_once(':'));
        let nice = getpriority_process(None).expect("it has one");
        (policy(), nice, slice.map(|(_, slice)| slice.trim().to_owned()))
    }

    // Does a thread that steps back leave real time, and has it the slice of its nice value? If
    // the system denies that, is it told?
    #[test]
    fn a_helper_leaves_real_time_and_an_error_is_told() {
        static PRIORITIES: Priorities = Priorities::new();
        let begun = thread::spawn(|| {
            let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
            let hurried = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).is_ok();
            assert_eq!(is_real_time(), hurried);
            assert!(!hurried || give_way().is_err(), "it keeps the policy");
            PRIORITIES.begin(NICE_OF_SPARE);
            (hurried, [NICE_OF_SPARE, NICE].map(|nice| (nice, step_back_to(nice), scheduling())))
        });
        let (hurried, found) = begun.join().expect("no panic");
        let remarks: Vec<_> = PRIORITIES.remarks().collect();
        assert_eq!(remarks.iter().any(|remark| remark.contains("real time")), hurried, "{remarks:?}");
        let denied = found.iter().any(|(_, allowed, _)| allowed.is_err());
        assert_eq!(remarks.iter().any(|remark| remark.contains("sched_setattr")), denied, "{remarks:?}");
        for (nice, _, (policy, is_nice, slice)) in found.iter().filter(|(_, allowed, _)| allowed.is_ok()) {
            assert_eq!((policy, is_nice), (&Some(SCHED_OTHER), nice));
            let longest = SLICE.get().to_string();
            assert!(slice.as_ref().is_none_or(|slice| (*slice == longest) == (*nice == NICE)), "{nice}: {slice:?}");
        }
    }
}
