//! The `forebay-quic` binary: serves until a signal ends it.

use forebay::clap;
use forebay::time::Nanos;
use forebay_quic::echo::Echo;
use std::convert::Infallible;
use std::process::ExitCode;

/// A QUIC server whose handshakes do not hold established connections up.
#[derive(Debug, clap::Args)]
#[command(version)]
struct Arguments {
    /// Microseconds that the event of a packet computes for streams, before a request of its own
    /// does.
    #[arg(long, default_value = "20", value_name = "MICROSECONDS")]
    compute_here: u32,
}

fn main() -> ExitCode {
    forebay_quic::serve(&[("listen", "127.0.0.1:4433")], |Arguments { compute_here }| {
        Ok::<_, Infallible>(Echo { compute_here: Nanos::from_micros(compute_here.into()) })
    })
}
