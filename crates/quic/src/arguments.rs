//! The settings of the programs, from which the services are made.

use crate::application::Application;
use crate::by_stream::ByStream;
use crate::service::{Bounds, Quic};
use crate::tls::{self, Certificate, Limits};
use forebay::Handler;
use forebay::clap::{self, ArgMatches, Args, Command, FromArgMatches};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

// No documentation: it would be the head of the help.
#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "see above")]
pub struct ConnectionArguments {
    /// File with the certificate chain, in PEM.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,

    /// File with the private key, in PEM.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    #[command(flatten)]
    limits: LimitArguments,
}

// No documentation: it would be the head of the help.
#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "see above")]
pub struct LimitArguments {
    /// Connections at once, at most 2 MB each.
    #[arg(long, default_value = "4096", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// Connections at once of one network of clients, a /24 of IPv4 or a /56 of IPv6.
    #[arg(long, default_value = "1024", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections_of_network: u32,

    /// File with authorities, in PEM; clients then need a certificate of one of them.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// Seconds after which a silent connection ends.
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,

    /// Handshakes in progress for each CPU from which on clients prove their addresses; 0 for all.
    #[arg(long, default_value = "128", value_name = "COUNT")]
    retry_from: u32,

    /// Bytes of the longest datagram to send, until the MTU of the path is measured.
    #[arg(long, default_value = "1200", value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1_200..=1_472))]
    mtu: u16,
}

impl LimitArguments {
    /// Makes the service of `application`.
    fn service<A: Application>(&self, certificate: &Arc<Certificate>, application: Arc<A>) -> anyhow::Result<Quic<A>> {
        let limits = Limits { idle: Duration::from_secs(self.idle), mtu: self.mtu };
        let config = tls::config(certificate, self.client_ca.as_deref(), &*application, &limits)?;
        let bounds = Bounds {
            connections: self.connections as usize,
            of_network: self.connections_of_network as usize,
            retry_from: thread::available_parallelism().map_or(1, NonZero::get) * self.retry_from as usize,
        };
        Ok(Quic::new(application, config, bounds))
    }
}

impl ConnectionArguments {
    /// Reads the certificate.
    ///
    /// # Errors
    /// As [`Certificate::read`].
    pub fn certificate(&self) -> anyhow::Result<Arc<Certificate>> {
        Ok(Arc::new(Certificate::read(&self.cert, &self.key)?))
    }

    /// Reads it again.
    ///
    /// # Errors
    /// As [`Certificate::read_again`].
    pub fn read_again(&self, certificate: &Certificate) -> anyhow::Result<()> {
        certificate.read_again(&self.cert, &self.key)
    }

    /// Makes the service of `application`.
    ///
    /// # Errors
    /// As [`tls::config`].
    pub fn service<A: Application>(
        &self,
        certificate: &Arc<Certificate>,
        application: Arc<A>,
    ) -> anyhow::Result<Quic<A>> {
        self.limits.service(certificate, application)
    }
}

// No documentation: it would be the head of the help.
#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "see above")]
pub struct DoorArguments {
    /// Address at which clients reach the service over QUIC; each stream is a request.
    #[arg(long, value_name = "ADDRESS", requires_all = ["cert", "key"])]
    quic: Option<SocketAddr>,

    /// File with the certificate chain for QUIC, in PEM.
    #[arg(long, value_name = "FILE", requires = "quic")]
    cert: Option<PathBuf>,

    /// File with the private key for QUIC, in PEM.
    #[arg(long, value_name = "FILE", requires = "quic")]
    key: Option<PathBuf>,
}

impl DoorArguments {
    /// The address at which QUIC is asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.quic
    }

    /// Reads the certificate; `None` without an address.
    ///
    /// # Errors
    /// As [`Certificate::read`].
    pub fn certificate(&self) -> anyhow::Result<Option<Arc<Certificate>>> {
        let read = |(cert, key)| Certificate::read(cert, key).map(Arc::new);
        self.files().map(read).transpose()
    }

    /// Reads it again.
    ///
    /// # Errors
    /// As [`Certificate::read_again`].
    pub fn read_again(&self, certificate: &Certificate) -> anyhow::Result<()> {
        self.files().map_or(Ok(()), |(cert, key)| certificate.read_again(cert, key))
    }

    fn files(&self) -> Option<(&Path, &Path)> {
        self.cert.as_deref().zip(self.key.as_deref())
    }
}

// No documentation: it would be the head of the help.
#[derive(Debug, clap::Args)]
#[expect(missing_docs, reason = "see above")]
pub struct QuicArguments {
    /// Where it is, which is one of the addresses of `--listen`, and the certificate.
    #[command(flatten)]
    pub door: DoorArguments,

    /// Application protocol of QUIC connections (ALPN).
    #[arg(long, default_value = "forebay", value_name = "NAME")]
    alpn: String,

    /// Bytes of the longest request of a stream.
    #[arg(long, default_value = "16384", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    request_max: u32,

    /// Bytes of the longest reply of a stream; the server keeps so many for each request.
    #[arg(long, default_value = "16384", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    reply_max: u32,

    #[command(flatten)]
    limits: LimitArguments,
}

impl QuicArguments {
    /// Makes the part of the service that speaks QUIC.
    ///
    /// # Errors
    /// As [`tls::config`].
    pub fn service<H: Handler + Send + 'static>(
        &self,
        certificate: &Arc<Certificate>,
        handler: &Arc<H>,
    ) -> anyhow::Result<Quic<ByStream<H>>> {
        let (handler, protocol) = (Arc::clone(handler), self.alpn.clone());
        let (request_max, reply_max) = (self.request_max as usize, self.reply_max as usize);
        self.limits.service(certificate, Arc::new(ByStream { handler, protocol, request_max, reply_max }))
    }
}

/// The settings of a program, and `Q`, those for QUIC. The head of the help is that of `A`.
#[derive(Debug)]
pub struct Both<A, Q> {
    /// The program's own settings.
    pub own: A,
    /// Those for QUIC.
    pub quic: Q,
}

impl<A: Args, Q: Args> Args for Both<A, Q> {
    fn augment_args(command: Command) -> Command {
        A::augment_args(Q::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(Q::augment_args_for_update(command))
    }
}

impl<A: Args, Q: Args> FromArgMatches for Both<A, Q> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Both { own: A::from_arg_matches(matches)?, quic: Q::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.own.update_from_arg_matches(matches)?;
        self.quic.update_from_arg_matches(matches)
    }
}
