//! Profiles: the protocols that a run can speak. A profile writes the datagrams of requests and
//! reads replies. The rest of a run knows no bytes.

mod bench;
mod payload;

pub(crate) use bench::sockets_of;
pub use payload::{Match, Payload};

use crate::lab::workload::{Arrival, Workload};
use bench::Bench;
use forebay::inside::wire::{Served, Status};
use forebay::time::Nanos;
use std::fmt::Debug;
use std::sync::Arc;

/// A protocol: how requests are written and replies are read. It keeps no state of a run.
pub(crate) trait Profile: Debug + Send + Sync {
    /// The protocol, as in "a server of the bench protocol".
    fn protocol(&self) -> &'static str;

    /// The names of the classes of requests.
    fn classes(&self) -> &[&'static str];

    /// Appends the datagram of an attempt (from 0) at `request`, whose number is `id`.
    fn write(&self, run: Common, id: u64, attempt: u8, request: &Arrival, into: &mut Vec<u8>);

    /// What `reply` tells. `None` if it is no reply of this protocol, or one of another run.
    fn read(&self, run: Common, reply: &[u8]) -> Option<Told>;

    /// Whether `reply` fits request `id` in more than the bits of its number.
    fn answers(&self, _id: u64, _reply: &[u8]) -> bool {
        true
    }
}

/// What the datagrams of one run have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// A number that no other run has.
    pub(crate) session: u64,
    /// The deadline of each request; 0 = none.
    pub(crate) deadline_us: u32,
    /// Whether a request may come again.
    pub(crate) may_repeat: bool,
}

/// What a reply tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The number of the request, or its low bits.
    pub(crate) id: u64,
    /// How many bits of the number `id` has; 0 = the reply repeats nothing of it.
    pub(crate) id_bits: u32,
    /// The attempt that it answers.
    pub(crate) attempt: u8,
    pub(crate) status: Status,
    /// How long the client of a shed request should wait before the next attempt.
    pub(crate) retry_after: Nanos,
    /// Where and how the request was served.
    pub(crate) served: Served,
}

impl Told {
    /// An answer that tells nothing but these `id_bits` of a number.
    pub(crate) fn answer(id: u64, id_bits: u32) -> Told {
        let (status, retry_after, served) = (Status::Ok, Nanos::ZERO, Served::default());
        Told { id, id_bits, attempt: 0, status, retry_after, served }
    }
}

/// The datagrams of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    pub(crate) profile: &'a dyn Profile,
    pub(crate) common: Common,
}

impl Datagrams<'_> {
    /// Replaces `buffer` with the datagram of an attempt at `request`.
    pub(crate) fn write(self, id: usize, attempt: u8, request: &Arrival, buffer: &mut Vec<u8>) {
        buffer.clear();
        self.profile.write(self.common, id as u64, attempt, request, buffer);
    }

    /// See [`Profile::read`].
    pub(crate) fn read(self, reply: &[u8]) -> Option<Told> {
        self.profile.read(self.common, reply)
    }
}

/// The profile of a run, and what it draws requests from. By default the bench protocol.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub(crate) profile: Arc<dyn Profile>,
    /// Requests without costs; `None` for the bench protocol, whose requests have costs.
    pub(crate) requests: Option<Workload>,
}

impl Chosen {
    fn new(profile: impl Profile + 'static, requests: Workload) -> Chosen {
        Chosen { profile: Arc::new(profile), requests: Some(requests) }
    }
}

impl Default for Chosen {
    fn default() -> Chosen {
        Chosen { profile: Arc::new(Bench), requests: None }
    }
}

/// Datagrams of the bench protocol.
#[cfg(test)]
pub(crate) const fn test_datagrams(session: u64) -> Datagrams<'static> {
    Datagrams { profile: &Bench, common: Common { session, deadline_us: 0, may_repeat: false } }
}
