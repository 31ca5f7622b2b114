//! Do the tasks of a connection do what an application asks of them, as with quinn?

mod lives;
mod requests;
mod streams;

use crate::support::{ONE_DATAGRAM, PAGE, RSA, client_config, client_of, patient, with_certificate};
use forebay::server::Running;
use forebay::time::Nanos;
use forebay_quic::quinn_proto::TransportConfig;
use forebay_quic::service::{Bounds, Quic};
use forebay_quic::tls::{self, Certificate, Limits};
use forebay_quic::{Application, Connection, Incoming, Wish};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the first task of each connection does.
type First = Box<dyn Fn(Connection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What becomes of a client that asks for a connection.
type Chooses = fn(&Incoming) -> Wish;

struct App {
    first: First,
    wish: Chooses,
}

impl Application for App {
    fn protocols(&self) -> Vec<String> {
        vec!["test".into()]
    }

    fn configure(&self, limits: &mut TransportConfig) {
        limits.max_concurrent_uni_streams(8_u32.into()).datagram_receive_buffer_size(Some(65_536));
    }

    fn here(&self) -> Nanos {
        Nanos::from_secs(3_600)
    }

    fn incoming(&self, incoming: &Incoming) -> Wish {
        (self.wish)(incoming)
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        (self.first)(connection).await;
    }
}

/// A server with these settings, and a client's settings for it. Each connection begins with
/// `first`. `None` if there can be no certificate.
fn start<F>(settings: &[(&str, &str)], first: impl Fn(Connection) -> F + Send + Sync + 'static) -> Option<Served>
where
    F: Future<Output = ()> + Send + 'static,
{
    let first: First = Box::new(move |connection| Box::pin(first(connection)));
    start_app(settings, App { first, wish: |_| Wish::Accept })
}

fn start_app(settings: &[(&str, &str)], app: App) -> Option<Served> {
    let (dir, app) = (with_certificate(PAGE, RSA)?, Arc::new(app));
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    let certificate = Arc::new(Certificate::read(&cert, &key).expect("a certificate"));
    let config = tls::config(&certificate, None, &*app, &Limits::default()).expect("it is a certificate");
    let server = forebay::Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None);
    let server = settings.iter().fold(server, |server, (name, value)| server.set(name, value));
    let running = server.bind().expect("a free port").start(Quic::new(
        app,
        config,
        Bounds { connections: 100, of_network: 100, retry_from: 100 },
    ));
    Some(Served { running, client: client_config(dir.path(), ONE_DATAGRAM, "test") })
}

struct Served {
    running: Running,
    client: quinn::ClientConfig,
}

impl Served {
    async fn connect(&self) -> (quinn::Endpoint, quinn::Connection) {
        let client = client_of(self.client.clone());
        let connecting = client.connect(self.running.address, "localhost").expect("a local address");
        let connection = patient(connecting).await.expect("a handshake");
        (client, connection)
    }

    fn stop(self) -> forebay::fate::Fates {
        self.running.stop().expect("it served to the end").totals.fates
    }
}

const ONE_WORKER: &[(&str, &str)] = &[("workers", "1"), ("policy", "levels")];

/// What the client gets on a unidirectional stream that the server opens.
async fn heard(connection: &quinn::Connection) -> Vec<u8> {
    let mut receive = patient(connection.accept_uni()).await.expect("a stream");
    patient(receive.read_to_end(1 << 20)).await.expect("it ends")
}

/// Says `text` to the client.
async fn say(connection: &Connection, text: impl AsRef<[u8]>) {
    let mut send = connection.open_uni().await.expect("a stream");
    send.write_all(text.as_ref()).await.expect("it is open");
}

/// The streams that a client has opened once: both sides of one, with a text each.
async fn both(connection: &quinn::Connection, text: &[u8]) -> (quinn::SendStream, quinn::RecvStream) {
    let (mut send, receive) = connection.open_bi().await.expect("a stream");
    send.write_all(text).await.expect("it is open");
    (send, receive)
}

/// Counts what is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
