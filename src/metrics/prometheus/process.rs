//! The kernel's figures of this process, from `/proc`. A figure that cannot be read is left out.

use std::fs;

/// Ticks per second in `/proc/self/stat`: `USER_HZ`, which is 100 on every Linux that Rust has a standard library for.
const TICKS_PER_SECOND: f64 = 100.0;

/// One reading of `/proc`. A field is `None` where the system does not report it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// User and system time of all threads; counted in steps of 10 ms.
    pub(super) cpu_seconds: Option<f64>,
    pub(super) resident_memory_bytes: Option<f64>,
    pub(super) virtual_memory_bytes: Option<f64>,
    pub(super) open_fds: Option<f64>,
    /// The soft limit of open files; infinite where there is no limit.
    pub(super) max_fds: Option<f64>,
    /// Start of the process since the Unix epoch.
    pub(super) start_time_seconds: Option<f64>,
    pub(super) threads: Option<f64>,
}

impl Process {
    /// Reads the figures of this process.
    pub(super) fn read() -> Process {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, status, limits) = (read("/proc/self/stat"), read("/proc/self/status"), read("/proc/self/limits"));
        Process {
            cpu_seconds: cpu_seconds(&stat),
            resident_memory_bytes: kibibytes(&status, "VmRSS:"),
            virtual_memory_bytes: kibibytes(&status, "VmSize:"),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64),
            max_fds: max_fds(&limits),
            start_time_seconds: start_time_seconds(&stat, &read("/proc/stat")),
            threads: word_after(&status, "Threads:"),
        }
    }
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_time_seconds(stat: &str, system_stat: &str) -> Option<f64> {
    Some(word_after(system_stat, "btime")? + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

fn kibibytes(status: &str, key: &str) -> Option<f64> {
    Some(word_after(status, key)? * 1_024.0)
}

fn max_fds(limits: &str) -> Option<f64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(f64::INFINITY) } else { soft.parse().ok() }
}

/// A field of `/proc/self/stat` by its number in proc_pid_stat(5). The second field is the program's name in
/// parentheses, which may contain spaces and parentheses.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, from_third) = stat.rsplit_once(')')?;
    from_third.split_whitespace().nth(number - 3)?.parse().ok()
}

fn word_after(text: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the right fields read, whatever the program's name?
    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a b) c)) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 1234 1000 10";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(start_time_seconds(stat, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_012.34));
        assert_eq!(kibibytes("VmSize:\t    2048 kB\nVmRSS:\t 3 kB\n", "VmRSS:"), Some(3_072.0));
        assert_eq!(
            max_fds("Max open files            1024                 4096                 files\n"),
            Some(1_024.0)
        );
        assert_eq!(
            max_fds("Max open files            unlimited            unlimited            files\n"),
            Some(f64::INFINITY)
        );
        assert_eq!(cpu_seconds(""), None);
    }

    /// Does this test's own process have what every process has?
    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_files_and_threads() {
        let process = Process::read();
        for value in [process.resident_memory_bytes, process.virtual_memory_bytes, process.open_fds, process.threads] {
            assert!(value.is_some_and(|value| value >= 1.0), "{process:?}");
        }
        assert!(process.max_fds >= process.open_fds, "{process:?}");
        assert!(process.start_time_seconds.is_some_and(|seconds| seconds > 1e9), "{process:?}");
        assert!(process.cpu_seconds.is_some(), "{process:?}");
    }
}
