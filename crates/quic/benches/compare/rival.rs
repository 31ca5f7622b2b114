//! The same application on quinn and on s2n-quic, both on tokio.

use bytes::Buf as _;
use forebay::inside::runtime::step_back;
use forebay::output::print;
use forebay::time::{Nanos, clock};
use forebay_quic::echo::{Echo, PROTOCOL};
use forebay_quic::tls::{self, Certificate};
use quinn::{Endpoint, Incoming, RecvStream, SendStream};
use s2n_quic::provider::tls::offload::{Executor, OffloadBuilder};
use s2n_quic::provider::tls::rustls as s2n_tls;
use s2n_quic::stream::BidirectionalStream;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// The argument with which this program is a rival, followed by the rival's name.
pub(crate) const WORD: &str = "serve-rival";

/// How long a connection may be silent.
const IDLE: Duration = Duration::from_secs(30);

/// How long a computation takes until it may yield.
const STEP: Nanos = Nanos::from_micros(20);

/// What a server ends with.
type Answer = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Serves as rival `name` on a free port until it is killed.
pub(crate) fn serve(name: &str) -> Answer {
    match name {
        "s2n" => tokio_of(1)?.block_on(s2n()),
        _ => tokio_of(if name == "quinn-2" { 2 } else { 1 })?.block_on(quinn(name)),
    }
}

fn tokio_of(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

fn print_address(address: std::net::SocketAddr) -> io::Result<()> {
    print(&format!("listening on udp {address}, admin http://none\n"))
}

/// quinn. As `quinn-aside`, a thread of the lowest priority accepts connections. As `quinn-yields`,
/// computations yield to other tasks.
async fn quinn(name: &str) -> Answer {
    let (aside, yields) = (name == "quinn-aside", name == "quinn-yields");
    let limits = tls::Limits { idle: IDLE, mtu: 1_200 };
    let application = Echo { compute_here: Nanos::ZERO };
    let certificate = Certificate::read(Path::new("cert.pem"), Path::new("key.pem"))?;
    let config = tls::config(&Arc::new(certificate), None, &application, &limits)?;
    let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into())?;
    print_address(endpoint.local_addr()?)?;
    let (accepting, runtime) = (mpsc::channel::<Incoming>(), Handle::current());
    if aside {
        std::thread::spawn(move || {
            let _ = step_back();
            let _guard = runtime.enter();
            for incoming in accepting.1 {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move { connected(connecting.await.ok()?, yields).await });
                }
            }
        });
    }
    while let Some(incoming) = endpoint.accept().await {
        if aside {
            accepting.0.send(incoming)?;
        } else {
            tokio::spawn(async move { connected(incoming.await.ok()?, yields).await });
        }
    }
    Ok(())
}

async fn connected(connection: quinn::Connection, yields: bool) -> Option<()> {
    loop {
        let (send, receive) = connection.accept_bi().await.ok()?;
        tokio::spawn(answer(send, receive, yields));
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream, yields: bool) -> Option<()> {
    let mut kind = [0];
    receive.read_exact(&mut kind).await.ok()?;
    if kind == *b"u" {
        let mut counted = 0_u64;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await.ok()? {
            counted += chunk.bytes.len() as u64;
        }
        send.write_all(&counted.to_be_bytes()).await.ok()?;
    } else {
        let mut head = &receive.read_to_end(8).await.ok()?[..];
        let mut zeros = head.try_get_u32().ok()? as usize;
        compute(head.try_get_u32().ok()?, yields).await;
        while zeros > 0 {
            let piece = zeros.min(16_384);
            send.write_all(&[0; 16_384][..piece]).await.ok()?;
            zeros -= piece;
        }
    }
    send.finish().ok()
}

/// Computes for one step, of a computation of this length. Returns the length of the step.
pub(crate) fn burn(left: Nanos) -> Nanos {
    let (began, step) = (clock::now(), left.min(STEP));
    while clock::now().minus(began) < step {
        std::hint::spin_loop();
    }
    step
}

/// Computes for this many microseconds, in steps.
async fn compute(micros: u32, yields: bool) {
    let mut left = Nanos::from_micros(micros.into());
    while left > Nanos::ZERO {
        left = left.minus(burn(left));
        if yields {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs the work of TLS on threads of the lowest priority.
struct Aside(Runtime);

impl Executor for Aside {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}

/// s2n-quic with its offload of TLS.
async fn s2n() -> Answer {
    let pair = (Path::new("cert.pem"), Path::new("key.pem"));
    let inner = s2n_tls::Server::builder().with_certificate(pair.0, pair.1)?;
    let inner = inner.with_application_protocols([PROTOCOL].iter())?.build()?;
    let aside = Builder::new_multi_thread().worker_threads(1).on_thread_start(|| _ = step_back()).build()?;
    let tls = OffloadBuilder::new().with_endpoint(inner).with_executor(Aside(aside)).with_exporter(()).build();
    let limits = s2n_quic::provider::limits::Limits::new().with_max_idle_timeout(IDLE)?;
    let mut server = s2n_quic::Server::builder().with_tls(tls)?.with_limits(limits)?.with_io("127.0.0.1:0")?.start()?;
    print_address(server.local_addr()?)?;
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                tokio::spawn(answer_s2n(stream));
            }
        });
    }
    Ok(())
}

async fn answer_s2n(mut stream: BidirectionalStream) -> Option<()> {
    let (mut head, mut counted) = (Vec::new(), 0_u64);
    while let Some(chunk) = stream.receive().await.ok()? {
        counted += chunk.len() as u64;
        head.extend_from_slice(&chunk[..chunk.len().min(9 - head.len().min(9))]);
    }
    let (kind, mut rest) = head.split_first()?;
    if *kind == b'u' {
        stream.send((counted - 1).to_be_bytes().to_vec().into()).await.ok()?;
    } else {
        let mut zeros = rest.try_get_u32().ok()? as usize;
        compute(rest.try_get_u32().ok()?, false).await;
        while zeros > 0 {
            let piece = zeros.min(16_384);
            stream.send(vec![0; piece].into()).await.ok()?;
            zeros -= piece;
        }
    }
    stream.finish().ok()
}
