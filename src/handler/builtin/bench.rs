//! The bench protocol as a handler. [`Bench`] reads and writes the header; a [`BenchWork`] does the
//! rest.

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

/// What one value of `--handler` does for each request.
pub trait BenchWork: Sync {
    /// Does the work of `order` and writes the reply's payload. There is room for as many bytes as
    /// the request's payload has.
    fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send;
}

/// Sends the payload back and ignores the cost.
#[derive(Debug)]
pub struct Echo;

impl BenchWork for Echo {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        let _ = reply.put(order.payload);
    }
}

/// Serves the bench protocol of [`super::wire`] with the work `W`.
#[derive(Debug)]
pub struct Bench<W> {
    work: W,
    cost_cap: Arc<AtomicCell<Nanos>>,
}

impl<W: BenchWork> Bench<W> {
    /// A handler that does `work` for each request, and refuses requests whose cost is above
    /// `cost_cap`.
    pub fn new(work: W, cost_cap: Nanos) -> Bench<W> {
        Bench { work, cost_cap: Arc::new(AtomicCell::new(cost_cap)) }
    }

    /// The largest cost that is served. Another thread may change it.
    pub fn cost_cap(&self) -> Arc<AtomicCell<Nanos>> {
        Arc::clone(&self.cost_cap)
    }
}

/// The header fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    id: u64,
    stamp: u64,
    cost: Nanos,
    deadline_us: u32,
    class: u8,
}

impl<W: BenchWork> Handler for Bench<W> {
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
        // Reserves the header's place; `seal` fills it in. It fits, as no request is shorter.
        if reply.put(&[0; HEADER_BYTES]).is_err() {
            return;
        }
        let order = Order { cost: request.ticket().cost, payload: &request.bytes()[HEADER_BYTES..] };
        self.work.work(order, reply).await;
    }

    fn refuse(&self, request: Request<'_, Asked>, unserved: Unserved, reply: &mut Reply<'_>) {
        let Unserved { status, retry_after } = unserved;
        let served = Served { queue_wait: retry_after, ..Served::default() };
        // A refusal that does not fit is not sent.
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
