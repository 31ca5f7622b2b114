//! What the twins do wrong.

use super::kernel::Fault;

/// The fault of a twin, compared with the real code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// The last look is before the announcement of sleep.
    LooksFirst,
    /// A worker is woken for a job before the job is in the queue.
    WakesFirst,
    /// A worker that begins a job does not wake another worker for the next one.
    WakesNoNext,
    /// The watcher keeps its role while it works.
    KeepsRole,
    /// A worker that begins a job leaves its ingress unwatched.
    HidesIngress,
    /// Sleepers are woken for a new policy before it is set.
    WakesBeforeSwitch,
    /// The number of pools remains that of the old policy.
    KeepsPools,
    /// A worker is woken for a queue that it no longer serves after a switch, and wakes no other.
    FollowsInSilence,
    /// A thief wakes no other worker for the jobs that it did not take.
    ForgetsRest,
    /// A worker that was busy does not put its ingress back into its `Poll` before it sleeps.
    SleepsBesideIngress,
    /// A worker checks for a stop only after its search.
    AsksLate,
    /// A worker asks for a notice only before its first slice of heavy work.
    AsksOnce,
    /// The kernel has this fault.
    Kernel(Fault),
}
