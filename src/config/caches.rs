//! The CPUs that this process may use, and the last-level caches that they share.

use crate::runtime::cpus::allowed;
use std::fs;
use std::path::Path;

/// The CPUs that this process may use, grouped by last-level cache. In numerical order where the
/// kernel does not tell the caches.
pub(crate) fn cpus_by_cache() -> Vec<usize> {
    by_cache(Path::new(SYSFS), allowed()).into_iter().map(|(_, cpu)| cpu).collect()
}

/// Number of last-level caches that the CPUs of the first `workers` workers have. `None` where the
/// kernel does not tell, or there are fewer CPUs than workers.
pub(super) fn used(workers: usize) -> Option<usize> {
    count(&by_cache(Path::new(SYSFS), allowed()), workers)
}

const SYSFS: &str = "/sys/devices/system/cpu";

fn count(by_cache: &[(Option<usize>, usize)], workers: usize) -> Option<usize> {
    let mut caches: Vec<usize> = by_cache.get(..workers)?.iter().map(|(cache, _)| *cache).collect::<Option<_>>()?;
    caches.dedup();
    Some(caches.len())
}

/// Pairs each CPU with the lowest CPU that shares its last-level cache, sorted by both.
fn by_cache(root: &Path, cpus: Vec<usize>) -> Vec<(Option<usize>, usize)> {
    let mut all: Vec<_> = cpus.into_iter().map(|cpu| (first_of_cache(root, cpu), cpu)).collect();
    all.sort_unstable();
    all
}

/// The lowest CPU that shares the last-level cache of `cpu`.
fn first_of_cache(root: &Path, cpu: usize) -> Option<usize> {
    let caches = fs::read_dir(root.join(format!("cpu{cpu}/cache"))).ok()?;
    let number = |text: String| text.split([',', '-', '\n']).next()?.trim().parse::<usize>().ok();
    let read = |path: &Path, name: &str| number(fs::read_to_string(path.join(name)).ok()?);
    let shared = caches.flatten().filter_map(|cache| {
        let path = cache.path();
        Some((read(&path, "level")?, read(&path, "shared_cpu_list")?))
    });
    shared.max().map(|(_, first)| first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::grouping::groups_of;

    /// A simulated sysfs with `cpus` CPUs. Each CPU has a cache of its own. CPUs of equal number
    /// modulo `caches` share another one.
    fn host(name: &str, cpus: usize, caches: usize) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("forebay-caches-{name}-{}", std::process::id()));
        for cpu in 0..cpus {
            let shared = (0..cpus).filter(|other| other % caches == cpu % caches).map(|other| other.to_string());
            let shared = shared.collect::<Vec<_>>().join(",");
            for (index, level, shared) in [(0, 1, cpu.to_string()), (3, 3, shared)] {
                let cache = root.join(format!("cpu{cpu}/cache/index{index}"));
                fs::create_dir_all(&cache).expect("a directory");
                fs::write(cache.join("level"), format!("{level}\n")).expect("a file");
                fs::write(cache.join("shared_cpu_list"), format!("{shared}\n")).expect("a file");
            }
        }
        root
    }

    // Do groups follow the caches of a host of 64 CPUs? Do consecutive workers share a cache?
    #[test]
    fn groups_follow_the_caches() {
        let root = host("64", 64, 8);
        let cpus = by_cache(&root, (0..64).collect());
        fs::remove_dir_all(&root).expect("it is there");
        assert_eq!((count(&cpus, 64), count(&cpus, 32), count(&cpus, 65)), (Some(8), Some(4), None));
        assert_eq!(groups_of(64, count(&cpus, 64)), 4);
        let of_group = |group: usize| cpus[16 * group..][..16].iter().map(|(_, cpu)| cpu % 8);
        for group in 0..4 {
            assert!(of_group(group).all(|cache| cache / 2 == group), "two caches make a group");
        }
    }

    // Do CPUs keep their order where sysfs says nothing?
    #[test]
    fn without_sysfs_cpus_keep_their_order() {
        let cpus = by_cache(Path::new("/nonexistent"), vec![0, 2, 3]);
        assert_eq!(cpus, [(None, 0), (None, 2), (None, 3)]);
        assert_eq!(count(&cpus, 2), None);
    }
}
