//! The server of README.md, which finds smallest factors. It has all settings of an operator, and
//! one flag of its own.
//!
//! `cargo run --example factors -- --largest 1000000`, and then
//! `printf '91?' | nc -u -w1 127.0.0.1 9100`

// README begin
use forebay::clap;
use forebay::handler::{Handler, Reply, Request, checkpoint, hop};
use std::io::Write;
use std::process::ExitCode;

/// Answers `91?` with `7`, the smallest factor: mostly at once, after seconds for a large prime.
#[derive(clap::Args)]
struct Factors {
    /// The largest number that is answered
    #[arg(long, default_value_t = u64::MAX)]
    largest: u64,
}

impl Handler for Factors {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let text = str::from_utf8(request.bytes()).unwrap_or_default();
        let number = text.trim().strip_suffix('?').and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|number| (2..=self.largest).contains(number)) else { return };
        let mut factor = 2;
        while factor <= number / factor && number % factor != 0 {
            factor += 1;
            if factor == 10_000 {
                hop(1).await; // a heavy request: it continues in the second pool
            } else if factor % 1_000 == 0 {
                checkpoint().await; // lets waiting requests run
            }
        }
        let smallest = if number % factor == 0 { factor } else { number };
        write!(reply, "{smallest}").expect("an answer is shorter than its question");
    }
}

fn main() -> ExitCode {
    forebay::main(&[("listen", "127.0.0.1:9100")], |factors: Factors, bind| bind()?.run(&factors))
}
// README end
