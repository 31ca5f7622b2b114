//! The handler of an explored server: each request contains its acts, and spends virtual time on them.

use crate::fate::{Malformed, Refused};
use crate::handler::{Handler, Rejected, Reply, Request, Ticket, Unserved, checkpoint, fork, hop, uninterrupted};
use crate::time::Nanos;
use crate::time::clock::in_virtual_time;

/// One act of a request, performed after a microsecond of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Checkpoint,
    /// No checkpoint: the worker is stuck for that microsecond.
    Nothing,
    Hop,
    Fork,
    /// Works for three microseconds uninterrupted.
    Uninterrupted,
    Panic,
    /// Stops for a reason unknown to the runtime.
    Stall,
}

impl Act {
    pub(super) const ALL: [Act; 7] =
        [Act::Checkpoint, Act::Nothing, Act::Hop, Act::Fork, Act::Uninterrupted, Act::Panic, Act::Stall];
}

/// The first of a request's header bytes: magic, class, deadline in units of 4 us (0 = none); then an act for each
/// microsecond.
pub(super) const MAGIC: u8 = 0xf0;
/// The magic byte of a well-formed request that the handler does not serve.
pub(super) const REFUSED: u8 = 0xf1;
pub(super) const HEADER: usize = 3;

pub(super) struct Scripted;

impl Handler for Scripted {
    fn admit(&self, bytes: &[u8]) -> Result<Ticket, Rejected> {
        let [magic, class, deadline, ..] = *bytes else { return Err(Rejected::Malformed(Malformed::Truncated)) };
        let after = (deadline > 0).then(|| Nanos::from_micros(u64::from(deadline) * 4));
        let ticket = Ticket { class, deadline: after, ..Ticket::default() };
        match magic {
            MAGIC => Ok(ticket),
            REFUSED => Err(Rejected::Refused(ticket, Refused::Other)),
            _ => Err(Rejected::Malformed(Malformed::Magic)),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let acts: Vec<Act> =
            request.bytes()[HEADER..].iter().map(|act| Act::ALL[usize::from(*act) % Act::ALL.len()]).collect();
        perform(&acts).await;
        let _ = reply.put(&request.bytes()[..HEADER]);
    }

    fn refuse(&self, _: &Ticket, _: Unserved, reply: &mut Reply<'_>) {
        let _ = reply.put(&[REFUSED]);
    }
}

async fn perform(acts: &[Act]) {
    for (done, act) in acts.iter().enumerate() {
        in_virtual_time::pass(Nanos::from_micros(1));
        match act {
            Act::Checkpoint => checkpoint().await,
            Act::Nothing => {}
            Act::Hop => hop(1).await,
            Act::Uninterrupted => uninterrupted(|| in_virtual_time::pass(Nanos::from_micros(3))).await,
            Act::Fork => {
                // The child does the second half of the rest; it forks no more.
                let rest = &acts[done + 1..];
                let (own, childs) = rest.split_at(rest.len() / 2);
                let childs: Vec<Act> = childs.iter().map(plain).collect();
                let child = fork(async move { plainly(&childs).await });
                checkpoint().await;
                plainly(&own.iter().map(plain).collect::<Vec<_>>()).await;
                return child.await;
            }
            Act::Panic => std::panic::resume_unwind(Box::new("a panic that was asked for")),
            Act::Stall => std::future::pending().await,
        }
    }
}

/// `act` without a fork: a fork becomes a checkpoint.
fn plain(act: &Act) -> Act {
    if *act == Act::Fork { Act::Checkpoint } else { *act }
}

async fn plainly(acts: &[Act]) {
    for act in acts {
        in_virtual_time::pass(Nanos::from_micros(1));
        match act {
            Act::Checkpoint | Act::Fork => checkpoint().await,
            Act::Nothing => {}
            Act::Hop => hop(1).await,
            Act::Uninterrupted => uninterrupted(|| in_virtual_time::pass(Nanos::from_micros(3))).await,
            Act::Panic => std::panic::resume_unwind(Box::new("a panic that was asked for")),
            Act::Stall => std::future::pending().await,
        }
    }
}
