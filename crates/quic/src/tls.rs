//! The server's certificate and the limits of its connections.

use crate::application::Application;
use anyhow::{Context, anyhow};
use arc_swap::ArcSwap;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{KeyLogFile, RootCertStore};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The most streams that a client may have open.
const STREAMS: u32 = 64;

/// The bytes that a connection keeps of received data, and of data to send: enough for 160 Mbit/s
/// over 50 ms.
pub const WINDOW: u32 = 1 << 20;

/// The bytes that a connection keeps of one stream, at least: what comes in a few packets.
pub const STREAM_LEAST: u32 = 16_384;

/// The limits of a connection that programs set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time after which a silent connection ends.
    pub idle: Duration,
    /// The bytes of the longest datagram to send, until the MTU of the path is measured.
    pub mtu: u16,
}

impl Default for Limits {
    /// 30 seconds, and 1,200 bytes, which fit any path (RFC 9000, section 14).
    fn default() -> Limits {
        Limits { idle: Duration::from_secs(30), mtu: 1_200 }
    }
}

/// A server's certificate and its key. They may be read again while it serves.
#[derive(Debug)]
pub struct Certificate(ArcSwap<CertifiedKey>);

impl Certificate {
    /// Reads the certificate chain and the key, both in PEM.
    ///
    /// # Errors
    /// If a file cannot be read, or the certificate does not belong to the key.
    pub fn read(chain: &Path, key: &Path) -> anyhow::Result<Certificate> {
        Ok(Certificate(ArcSwap::from_pointee(pair(chain, key)?)))
    }

    /// Reads them again. Connections that begin from now on have the new ones.
    ///
    /// # Errors
    /// As [`Certificate::read`]; the old ones stay.
    pub fn read_again(&self, chain: &Path, key: &Path) -> anyhow::Result<()> {
        self.0.store(Arc::new(pair(chain, key)?));
        Ok(())
    }
}

fn pair(chain: &Path, key: &Path) -> anyhow::Result<CertifiedKey> {
    let chain = certificates(chain).map_err(|error| anyhow!("--cert {}: {error}", chain.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| anyhow!("--key {}: {error}", key.display()))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).context("--cert and --key")
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(file)?.collect()
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// The configuration of each connection of `application`: the certificate, and limits. With
/// `authorities`, a file in PEM, a client needs a certificate of one of these. If the environment
/// has `SSLKEYLOGFILE`, the keys of connections are written to that file, for programs that show
/// packets.
///
/// # Errors
/// If the authorities cannot be read.
pub fn config(
    certificate: &Arc<Certificate>,
    authorities: Option<&Path>,
    application: &impl Application,
    limits: &Limits,
) -> anyhow::Result<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3");
    let tls = match authorities {
        None => tls.with_no_client_auth(),
        Some(file) => {
            let wrong = |error: &dyn Display| anyhow!("--client-ca {}: {error}", file.display());
            let mut roots = RootCertStore::empty();
            for authority in certificates(file).map_err(|error| wrong(&error))? {
                roots.add(authority).map_err(|error| wrong(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            tls.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
        }
    };
    let mut tls = tls.with_cert_resolver(Arc::clone(certificate) as Arc<dyn ResolvesServerCert>);
    tls.alpn_protocols = application.protocols().into_iter().map(String::into_bytes).collect();
    tls.key_log = Arc::new(KeyLogFile::new());
    // A client that comes again needs no signature.
    tls.ticketer = aws_lc_rs::Ticketer::new().context("no keys can be made for tickets")?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let mut transport = transport(limits);
    application.configure(&mut transport);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// The limits of each connection.
fn transport(limits: &Limits) -> TransportConfig {
    let Limits { idle, mtu } = *limits;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(WINDOW.into())
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).expect("it is short")))
        .initial_mtu(mtu);
    transport
}

#[cfg(test)]
mod tests {
    use super::*;

    // Has each kind of memory of a connection a bound? The bounds of what a client sends are also
    // tested by a client.
    #[test]
    fn a_connection_keeps_a_limited_number_of_bytes() {
        let limits = Limits { idle: Duration::from_secs(30), mtu: 1_200 };
        let limits = format!("{:?}", transport(&limits));
        for limit in [
            "max_concurrent_bidi_streams: 64",
            "max_concurrent_uni_streams: 0",
            "stream_receive_window: 1048576",
            " receive_window: 1048576",
            "send_window: 1048576",
            "datagram_receive_buffer_size: None",
        ] {
            assert!(limits.contains(limit), "{limit}: {limits}");
        }
    }
}
