//! How many CPUs this process may use, and for how long the kernel stopped it because it used more.

pub mod run_queue;

use crate::time::Nanos;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::{fs, thread};

/// Number of CPUs that this process may use, at least 1. It is the number of CPUs in the affinity
/// mask of the calling thread, or the CPU quota if that is smaller. The quota is the smallest one
/// of the process's cgroup and its ancestors (v1 or v2). Each call reads the values again.
///
/// A quota of 1.5 CPUs counts as 2, because one worker would leave a third of the quota unused. Two
/// workers that are always busy are throttled for a quarter of each period, and `/slow` reports it.
pub fn cpus() -> usize {
    let quota = folders(&own()).iter().filter_map(|folder| quota(folder)).min();
    // An affinity mask holds at most 1,024 CPUs.
    let cpus = match allowed().len() {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        allowed => allowed,
    };
    cpus.min(quota.unwrap_or(usize::MAX)).clamp(1, CpuSet::count())
}

/// The CPUs in the calling thread's affinity mask.
pub fn allowed() -> Vec<usize> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread);
    (0..CpuSet::count()).filter(|cpu| allowed.is_ok_and(|set| set.is_set(*cpu).unwrap_or(false))).collect()
}

/// How often the kernel throttled this process because the quota of its cgroup or of an ancestor
/// was used up. Returns the number of scheduling periods, and how long threads were stopped, summed
/// over CPUs. `None` if no cgroup reports this.
pub fn throttled() -> Option<(u64, Nanos)> {
    let each = folders(&own()).into_iter().filter_map(|folder| {
        let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let time = figure("throttled_usec ").map(Nanos::from_micros).or(figure("throttled_time ").map(Nanos::new));
        Some((figure("nr_throttled ")?, time?))
    });
    each.reduce(|(periods, time), (more, longer)| (periods + more, time.plus(longer)))
}

const CGROUPS: &str = "/sys/fs/cgroup";

fn own() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The folders with CPU limits for a process of these cgroups (`/proc/PID/cgroup`), up to the root.
/// In a container, the paths may be those of the host, where only the root exists.
fn folders(cgroups: &str) -> Vec<PathBuf> {
    let hierarchy = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = match controllers {
            // Version 2.
            "" => PathBuf::from(CGROUPS),
            _ => {
                controllers.split(',').any(|controller| controller == "cpu").then(|| Path::new(CGROUPS).join("cpu"))?
            }
        };
        Some(Path::new(path.trim_start_matches('/')).ancestors().map(|path| root.join(path)).collect::<Vec<_>>())
    };
    cgroups.lines().filter_map(hierarchy).flatten().collect()
}

/// The CPU quota in `folder`, in CPUs, rounded up; `None` = no quota.
fn quota(folder: &Path) -> Option<usize> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let text = read("cpu.max").or_else(|| Some(read("cpu.cfs_quota_us")? + &read("cpu.cfs_period_us")?))?;
    // Without a quota the file says `max`, or -1.
    let mut figures = text.split_whitespace().map_while(|figure| figure.parse::<u64>().ok());
    let (quota, period) = (figures.next()?, figures.next()?);
    usize::try_from(quota.div_ceil(period.max(1))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a quota rounded up, in both versions of cgroups? Is there none if none is set?
    #[test]
    fn a_part_of_a_cpu_counts_as_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).expect("a file");
        let now = || quota(folder.path());
        assert_eq!(now(), None);
        write("cpu.cfs_period_us", "100000\n");
        let old = ["-1\n", "150000\n", "200000\n", "1000\n"].map(|text| {
            write("cpu.cfs_quota_us", text);
            now()
        });
        let new = ["max 100000\n", "150000 100000\n", "100000 50000\n", "1000 100000\n"].map(|text| {
            write("cpu.max", text);
            now()
        });
        assert_eq!((old, new), ([None, Some(2), Some(2), Some(1)], [None, Some(2), Some(2), Some(1)]));
    }

    // Do all cgroups up to the root count, and only hierarchies that limit CPU time?
    #[test]
    fn every_cgroup_above_counts() {
        let cgroups = "5:memory:/x\n3:cpu,cpuacct:/one\n2:cpuset:/y\n0::/a.slice/b.service\n";
        let expected = ["cpu/one", "cpu", "a.slice/b.service", "a.slice", ""];
        assert_eq!(folders(cgroups), expected.map(|path| Path::new(CGROUPS).join(path)));
    }
}
