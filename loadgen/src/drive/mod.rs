//! One run as it happens: requests drawn, sent at their times, and their replies heard.

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

/// What was attempted in a run: one entry per request of the schedule, in its order.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// What was to be sent.
    pub(crate) schedule: Vec<Request>,
    /// How late each was sent.
    pub(crate) slips: Vec<Nanos>,
    /// Whether our kernel took it.
    pub(crate) taken: Vec<bool>,
    /// The first reply to it.
    pub(crate) replies: Vec<Option<Reply>>,
}
