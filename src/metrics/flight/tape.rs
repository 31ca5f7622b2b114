//! What a worker writes of each request that ends while a capture is on. While none is, it reads one flag for each.

use super::ring::Ring;
use crate::time::Nanos;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

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
    /// Whether it was served to the end: otherwise `service` says less than what it would have cost.
    pub served: bool,
}

impl Ended {
    fn words(&self, flow: u16) -> [u64; 4] {
        let Ended { came_at, received_at, service, class, socket, served } = *self;
        let flow = u64::from(flow) << 32 | u64::from(socket) << 16 | u64::from(class) << 8 | u64::from(served);
        [came_at.get(), received_at.get(), service.get(), flow]
    }

    #[cfg(feature = "admin")]
    pub(super) fn of([came_at, received_at, service, mixed]: [u64; 4]) -> (Ended, u16) {
        let [came_at, received_at, service] = [came_at, received_at, service].map(Nanos::new);
        let [served, class, ..] = mixed.to_le_bytes();
        let (socket, served) = ((mixed >> 16) as u16, served > 0);
        (Ended { came_at, received_at, service, class, socket, served }, (mixed >> 32) as u16)
    }
}

/// Where one worker writes what ended. The memory is taken by the first capture, and stays.
#[derive(Debug)]
pub(super) struct Tape {
    // Ordering: relaxed. A worker that sees the flag late leaves out a request, which is then counted as left out.
    pub(super) is_on: AtomicBool,
    pub(super) ring: OnceLock<Ring<4>>,
    /// With the keys of this server, so that the number of a flow does not give its address away.
    hasher: RandomState,
}

impl Tape {
    pub(super) fn new(hasher: RandomState) -> Tape {
        Tape { is_on: AtomicBool::new(false), ring: OnceLock::new(), hasher }
    }

    /// Writes a request that came from `peer`. For the worker alone.
    #[cold]
    pub(super) fn write(&self, ended: &Ended, peer: impl Hash) {
        if let Some(ring) = self.ring.get() {
            ring.push(ended.words(self.hasher.hash_one(peer) as u16));
        }
    }
}
