//! The settings of the program, from which the service is made.

use crate::service::Quic;
use crate::tls;
use forebay::clap;
use forebay::time::Nanos;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// A QUIC server whose handshakes do not hold established connections up.
#[derive(Debug, clap::Args)]
#[command(version)]
pub struct Arguments {
    /// File with the certificate chain, in PEM.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,

    /// File with the private key, in PEM.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Connections at once, at most 2 MB each.
    #[arg(long, default_value = "4096", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// Seconds after which a silent connection ends.
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,

    /// Handshakes in progress for each CPU from which on clients prove their addresses; 0 for all.
    #[arg(long, default_value = "128", value_name = "COUNT")]
    retry_from: u32,

    /// Microseconds that the event of a packet computes for streams, before a request of its own
    /// does.
    #[arg(long, default_value = "20", value_name = "MICROSECONDS")]
    compute_here: u32,

    /// Bytes of the longest datagram to send, until the MTU of the path is measured.
    #[arg(long, default_value = "1200", value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1_200..=1_472))]
    mtu: u16,
}

impl Arguments {
    /// Loads the certificate.
    ///
    /// # Errors
    /// The first error, with the argument in which it is.
    pub fn service(&self) -> anyhow::Result<Quic> {
        let server = tls::config(&self.cert, &self.key, Duration::from_secs(self.idle), self.mtu)?;
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        let quic = Quic::new(server, self.connections as usize, cpus * self.retry_from as usize);
        Ok(quic.computing_here(Nanos::from_micros(self.compute_here.into())))
    }
}
