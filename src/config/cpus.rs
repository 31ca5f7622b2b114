//! How many CPUs this process may use.

use super::WORKERS_MAX;
use std::num::NonZero;

/// CPUs that this process may use: those of the calling thread's affinity mask, but not more than the CPU quota of its
/// cgroup (v1 or v2), at least 1 and at most [`WORKERS_MAX`]. Read anew at each call.
///
/// A quota of 2.5 CPUs counts as 2. Workers that outnumber their quota are all stopped together for the rest of each
/// scheduling period, up to 100 ms, which no scheduling policy can hide; the half CPU left over serves the admin
/// endpoint.
pub fn cpus() -> usize {
    // On Linux the standard library reads sched_getaffinity and walks the cgroup's quotas up to its root. It fails
    // only where there is no such call.
    std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    // Is it the affinity mask that counts, not the machine? A thread of our own narrows its mask to one CPU.
    #[test]
    fn the_affinity_mask_limits_the_count() {
        let narrowed = std::thread::spawn(|| {
            let calling_thread = Pid::from_raw(0);
            let mask = sched_getaffinity(calling_thread).unwrap();
            let first = (0..CpuSet::count()).find(|&cpu| mask.is_set(cpu).unwrap()).unwrap();
            let mut one = CpuSet::new();
            one.set(first).unwrap();
            sched_setaffinity(calling_thread, &one).unwrap();
            cpus()
        });
        assert_eq!(narrowed.join().unwrap(), 1);
    }
}
