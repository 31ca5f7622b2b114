//! How a request ends that a shard has brought: what is told of it, and why it may have no result.

use crate::fate::{Fate, Malformed, Refused};
use crate::time::Nanos;

/// Where a request was served, and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The worker that finished the request.
    pub worker: u16,
    /// The pool of the worker that finished the request.
    pub pool: u8,
    /// How often the request changed pool, at most 255.
    pub hops: u8,
    /// Time from the kernel's receive stamp until the server received the datagram.
    pub kernel_wait: Nanos,
    /// Time in the server but not in the handler. This includes waits for work aside.
    pub queue_wait: Nanos,
    /// Time in which workers ran the handler.
    pub service: Nanos,
}

/// How a request ends if its handler gives it up; see [`Reply::give_up`](crate::Reply::give_up).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// As [`Fate::Refused`](crate::fate::Fate::Refused): it will not be served.
    Refused,
    /// As [`Fate::ShedQueueFull`](crate::fate::Fate::ShedQueueFull): there is no room for it now,
    /// such as for one more session.
    Full,
    /// As [`Fate::Failed`](crate::fate::Fate::Failed): something that it needs has failed.
    Failed,
}

/// Why a request that a shard brought is not served: what its handler says at admission.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rejection {
    Malformed(Malformed),
    Refused(Refused),
    /// The handler panicked.
    Panicked,
    /// For no reason, or for a reason of the handler's own of this number.
    As(Fate, Option<u8>),
}

/// What the server is told of a request that a shard brought and that ended by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Finished {
    /// Why it has no result, if it has none.
    pub(crate) flaw: Option<Flaw>,
    /// The class that its handler has put it into.
    pub(crate) class: Option<u8>,
}

/// Why a request that a shard brought has no result, though it ended by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    /// The reply is longer than it may be.
    Overflow,
    /// The handler gave it up, for the reason of this number.
    GivenUp(GiveUp, u8),
}
