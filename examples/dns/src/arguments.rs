//! The command line. It gives the zones, the service, and Forebay's configuration.

use crate::cookies::Cookies;
use crate::keys::Algorithm;
use crate::service::Service;
use crate::zones::{Source, Zones};
use anyhow::anyhow;
use arc_swap::ArcSwap;
use clap::Parser;
use forebay::config::Config;
use forebay::server::Counter;
use forebay_quic::arguments::DoorArguments;
use forebay_quic::tls::Certificate;
use std::path::PathBuf;
use std::sync::Arc;

/// The most bytes sent to the network of a client without a cookie, for each byte from this
/// network. All usual answers fit: an answer with addresses is twice as long as its question. An
/// answer with two signatures is 12 times as long in a zone with a short name, or 24 times with
/// RSA.
fn amplification(algorithm: Option<Algorithm>) -> u32 {
    match algorithm {
        None => 8,
        Some(Algorithm::Ed25519 | Algorithm::P256) => 12,
        Some(Algorithm::Rsa2048) => 24,
    }
}

/// Further bytes per second for a network without a cookie. In 8 s they add up to 440 answers that
/// fill a packet. By forging addresses, an attacker gains half a megabit per second for each
/// network.
const ALLOWANCE: &str = "65536";

/// An authoritative DNS server that signs its answers when they are asked for.
#[derive(Debug, Parser)]
#[command(name = "forebay-dns", version, about)]
pub struct Arguments {
    /// A zone and its master file; may be given several times. SIGHUP loads all files again.
    #[arg(long = "zone", value_name = "ORIGIN=FILE", required = true)]
    zones: Vec<String>,

    /// Addresses and ports for UDP and TCP, separated by commas.
    #[arg(long, default_value = "127.0.0.1:5300", value_name = "ADDRESSES")]
    listen: String,

    #[command(flatten)]
    quic: DoorArguments,

    /// Sign all zones, with this algorithm.
    #[arg(long, value_name = "ALGORITHM")]
    sign: Option<Algorithm>,

    /// Directory of the keys, `K<zone>+<algorithm>+<tag>.private` and `.key`; a key that is missing
    /// is made. Without it, keys are made anew at each start.
    #[arg(long, value_name = "DIR", requires = "sign")]
    key_dir: Option<PathBuf>,

    /// Signatures that are kept, for each zone: about half a kilobyte each.
    #[arg(long, default_value = "65536", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    signatures: u32,

    /// File with the secret of cookies, 32 hexadecimal digits, the same for all servers of one
    /// address. Without it, the secret is made anew at each start.
    #[arg(long, value_name = "FILE")]
    cookie_secret: Option<PathBuf>,

    /// Bytes of the longest answer over UDP.
    #[arg(long, default_value = "1232", value_name = "BYTES", value_parser = clap::value_parser!(u16).range(512..=4_096))]
    payload: u16,

    /// Name of this server, told to clients that ask for it (NSID).
    #[arg(long, value_name = "TEXT", value_parser = short)]
    nsid: Option<String>,

    /// Answer to questions for version.bind and version.server, of class CH; without it they are
    /// refused.
    #[arg(long, value_name = "TEXT", value_parser = short)]
    version_text: Option<String>,

    /// Connections that are served at once; more wait.
    #[arg(long, default_value = "128", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,

    /// Policy of Forebay; short for --set policy=POLICY.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// A setting of Forebay, such as workers=4, or amplification=1; may be given several times.
    /// `forebay serve --help` lists them.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    /// Load everything, print the DS records, and end.
    #[arg(long)]
    check: bool,
}

fn short(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) { Ok(text.to_owned()) } else { Err("allowed: 1 to 255 bytes".to_owned()) }
}

/// The result of parsing the arguments.
pub struct Plan {
    /// Forebay's configuration.
    pub config: Config,
    /// The zones' names, files and keys, for loading again.
    pub sources: Vec<Source>,
    /// Number of signatures that the zones have made.
    pub made: Counter,
    /// The text that tells the version, if any.
    pub version: Option<String>,
    /// Zones, cookies and limits.
    pub service: Service,
    /// Most connections at once.
    pub connections: usize,
    /// The certificate of DNS over QUIC, if that is asked for, and where it is.
    pub quic: Option<(Arc<Certificate>, DoorArguments)>,
    /// Whether to end after the check.
    pub check: bool,
}

