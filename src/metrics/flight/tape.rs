//! What a worker writes of each request that ends while a capture is on. While none is, it reads one flag for each.

use crate::time::Nanos;
use crossbeam_queue::ArrayQueue;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An arrival whose request has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub came_at: Nanos,
    pub received_at: Nanos,
    /// The CPU time in the handler.
    pub service: Nanos,
    pub class: u8,
    /// The number of the socket that it came to.
    pub socket: u16,
    /// The number of its flow, which the tape fills in.
    pub flow: u16,
    /// Whether it was served to the end: otherwise `service` says less than what it would have cost.
    pub served: bool,
}

/// Where one worker writes what ended. The memory is taken by the first capture, and stays.
#[derive(Debug)]
pub(super) struct Tape {
    // Ordering: relaxed. A worker that sees the flag late leaves out a request, which is then counted as left out.
    pub(super) is_on: AtomicBool,
    pub(super) ended: OnceLock<ArrayQueue<Ended>>,
    /// Requests that found no room.
    // Ordering: relaxed, it is a count.
    pub(super) missed: AtomicU64,
    /// With the keys of this server, so that the number of a flow does not give its address away.
    hasher: RandomState,
}

impl Tape {
    pub(super) fn new(hasher: RandomState) -> Tape {
        Tape { is_on: AtomicBool::new(false), ended: OnceLock::new(), missed: AtomicU64::new(0), hasher }
    }

    /// Writes a request that came from `peer`.
    #[cold]
    pub(super) fn write(&self, ended: &Ended, peer: impl Hash) {
        let flow = self.hasher.hash_one(peer) as u16;
        if self.ended.get().is_some_and(|tape| tape.push(Ended { flow, ..*ended }).is_err()) {
            self.missed.fetch_add(1, Relaxed);
        }
    }
}
