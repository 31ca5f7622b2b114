//! Each request of a run, and what became of it.

use crate::drive::Exchange;
use crate::drive::receiver::Reply;
use crate::drive::schedule::{self, Request};
use crate::plan::Plan;
use forebay::inside::wire::Status;
use forebay::time::Nanos;

/// A request that was due after the warm-up, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) request: &'a Request,
    /// How late it was sent.
    pub(crate) slip: Nanos,
    /// By how much this host was late with it and its reply.
    pub(crate) host_late: Nanos,
    pub(crate) reply: Option<&'a Reply>,
    /// From the intended send to the reply, if there is one.
    took: Nanos,
    /// Whether the reply came after the timeout.
    pub(crate) is_late: bool,
    /// The second of the measured time in which it was due.
    pub(crate) second: usize,
}

impl Seen<'_> {
    /// The latency; `None` if it was not answered in time.
    pub(crate) fn latency(&self) -> Option<Nanos> {
        self.reply.filter(|reply| reply.status == Status::Ok && !self.is_late).map(|_| self.took)
    }

    /// The latency in microseconds, infinite if it was not answered in time.
    pub(crate) fn latency_us(&self) -> f64 {
        self.latency().map_or(f64::INFINITY, Nanos::as_micros_f64)
    }
}

/// The requests of `exchange` after the warm-up, in the order of the schedule.
pub(crate) fn seen<'a>(plan: &'a Plan, exchange: &'a Exchange) -> impl Iterator<Item = Seen<'a>> {
    let Exchange { start, schedule, sent, replies, reply_price } = exchange;
    // With retries it is the receiver that knows which clients had given up.
    let timeout = if plan.retrying.max > 0 { Nanos::MAX } else { schedule::timeout(plan, schedule) };
    let attempts = schedule.iter().zip(&sent.slips).zip(&replies.last);
    attempts.filter(|((request, _), _)| request.at >= plan.warmup).map(move |((request, &slip), reply)| {
        let second = (request.at.minus(plan.warmup).get() / Nanos::from_secs(1).get()) as usize;
        let Some(reply) = reply else {
            return Seen { request, slip, host_late: slip, reply: None, took: Nanos::ZERO, is_late: false, second };
        };
        let intended = start.plus(request.at);
        // A step of the real-time clock can move a receive stamp before the send, which it cannot
        // have been.
        let (mut took, mut host_late) = (reply.at.max(intended.plus(slip)).minus(intended), slip);
        if let (Some(price), Status::Ok) = (reply_price, reply.status) {
            let of_core = slip.plus(reply.in_server()).plus(*price);
            host_late = slip.plus(took.minus(of_core));
            took = of_core;
        }
        Seen { request, slip, host_late, reply: Some(reply), took, is_late: reply.late || took > timeout, second }
    })
}
