//! One run in progress: requests are drawn and sent at their times, and their replies received.

pub(crate) mod cutoff;
pub mod flows;
pub(crate) mod live;
pub(crate) mod own_kernel;
pub(crate) mod pacer;
pub(crate) mod probe;
pub mod receiver;
pub mod reconciled;
pub mod retries;
pub mod schedule;
pub(crate) mod sender;
pub(crate) mod threads;
pub(crate) mod trace;

use forebay::time::Nanos;
use forebay::wire::Status;
use receiver::Replies;
use schedule::Request;
use sender::Sent;

/// Sends that are later than this are counted.
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
}

/// Requests answered in a run, warm-up included, the time that they took together, and what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Sum of the costs of the requests served.
    pub(crate) work: Nanos,
    /// Time from the first intended send to the last reply.
    pub(crate) took: Nanos,
    /// Sum of the costs of the requests sent.
    pub(crate) offered: Nanos,
}

impl Exchange {
    /// What the run completed.
    pub(crate) fn completed(&self) -> Completed {
        let first = self.schedule.first().map_or(Nanos::ZERO, |request| request.at);
        let began = self.start.plus(first);
        let mut completed = Completed::default();
        for (request, reply) in self.schedule.iter().zip(&self.replies.last) {
            if let Some(reply) = reply.filter(|reply| reply.status == Status::Ok) {
                completed.work = completed.work.plus(request.cost);
                completed.took = completed.took.max(reply.at.minus(began));
            }
        }
        let sent = self.schedule.iter().zip(&self.sent.taken).filter(|(_, taken)| **taken);
        completed.offered = sent.fold(Nanos::ZERO, |sum, (request, _)| sum.plus(request.cost));
        completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use receiver::Reply;

    // Does work count only if it was served, and time from the first request that should have been sent?
    #[test]
    fn what_was_served_counts_from_the_first_send_to_the_last_reply() {
        let ms = Nanos::from_millis;
        let request = |at, cost| Request { at: ms(at), cost: ms(cost), flow: 0, class: 0 };
        let reply = |at, status| Some(Reply { at: ms(at), status, worker: 0, late: false });
        let last = vec![reply(1_030, Status::Ok), None, reply(1_020, Status::Ok), reply(1_040, Status::Failed)];
        let exchange = Exchange {
            start: ms(1_000),
            schedule: vec![request(2, 5), request(3, 7), request(4, 11), request(5, 13)],
            sent: Sent { taken: vec![true, false, true, true], ..Sent::default() },
            replies: Replies { last, ..Replies::default() },
        };
        assert_eq!(exchange.completed(), Completed { work: ms(16), took: ms(28), offered: ms(29) });
    }
}
