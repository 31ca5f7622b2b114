//! The server's certificate and the limits of its connections.

use crate::application::Application;
use anyhow::{Context, anyhow};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
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

/// The configuration of each connection of `application`: the certificate, and limits.
///
/// # Errors
/// If a file cannot be read, or the certificate does not belong to the key.
pub fn config(
    certificate: &Path,
    key: &Path,
    application: &impl Application,
    limits: &Limits,
) -> anyhow::Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| anyhow!("--cert {}: {error}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| anyhow!("--key {}: {error}", key.display()))?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("--cert and --key")?;
    tls.alpn_protocols = application.protocols().into_iter().map(String::into_bytes).collect();
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
