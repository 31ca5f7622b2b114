//! CPU time of a process and its children, from the kernel's accounts.

use std::fs;

/// Nanoseconds of CPU time of all threads of `pid` and of its living descendants.
pub fn of_tree(pid: u32) -> u64 {
    let own: u64 = entries(&format!("/proc/{pid}/task"))
        .filter_map(|thread| fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    own + children(pid).map(of_tree).sum::<u64>()
}

fn children(parent: u32) -> impl Iterator<Item = u32> {
    entries("/proc").filter_map(|name| name.parse().ok()).filter(move |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|of| of.trim() == parent.to_string()))
    })
}

fn entries(path: &str) -> impl Iterator<Item = String> {
    fs::read_dir(path).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}
