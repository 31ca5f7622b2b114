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
use receiver::Reply;
use schedule::Request;

/// Sends that are later than this are counted.
pub const SLIP_LIMIT: Nanos = Nanos::from_millis(10);

/// The requests of a run and what came back: one entry per request of the schedule, in its order.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The requests to send.
    pub(crate) schedule: Vec<Request>,
    /// How late each request was first sent.
    pub(crate) slips: Vec<Nanos>,
    /// Whether our kernel took each request, when it was first sent.
    pub(crate) taken: Vec<bool>,
    /// The reply that ended each request, if any.
    pub(crate) replies: Vec<Option<Reply>>,
}

/// Requests answered in a run, warm-up included, the time that they took together, and what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Sum of the costs of the requests served.
    pub work: Nanos,
    /// Time from the first intended send to the last reply.
    pub took: Nanos,
    /// Sum of the costs of the requests sent.
    pub offered: Nanos,
}

impl Exchange {
    /// What a run that began at `start` completed.
    pub(crate) fn completed(&self, start: Nanos) -> Completed {
        let served = self.schedule.iter().zip(&self.replies);
        let served = served.filter_map(|(request, reply)| Some((request, reply.filter(|it| it.status == Status::Ok)?)));
        let completed = served.fold(Completed::default(), |sum, (request, reply)| Completed {
            work: sum.work.plus(request.cost),
            took: sum.took.max(reply.at),
            ..sum
        });
        let first = self.schedule.first().map_or(Nanos::ZERO, |request| request.at);
        let sent = self.schedule.iter().zip(&self.taken).filter(|(_, taken)| **taken);
        let offered = sent.fold(Nanos::ZERO, |sum, (request, _)| sum.plus(request.cost));
        Completed { took: completed.took.minus(start.plus(first)), offered, ..completed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does work count only if it was served, and time from the first request that should have been sent?
    #[test]
    fn what_was_served_counts_from_the_first_send_to_the_last_reply() {
        let ms = Nanos::from_millis;
        let request = |at, cost| Request { at: ms(at), cost: ms(cost), flow: 0, class: 0 };
        let reply = |at, status| Some(Reply { at: ms(at), status, worker: 0, late: false });
        let exchange = Exchange {
            schedule: vec![request(2, 5), request(3, 7), request(4, 11), request(5, 13)],
            slips: vec![Nanos::ZERO; 4],
            taken: vec![true, false, true, true],
            replies: vec![reply(1_030, Status::Ok), None, reply(1_020, Status::Ok), reply(1_040, Status::Failed)],
        };
        assert_eq!(exchange.completed(ms(1_000)), Completed { work: ms(16), took: ms(28), offered: ms(29) });
    }
}
