//! What the requests do that a shard begins, by themselves or by a handler that serves them.

use crate::fate::{Fate, Refused};
use crate::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint};
use crate::time::Nanos;
use crate::time::clock::virtual_time;

/// What may end a request of this `act` beside itself, and what its shard says of it.
pub(super) fn of_act(act: u8, other: impl FnOnce(Admitted) -> (Option<Fate>, Admitted)) -> (Option<Fate>, Admitted) {
    let admitted = Admitted::new(()).class(act % 2);
    match act % 8 {
        0 => (Some(Fate::Failed), admitted),
        1 | 2 => (Some(Fate::ShedExpired), admitted.deadline(Nanos::from_micros(u64::from(act) % 5))),
        3 | 4 => other(admitted),
        5 => (Some(Fate::Stalled), admitted),
        _ => (None, admitted),
    }
}

/// What a request of this `act` does.
pub(super) async fn answer(act: u8, ends: Option<Fate>, number: u64) -> u64 {
    for _ in 0..act % 5 {
        virtual_time::pass(Nanos::from_micros(1));
        checkpoint().await;
    }
    match ends {
        Some(Fate::Failed) => std::panic::resume_unwind(Box::new(())),
        Some(Fate::Stalled) => std::future::pending().await,
        _ => number,
    }
}

/// Serves requests that shards bring: their act, and their number, which it answers.
pub(super) struct Answers;

impl Handler for Answers {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        match of_act(arrival.bytes()[0], |admitted| (Some(Fate::Refused), admitted)) {
            (Some(Fate::Refused), admitted) => Err(Rejected::Refused(admitted, Refused::Other)),
            (_, admitted) => Ok(admitted),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let (act, number) = request.bytes().split_first().expect("it has an act");
        let (ends, _) = of_act(*act, |admitted| (None, admitted));
        answer(*act, ends, 0).await;
        reply.put(number).expect("there is room");
    }
}
