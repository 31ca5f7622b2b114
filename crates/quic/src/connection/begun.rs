//! What is known of a request that a task has begun.

use forebay::fate::Fate;
use std::task::Waker;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It has made its result.
    Made,
    /// With this reply.
    Replied(Vec<u8>),
    /// As this, without a result.
    Unfinished(Fate),
}

/// The task that waits for a request, and the end of the request.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) waker: Option<Waker>,
    pub(crate) end: Option<End>,
}
