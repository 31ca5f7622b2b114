//! A wrapper around any handler: each source address may send a limited number of requests per
//! second. Further requests are shed at once (`shed_rate` on the admin endpoint), before they cost
//! anything. The inner handler here echoes `?text`.
//!
//! `cargo run --example rate_limited -- 127.0.0.1:9000 5`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::CLASSES;
use forebay::handler::{Served, Unserved};
use forebay::time::clock;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server, handler_fn};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// At most `per_second` requests of each source address. The hash of the address chooses a counter,
/// and sources with the same counter share its bound.
struct Limited<H> {
    inner: H,
    per_second: u64,
    keys: RandomState,
    /// For each counter: the number of the present second, above 32 bits that count its requests.
    counters: Vec<AtomicU64>,
}

impl<H> Limited<H> {
    fn new(inner: H, per_second: u64) -> Limited<H> {
        let counters = (0..65_536).map(|_| AtomicU64::new(0)).collect();
        Limited { inner, per_second, keys: RandomState::new(), counters }
    }

    fn is_over(&self, arrival: &Arrival<'_>) -> bool {
        let place = self.keys.hash_one(arrival.peer().ip()) as usize % self.counters.len();
        let second = clock::now().get() / 1_000_000_000;
        let counted = |seen: u64| if seen >> 32 == second { seen + 1 } else { second << 32 | 1 };
        let update = |seen| Some(counted(seen));
        let before = self.counters[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        before.is_ok_and(|seen| counted(seen) & 0xffff_ffff > self.per_second)
    }
}

impl<H: Handler> Handler for Limited<H> {
    type Ticket = H::Ticket;

    const CLASS_NAMES: [&'static str; CLASSES] = H::CLASS_NAMES;

    const REASON_NAMES: &'static [&'static str] = H::REASON_NAMES;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<H::Ticket>, Rejected<H::Ticket>> {
        let admitted = self.inner.admit(arrival)?;
        if self.is_over(arrival) { Err(Rejected::OverRate(admitted)) } else { Ok(admitted) }
    }

    async fn handle(&self, request: Request<'_, H::Ticket>, reply: &mut Reply<'_>) {
        self.inner.handle(request, reply).await;
    }

    fn refuse(&self, request: Request<'_, H::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        self.inner.refuse(request, unserved, reply);
    }

    fn seal(&self, request: Request<'_, H::Ticket>, served: &Served, reply: &mut [u8]) {
        self.inner.seal(request, served, reply);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9000".into());
    let per_second = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let echo = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
        let Some(text) = request.bytes().strip_prefix(b"?") else { return };
        let _ = reply.put(b"!").and_then(|()| reply.put(text));
    });
    let server = Server::builder().set("listen", &address).bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Limited::new(echo, per_second))?;
    Ok(())
}
