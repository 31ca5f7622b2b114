//! File descriptors: the limit is raised as far as the kernel allows, and an error names the number needed.

use super::ServeError;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;

/// Descriptors per worker besides its sockets. These are its readiness queue, that queue's second handle, its wake-up,
/// and the ring in which the kernel gives notices.
const PER_WORKER: u64 = 4;

/// Descriptors for all workers together: the watch set, the admin endpoint with its 32 connections, signals, and files
/// read in between.
const TOGETHER: u64 = 64;

/// Assumed number of descriptors already open in a process where that cannot be read.
const USUAL: u64 = 8;

/// Raises the limit to what the kernel allows this process.
///
/// # Errors
/// [`ServeError::Descriptors`] when that is too little for `workers` workers on this many addresses.
pub(super) fn provide(workers: usize, addresses: usize) -> Result<(), ServeError> {
    let open = fs::read_dir("/proc/self/fd").map_or(USUAL, |entries| entries.count() as u64);
    let needed = needed(workers, addresses, open);
    // A limit that cannot be read or raised shows when sockets are opened.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let allowed = if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err() { soft } else { hard };
    if allowed < needed {
        return Err(ServeError::Descriptors { workers, needed, allowed });
    }
    Ok(())
}

fn needed(workers: usize, addresses: usize, open: u64) -> u64 {
    open + workers as u64 * (PER_WORKER + addresses as u64) + TOGETHER
}
