//! The bench protocol as a handler: the header is handled here, the work by a [`Work`].

use super::wire::{CLASSES, HEADER_BYTES, Header, Kind, Malformed, Served, Status};
use crate::fate::Refused;
use crate::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved};
use crate::time::Nanos;
use crossbeam_utils::atomic::AtomicCell;
use std::future::Future;
use std::sync::Arc;

/// What a bench request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// CPU time to burn, at most the server's cost cap.
    pub cost: Nanos,
    /// The bytes that follow the header.
    pub payload: &'a [u8],
}

/// The work behind one `--handler` name.
pub trait Work: Sync {
    /// Does the work of `order` and writes the reply's payload, for which there is as much room as
    /// the request's payload took.
    fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;
}

/// Sends the payload back, whatever the cost says.
#[derive(Debug)]
pub struct Echo;

impl Work for Echo {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        // As much room as the payload took; were there less, the reply would be marked and not be
        // sent.
        let _ = reply.put(order.payload);
    }
}

/// Serves the bench protocol of [`super::wire`] with the work `W`.
#[derive(Debug)]
pub struct Bench<W> {
    work: W,
    cost_cap: Arc<AtomicCell<Nanos>>,
}

impl<W: Work> Bench<W> {
    /// A handler that refuses requests that cost more than `cost_cap`.
    pub fn new(work: W, cost_cap: Nanos) -> Bench<W> {
        Bench { work, cost_cap: Arc::new(AtomicCell::new(cost_cap)) }
    }

    /// The largest cost that it serves, which another thread may change.
    pub fn cost_cap(&self) -> Arc<AtomicCell<Nanos>> {
        Arc::clone(&self.cost_cap)
    }
}

/// What a request asks for; its answer repeats it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    id: u64,
    stamp: u64,
    cost: Nanos,
    deadline_us: u32,
    class: u8,
}

impl<W: Work> Handler for Bench<W> {
    type Ticket = Asked;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Asked>, Rejected<Asked>> {
        let header = Header::parse(arrival.bytes()).map_err(Rejected::Malformed)?;
        if header.kind == Kind::Reply {
            return Err(Rejected::Malformed(Malformed::Reply));
        }
        let Header { id, stamp, cost, deadline_us, class, .. } = header;
        let mut admitted = Admitted::new(Asked { id, stamp, cost, deadline_us, class }).class(class);
        if deadline_us > 0 {
            admitted = admitted.deadline(Nanos::from_micros(deadline_us.into()));
        }
        if header.kind == Kind::Repeatable {
            admitted = admitted.identity(arrival.identity(id));
        }
        if usize::from(class) >= CLASSES {
            return Err(Rejected::Refused(admitted, Refused::UnknownClass));
        }
        if cost > self.cost_cap.load() {
            return Err(Rejected::Refused(admitted, Refused::CostCap));
        }
        Ok(admitted)
    }

    async fn handle(&self, request: Request<'_, Asked>, reply: &mut Reply<'_>) {
        // The header's place; what stands in it is known only at the end, in `seal`.
        // There is room, as no request is shorter than a header.
        if reply.put(&[0; HEADER_BYTES]).is_err() {
            return;
        }
        let order = Order { cost: request.ticket().cost, payload: &request.bytes()[HEADER_BYTES..] };
        self.work.work(order, reply).await;
    }

    fn refuse(&self, request: Request<'_, Asked>, unserved: Unserved, reply: &mut Reply<'_>) {
        let Unserved { status, retry_after } = unserved;
        let served = Served { queue_wait: retry_after, ..Served::default() };
        // There is room for a header in every refusal; where there is none, nothing is sent.
        let _ = reply.put(&answer(request.ticket(), status, served).emit());
    }

    fn seal(&self, request: Request<'_, Asked>, served: &Served, reply: &mut [u8]) {
        reply[..HEADER_BYTES].copy_from_slice(&answer(request.ticket(), Status::Ok, *served).emit());
    }
}

fn answer(asked: &Asked, status: Status, served: Served) -> Header {
    let Asked { id, stamp, cost, deadline_us, class } = *asked;
    Header { kind: Kind::Reply, class, status, id, stamp, cost, deadline_us, served }
}
