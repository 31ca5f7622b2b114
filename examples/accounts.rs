//! An account for each source address: `?5` pays five into it, and the answer is the balance,
//! `!12`. A payment reads the balance, computes for a while, and writes the new balance. No payment
//! is lost, because all payments into one account are in one shard, which serves them one at a
//! time. Accounts in other shards are served concurrently.
//!
//! `cargo run --example accounts -- 127.0.0.1:9000`, and then
//! `printf '?5     ' | nc -u -w1 127.0.0.1 9000`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::{Admitted, Arrival, Event, Out, Rejected, Server, Service, checkpoint};
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;

/// Accounts of one shard. Source addresses can be forged, so their number has a bound.
const ACCOUNTS_MAX: usize = 1_000;

struct Accounts;

impl Service for Accounts {
    /// The amount to pay.
    type Ticket = u32;
    /// The balances, by the address of the owner.
    type Shard = HashMap<SocketAddr, u64>;
    type Message = std::convert::Infallible;

    fn shard(&self, _: usize) -> HashMap<SocketAddr, u64> {
        HashMap::new()
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<u32>, Rejected<u32>> {
        let text = arrival.bytes().strip_prefix(b"?").and_then(|text| str::from_utf8(text).ok());
        let amount = text.and_then(|text| text.trim().parse().ok());
        // The handler names no shard, so the source address decides it.
        amount.map(Admitted::new).ok_or(Rejected::Malformed(Malformed::Other))
    }

    async fn handle(&self, balances: &mut HashMap<SocketAddr, u64>, event: Event<'_, u32>, out: &mut Out<'_>) {
        let Event::Datagram(payment) = event else { return };
        if balances.len() >= ACCOUNTS_MAX && !balances.contains_key(&payment.peer()) {
            return;
        }
        let balance = balances.entry(payment.peer()).or_default();
        let before = *balance;
        for _ in 0..100 {
            checkpoint().await; // others may be waiting, but none of this shard
        }
        *balance = before + u64::from(*payment.ticket());
        // A reply may be as long as its request.
        let _ = write!(out.reply(), "!{balance}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".into());
    let server = Server::builder().set("listen", &address).bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Accounts)?;
    Ok(())
}
