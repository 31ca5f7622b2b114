//! Each request of a run, and what became of it.

use crate::drive::receiver::Reply;
use crate::drive::schedule::{self, Request};
use crate::drive::{Exchange, SLIP_LIMIT};
use crate::plan::Plan;
use forebay::fate::Ending;
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
    /// Whether this host sent it late, or in the burst that follows late sends, or its reply would
    /// have been in time without its slip.
    pub(crate) is_disturbed: bool,
    /// The second of the measured time in which it was due.
    pub(crate) second: usize,
}

impl Seen<'_> {
    /// Whether it was not answered in time, and that may be the fault of this host.
    pub(crate) fn is_unjudged(&self) -> bool {
        let may_be_ours = |reply: &Reply| self.is_late || reply.status.ending() == Ending::Shed;
        self.is_disturbed && self.reply.is_none_or(may_be_ours)
    }

    /// The latency; `None` if it was not answered in time.
    pub(crate) fn latency(&self) -> Option<Nanos> {
        self.reply.filter(|reply| reply.status == Status::Ok && !self.is_late).map(|_| self.took)
    }

    /// The latency in microseconds, infinite if it was not answered in time.
    pub(crate) fn latency_us(&self) -> f64 {
        self.latency().map_or(f64::INFINITY, Nanos::as_micros_f64)
    }
}

/// The pauses of this host. What should have been sent in a pause leaves at its end, all at once. A
/// server that keeps up works this burst off in at most the length of the pause. Until then it may
/// hold up, lose or shed any request.
#[derive(Default)]
struct Pauses {
    /// When the bursts so far are worked off, after the start.
    over: Nanos,
}

impl Pauses {
    /// Whether a request that was due at `at`, and sent `slip` later, was sent in a burst or before
    /// its end.
    fn disturb(&mut self, at: Nanos, slip: Nanos) -> bool {
        let sent = at.plus(slip);
        if slip > SLIP_LIMIT {
            self.over = self.over.max(sent.plus(slip));
        }
        sent < self.over
    }
}

/// The requests of `exchange` after the warm-up, in the order of the schedule.
pub(crate) fn seen<'a>(plan: &'a Plan, exchange: &'a Exchange) -> impl Iterator<Item = Seen<'a>> {
    let Exchange { start, schedule, sent, replies, reply_price } = exchange;
    // With retries it is the receiver that knows which clients had given up.
    let timeout = if plan.retrying.max > 0 { Nanos::MAX } else { schedule::timeout(plan, schedule) };
    let mut pauses = Pauses::default();
    let attempts = schedule.iter().zip(&sent.slips).zip(&replies.last);
    // The warm-up has pauses too.
    let attempts = attempts.map(move |((request, &slip), reply)| {
        let is_disturbed = pauses.disturb(request.at, slip);
        Seen {
            request,
            slip,
            host_late: slip,
            reply: reply.as_ref(),
            took: Nanos::ZERO,
            is_late: false,
            is_disturbed,
            second: 0,
        }
    });
    attempts.filter(|seen| seen.request.at >= plan.warmup).map(move |seen| {
        let Seen { request, slip, .. } = seen;
        let second = (request.at.minus(plan.warmup).get() / Nanos::from_secs(1).get()) as usize;
        let Some(reply) = seen.reply else { return Seen { second, ..seen } };
        let intended = start.plus(request.at);
        // A step of the real-time clock can move a receive stamp before the send, which it cannot
        // have been.
        let (mut took, mut host_late) = (reply.at.max(intended.plus(slip)).minus(intended), slip);
        if let (Some(price), Status::Ok) = (reply_price, reply.status) {
            let of_core = slip.plus(reply.in_server()).plus(*price);
            host_late = slip.plus(took.minus(of_core));
            took = of_core;
        }
        let is_disturbed = seen.is_disturbed || took > timeout && took.minus(slip) <= timeout;
        Seen { host_late, took, is_late: reply.late || took > timeout, is_disturbed, second, ..seen }
    })
}
