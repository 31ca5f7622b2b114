//! One run: draws requests, sends them at their times, and receives their replies.

pub(crate) mod cutoff;
pub mod flows;
pub(crate) mod live;
pub(crate) mod own_kernel;
pub(crate) mod pacer;
pub(crate) mod parts;
pub(crate) mod probe;
pub mod receiver;
pub mod reconciled;
pub mod retries;
pub mod schedule;
pub(crate) mod sender;
pub(crate) mod threads;
pub(crate) mod trace;
pub(crate) mod until;

use forebay::time::Nanos;
use receiver::Replies;
use schedule::Request;
use sender::Sent;

/// A send that is later than this counts as slipped.
pub const SLIP_LIMIT: Nanos = Nanos::from_millis(10);

/// The requests of a run, and what became of them.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// When the schedule began, on the monotonic clock.
    pub(crate) start: Nanos,
    /// The requests to send.
    pub(crate) schedule: Vec<Request>,
    pub(crate) sent: Sent,
    pub(crate) replies: Replies,
    /// What an emulated core pays for a reply, if latency is by the cores' own times.
    pub(crate) reply_price: Option<Nanos>,
}
