//! The standard process metrics, from `/proc`. Figures that cannot be read are left out.

use crate::snapshot::{OwnKind, OwnValue};
use std::fs;

/// Clock ticks per second in `/proc/self/stat` (`USER_HZ`): 100 on every Linux with Rust's standard
/// library.
const TICKS_PER_SECOND: f64 = 100.0;

/// The standard metrics of this process, with the names that all client libraries use.
pub(super) fn values() -> Vec<OwnValue> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (stat, status, limits) = (read("/proc/self/stat"), read("/proc/self/status"), read("/proc/self/limits"));
    let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    let start_time = start_time_seconds(&stat, &read("/proc/stat"));
    let figures = [
        ("cpu_seconds", "Total user and system CPU time spent in seconds", cpu_seconds(&stat)),
        ("resident_memory_bytes", "Resident memory size in bytes", kibibytes(&status, "VmRSS:")),
        ("virtual_memory_bytes", "Virtual memory size in bytes", kibibytes(&status, "VmSize:")),
        ("open_fds", "Number of open file descriptors", open_fds),
        ("max_fds", "Maximum number of open file descriptors", max_fds(&limits)),
        ("start_time_seconds", "Start time of the process since the Unix epoch in seconds", start_time),
        ("threads", "Number of threads in the process", word_after(&status, "Threads:")),
    ];
    let value = |(name, help, value): (&str, &str, Option<f64>)| {
        let kind = if name == "cpu_seconds" { OwnKind::Counter } else { OwnKind::Gauge };
        Some(OwnValue { name: format!("process_{name}"), help: help.to_owned(), kind, value: value? })
    };
    figures.into_iter().filter_map(value).collect()
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

/// A field of `/proc/self/stat` by its number in proc_pid_stat(5). The second field, the program's
/// name in parentheses, may contain spaces and parentheses.
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

    /// Does this test's process have the figures that every process has?
    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_files_and_threads() {
        let values = values();
        let value = |name: &str| {
            let found = values.iter().find(|value| value.name == format!("process_{name}"));
            found.unwrap_or_else(|| panic!("{name} in {values:?}")).value
        };
        for name in ["resident_memory_bytes", "virtual_memory_bytes", "open_fds", "threads"] {
            assert!(value(name) >= 1.0, "{values:?}");
        }
        assert!(value("max_fds") >= value("open_fds"), "{values:?}");
        assert!(value("start_time_seconds") > 1e9 && value("cpu_seconds") >= 0.0, "{values:?}");
    }
}
