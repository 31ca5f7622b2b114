//! One handler behind two doors: it finds smallest factors of numbers that come in datagrams, and
//! over the streams of QUIC connections. README.md shows how to run it.

use forebay::clap;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint};
use std::convert::Infallible;
use std::io::Write;
use std::process::ExitCode;

/// Answers `91?` with `7`, the smallest factor: mostly at once, after seconds for a large prime.
#[derive(clap::Args)]
#[command(version)]
struct Factors {
    /// The largest number that is answered
    #[arg(long, default_value_t = u64::MAX)]
    largest: u64,
}

impl Handler for Factors {
    type Ticket = u64;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<u64>, Rejected<u64>> {
        let text = str::from_utf8(arrival.bytes()).unwrap_or_default();
        let number = text.trim().strip_suffix('?').and_then(|number| number.parse().ok());
        number.filter(|number| (2..=self.largest).contains(number)).map(Admitted::new).ok_or(Rejected::Ignored)
    }

    async fn handle(&self, request: Request<'_, u64>, reply: &mut Reply<'_>) {
        let (number, mut factor) = (*request.ticket(), 2);
        while factor <= number / factor && number % factor != 0 {
            factor += 1;
            if factor % 1_000 == 0 {
                checkpoint().await; // lets other requests run, also those of the same connection
            }
        }
        let smallest = if number % factor == 0 { factor } else { number };
        write!(reply, "{smallest}").expect("an answer is shorter than its question");
    }
}

fn main() -> ExitCode {
    forebay_quic::main(&[("listen", "127.0.0.1:9100")], |factors: Factors| Ok::<_, Infallible>(factors))
}
