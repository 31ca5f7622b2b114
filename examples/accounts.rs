//! An account for each source address: `?5` pays five into it, and the answer is the balance,
//! `!12`. A payment reads the balance, takes a while, and writes it. Payments into one account are
//! served one at a time, by its flow, so that none is lost. Those into different accounts are
//! served side by side.
//!
//! `cargo run --example accounts -- 127.0.0.1:9000`, and then
//! `printf '?5     ' | nc -u -w1 127.0.0.1 9000`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server, checkpoint};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Balances; sources that share a place share an account.
struct Accounts {
    keys: RandomState,
    balances: Vec<AtomicU64>,
}

/// A payment, parsed: the place of its account, and what is paid.
#[derive(Clone, Copy, Default)]
struct Payment {
    place: usize,
    amount: u32,
}

impl Handler for Accounts {
    type Ticket = Payment;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Payment>, Rejected<Payment>> {
        let text = arrival.bytes().strip_prefix(b"?").and_then(|text| str::from_utf8(text).ok());
        let amount = text.and_then(|text| text.trim().parse().ok());
        let amount = amount.ok_or(Rejected::Malformed(Malformed::Other))?;
        let place = self.keys.hash_one(arrival.peer()) as usize % self.balances.len();
        Ok(Admitted::new(Payment { place, amount }).flow(place as u64))
    }

    async fn handle(&self, request: Request<'_, Payment>, reply: &mut Reply<'_>) {
        let Payment { place, amount } = *request.ticket();
        let balance = self.balances[place].load(Ordering::Relaxed);
        for _ in 0..100 {
            checkpoint().await; // others may be waiting, but none of this account
        }
        let balance = balance + u64::from(amount);
        self.balances[place].store(balance, Ordering::Relaxed);
        // A reply has as much room as its request is long.
        let _ = write!(reply, "!{balance}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".into());
    let balances = (0..65_536).map(|_| AtomicU64::new(0)).collect();
    let server = Server::builder().set("listen", &address).set("admin", "127.0.0.1:0").bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Accounts { keys: RandomState::new(), balances })?;
    Ok(())
}
