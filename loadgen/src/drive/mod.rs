//! One run in progress: requests are drawn and sent at their times, and their replies received.

pub(crate) mod cutoff;
pub mod flows;
pub(crate) mod live;
pub(crate) mod own_kernel;
pub(crate) mod pacer;
pub(crate) mod probe;
pub mod receiver;
pub mod reconciled;
pub mod schedule;
pub(crate) mod sender;
pub(crate) mod trace;

use forebay::time::Nanos;
use receiver::Reply;
use schedule::Request;

/// The requests and replies of a run: one entry per request of the schedule, in its order.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// The requests to send.
    pub(crate) schedule: Vec<Request>,
    /// How late each request was sent.
    pub(crate) slips: Vec<Nanos>,
    /// Whether our kernel took each request.
    pub(crate) taken: Vec<bool>,
    /// The first reply to each request, if any.
    pub(crate) replies: Vec<Option<Reply>>,
}
