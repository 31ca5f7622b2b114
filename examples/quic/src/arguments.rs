//! The command line, and what it makes: the service and Forebay's configuration.

use crate::service::Quic;
use crate::tls;
use anyhow::anyhow;
use clap::Parser;
use forebay::config::Config;
use std::path::PathBuf;
use std::time::Duration;

/// A QUIC server whose handshakes do not hold established connections up.
#[derive(Debug, Parser)]
#[command(name = "forebay-quic", version, about)]
pub struct Arguments {
    /// File with the certificate chain, in PEM.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,

    /// File with the private key, in PEM.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:4433", value_name = "ADDRESS")]
    listen: String,

    /// Connections at once, at most 2 MB each.
    #[arg(long, default_value = "4096", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// Seconds after which a silent connection ends.
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,

    /// Handshakes in progress from which on clients first prove their addresses; 0 for all.
    #[arg(long, default_value = "128", value_name = "COUNT")]
    retry_from: u32,

    /// Bytes of the longest datagram to send.
    #[arg(long, default_value = "1200", value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1_200..=1_472))]
    mtu: u16,

    /// Policy of Forebay; short for --set policy=POLICY.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// A setting of Forebay, such as workers=4; may be given several times. `forebay serve --help`
    /// lists them.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

impl Arguments {
    /// Loads the certificate, and checks the settings.
    ///
    /// # Errors
    /// The first thing that is wrong, with the argument it stands in.
    pub fn plan(&self) -> anyhow::Result<(Config, Quic)> {
        // A free port for the endpoint: several servers may run on one host.
        let mut pairs = vec![("admin", "127.0.0.1:0"), ("listen", &*self.listen)];
        pairs.extend(self.policy.as_deref().map(|policy| ("policy", policy)));
        for setting in &self.settings {
            pairs.push(setting.split_once('=').ok_or_else(|| anyhow!("--set {setting}: allowed: NAME=VALUE"))?);
        }
        let config = Config::from_pairs(pairs).map_err(|problems| anyhow!("{problems}"))?;
        let server = tls::config(&self.cert, &self.key, Duration::from_secs(self.idle), self.mtu)?;
        Ok((config, Quic::new(server, self.connections as usize, self.retry_from as usize)))
    }
}
