//! `--pin`: one CPU for each worker.

use crate::sched::WorkerId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Pins the calling thread to the CPU of `worker`. Each worker has one of the CPUs that the process may use, in order.
/// Where there are more workers, they start again at the first.
pub(super) fn pin_to_cpu_of(worker: WorkerId) -> nix::Result<()> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread)?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let Some(cpu) = cpus.get(worker % cpus.len().max(1)) else { return Ok(()) };
    let mut one = CpuSet::new();
    one.set(*cpu)?;
    sched_setaffinity(this_thread, &one)
}