impl Arguments {
    /// Loads keys and zones, and checks the settings.
    ///
    /// # Errors
    /// The first error, with the argument in which it is.
    pub fn plan(self) -> anyhow::Result<Plan> {
        let config = self.config()?;
        let needed = amplification(self.sign);
        if self.sign.is_some() && config.amplification < needed {
            let set = config.amplification;
            tracing::warn!(
                "amplification={set}: signed answers fit with {needed}; clients without a cookie get some over TCP"
            );
        }
        let made = Counter::default();
        let sources = self.sources(&made)?;
        let zones = ArcSwap::from_pointee(Zones::load(&sources)?.with_version(self.version_text.as_deref()));
        let cookies = Cookies::new(self.cookie_secret.as_deref())?;
        let certificate = self.quic.certificate()?;
        let (payload, nsid) = (self.payload, self.nsid.map(Into::into));
        let service = Service { zones, cookies, payload, nsid, tcp_messages: Counter::default() };
        Ok(Plan {
            config,
            sources,
            made,
            version: self.version_text,
            service,
            connections: usize::from(self.connections),
            quic: certificate.map(|certificate| (certificate, self.quic)),
            check: self.check,
        })
    }

    fn sources(&self, made: &Counter) -> anyhow::Result<Vec<Source>> {
        let source = |argument: &String| {
            let source = Source::parse(argument).map_err(|error| anyhow!("--zone {argument}: {error:#}"))?;
            match self.sign {
                Some(algorithm) => source.signed(algorithm, self.key_dir.as_deref(), self.signatures as usize, made),
                None => Ok(source),
            }
        };
        self.zones.iter().map(source).collect()
    }

    fn config(&self) -> anyhow::Result<Config> {
        let payload = self.payload.max(2_048).to_string();
        // A free port for the endpoint, because several servers may run on one host.
        let amplification = amplification(self.sign).to_string();
        let mut pairs = vec![
            ("admin", "127.0.0.1:0"),
            ("amplification", &*amplification),
            ("amplification-allowance", ALLOWANCE),
            ("datagram-max", &*payload),
        ];
        pairs.extend(self.policy.as_deref().map(|policy| ("policy", policy)));
        for setting in &self.settings {
            let pair = setting.split_once('=').ok_or_else(|| anyhow!("--set {setting}: allowed: NAME=VALUE"))?;
            if pair.0 == "listen" {
                return Err(anyhow!("--set {setting}: TCP listens there, too: use --listen"));
            }
            pairs.push(pair);
        }
        if self.quic.address().is_some_and(|address| address.port() == 53) {
            return Err(anyhow!("--quic: port 53 is for UDP and TCP; allowed: any other (RFC 9250, 4.1.1)"));
        }
        let quic = self.quic.address().map(|address| format!(",{address}")).unwrap_or_default();
        let listen = format!("{}{quic}", self.listen);
        pairs.push(("listen", &listen));
        Config::from_pairs(pairs).map_err(|problems| anyhow!("{problems}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{DO, answered, question, zone_of};
    use domain::base::iana::Rtype;

    // For each algorithm, does an answer with signatures fit into the bound for its question, even
    // with short names? Method: two signatures, for the proof that a name does not exist.
    #[test]
    fn signed_answers_fit() {
        for algorithm in [Algorithm::Ed25519, Algorithm::P256, Algorithm::Rsa2048] {
            for (zone, asked) in [("test", "a.test"), ("t", "a.t"), ("example.test", "no.example.test")] {
                let zones = zone_of(zone, "@ 60 SOA ns host 7 1 1 1 30\n@ 60 NS ns\n", algorithm);
                let message = question(asked, Rtype::A, DO);
                let length = answered(&zones, &message, 4_096).len();
                let (allowed, plain) = (message.len() * amplification(Some(algorithm)) as usize, message.len() * 8);
                assert!((plain..=allowed).contains(&length), "{algorithm:?} {zone}: {length} of {allowed}");
            }
        }
    }
}
