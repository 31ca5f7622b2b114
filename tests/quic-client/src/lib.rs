//! What the tests of programs that speak QUIC share: a certificate, and quinn's client.

#![allow(missing_docs, reason = "most names say it, and only tests of this repository read them")]

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, TransportConfig};
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use support::skip::skip;
use tempfile::TempDir;

/// The longest wait for an expected event: a busy machine is slow, but a test must end.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What the commands of READMEs say of the certificate's key.
pub const RSA: &[&str] = &["-newkey", "rsa:2048"];

/// Ways to agree on keys, the preferred one first.
pub type Groups = &'static [&'static dyn SupportedKxGroup];

/// With ML-KEM, as Go and Chromium prefer it, a client's first message takes two datagrams.
pub const TWO_DATAGRAMS: Groups = &[kx_group::X25519MLKEM768, kx_group::X25519];

/// Without ML-KEM it takes one.
pub const ONE_DATAGRAM: Groups = &[kx_group::X25519];

/// A directory with a certificate and its key, made by the command of a README, with this kind of
/// key. `None` without `openssl`; the test is then skipped.
pub fn with_certificate(page: &str, key: &[&str]) -> Option<TempDir> {
    let dir = tempfile::tempdir().expect("a directory");
    let line = page.lines().find(|line| line.starts_with("openssl ")).expect("a command");
    let line = line.replace(&RSA.join(" "), &key.join(" "));
    let words = line.split_whitespace().skip(1);
    match Command::new("openssl").current_dir(dir.path()).args(words).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(dir)
        }
        Err(error) => {
            skip(format_args!("openssl: {error}"));
            None
        }
    }
}

/// The settings of a client that trusts the certificate in `dir`, and offers this protocol.
pub fn client_config(dir: &Path, groups: Groups, protocol: &str) -> quinn::ClientConfig {
    config_of(dir, groups, protocol, |tls| {
        let mut tls = tls.with_no_client_auth();
        // Each handshake is a whole one.
        tls.resumption = Resumption::disabled();
        tls
    })
}

/// The same, where `authenticate` adds the client's certificate.
pub fn config_of(
    dir: &Path,
    groups: Groups,
    protocol: &str,
    authenticate: impl FnOnce(ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig,
) -> quinn::ClientConfig {
    let pem = CertificateDer::from_pem_file(dir.join("cert.pem")).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pem).expect("a certificate");
    let provider = CryptoProvider { kx_groups: groups.to_vec(), ..aws_lc_rs::default_provider() };
    let tls =
        ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[&rustls::version::TLS13]);
    let mut tls = authenticate(tls.expect("the provider has it").with_root_certificates(roots));
    tls.alpn_protocols = vec![protocol.into()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(None);
    config.transport_config(Arc::new(transport));
    config
}

/// A client's endpoint with these settings.
pub fn client_of(config: quinn::ClientConfig) -> Endpoint {
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    endpoint.set_default_client_config(config);
    endpoint
}

/// The result of `work`, which must end in time.
pub async fn patient<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it ends in time")
}

/// Runs a test's client.
pub fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work);
}
