//! The handler of an explored server. Each request contains a list of acts, and spends virtual time
//! on them.

use super::order::{Order, Place};
use crate::fate::{Malformed, Refused};
use crate::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Served, Unserved};
use crate::handler::{checkpoint, fork, hop, uninterrupted};
use crate::time::Nanos;
use crate::time::clock::virtual_time;

/// One act of a request, performed after a microsecond of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Checkpoint,
    /// Passes no checkpoint, so the worker is stuck for that microsecond.
    Nothing,
    Hop,
    Fork,
    /// Works uninterrupted for three microseconds.
    Uninterrupted,
    Panic,
    /// Is pending for a reason that the runtime does not know.
    Stall,
}

impl Act {
    pub(super) const ALL: [Act; 7] =
        [Act::Checkpoint, Act::Nothing, Act::Hop, Act::Fork, Act::Uninterrupted, Act::Panic, Act::Stall];

    /// The act with this number.
    pub(super) fn of(number: u8) -> Act {
        Act::ALL[usize::from(number) % Act::ALL.len()]
    }
}

/// The first header byte of an ordinary request. The header is magic, class, deadline in units of 4
/// us (0 = none), and flow (0 = none). One act per microsecond follows.
pub(super) const MAGIC: u8 = 0xf0;
/// The magic byte of a well-formed request that the handler refuses.
pub(super) const REFUSED: u8 = 0xf1;
/// The magic byte of a request whose sender is over its rate.
pub(super) const OVER_RATE: u8 = 0xf2;
/// The magic byte of a request that is ignored without an answer.
pub(super) const IGNORED: u8 = 0xf3;
/// The magic byte of a request that is served without a reply.
pub(super) const MUTE: u8 = 0xf4;
/// The magic byte of a request whose reply has [`LONG_BYTES`]; its sender may be forged.
pub(super) const LONG: u8 = 0xf5;
/// As [`LONG`], from a validated sender.
pub(super) const PROVEN: u8 = 0xf6;
/// The magic byte of a request that declares the cost [`DEAR_COST`], whatever its acts are.
pub(super) const DEAR: u8 = 0xf7;
pub(super) const DEAR_COST: Nanos = Nanos::from_micros(200);
/// The magic byte of a request whose reply cannot be sealed.
pub(super) const UNSEALED: u8 = 0xf8;
/// The magic byte of a request whose identity is its class and flow.
pub(super) const REPEATABLE: u8 = 0xf9;
/// More bytes than cheap requests have.
const LONG_BYTES: usize = 40;
pub(super) const HEADER: usize = 4;

#[derive(Default)]
pub(super) struct Scripted {
    pub(super) order: Order,
    /// Whether each request gets its own flow key, so that the server sees no flows.
    pub(super) splits_flows: bool,
}

impl Handler for Scripted {
    type Ticket = Place;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Place>, Rejected<Place>> {
        let [magic, class, deadline, flow, ..] = *arrival.bytes() else {
            return Err(Rejected::Malformed(Malformed::Truncated));
        };
        let place = self.order.admit(flow);
        let mut admitted = Admitted::new(place).class(class);
        if flow > 0 {
            let other = if self.splits_flows { place.number } else { 0 };
            admitted = admitted.flow(u64::from(flow) | u64::from(other) << 8);
        }
        if deadline > 0 {
            admitted = admitted.deadline(Nanos::from_micros(u64::from(deadline) * 4));
        }
        match magic {
            MAGIC | MUTE | UNSEALED => Ok(admitted),
            LONG | PROVEN => Ok(admitted.reply_limit(LONG_BYTES).validated(magic == PROVEN)),
            REPEATABLE => Ok(admitted.identity(u64::from(class) << 8 | u64::from(flow))),
            DEAR => Ok(admitted.cost(DEAR_COST)),
            OVER_RATE => Err(Rejected::OverRate(admitted)),
            IGNORED => Err(Rejected::Ignored),
            REFUSED => Err(Rejected::Refused(admitted, Refused::Other)),
            _ => Err(Rejected::Malformed(Malformed::Magic)),
        }
    }

    async fn handle(&self, request: Request<'_, Place>, reply: &mut Reply<'_>) {
        let serving = self.order.begin(*request.ticket());
        let acts: Vec<Act> = request.bytes()[HEADER..].iter().map(|act| Act::of(*act)).collect();
        perform(&acts).await;
        serving.finish();
        let _ = match request.bytes()[0] {
            MUTE => Ok(()),
            LONG | PROVEN => reply.put(&[PROVEN; LONG_BYTES]),
            _ => reply.put(request.bytes()),
        };
    }

    fn seal(&self, request: Request<'_, Place>, _: &Served, _: &mut [u8]) {
        if request.bytes()[0] == UNSEALED {
            std::panic::resume_unwind(Box::new("a panic that was asked for"));
        }
    }

    fn refuse(&self, _: Request<'_, Place>, _: Unserved, reply: &mut Reply<'_>) {
        // As long as it may be.
        reply.spare_mut().fill(REFUSED);
        reply.advance(reply.room());
    }
}

async fn perform(acts: &[Act]) {
    for (done, act) in acts.iter().enumerate() {
        if *act != Act::Fork {
            plainly(&[*act]).await;
            continue;
        }
        virtual_time::pass(Nanos::from_micros(1));
        // The child does the second half of the rest.
        let rest = &acts[done + 1..];
        let (own, childs) = rest.split_at(rest.len() / 2);
        let childs = childs.to_vec();
        let child = fork(async move { plainly(&childs).await });
        checkpoint().await;
        plainly(own).await;
        return child.await;
    }
}

/// Performs acts, with forks replaced by checkpoints.
async fn plainly(acts: &[Act]) {
    for act in acts {
        virtual_time::pass(Nanos::from_micros(1));
        match act {
            Act::Checkpoint | Act::Fork => checkpoint().await,
            Act::Nothing => {}
            Act::Hop => hop(1).await,
            Act::Uninterrupted => uninterrupted(|| virtual_time::pass(Nanos::from_micros(3))).await,
            Act::Panic => std::panic::resume_unwind(Box::new("a panic that was asked for")),
            Act::Stall => std::future::pending().await,
        }
    }
}
