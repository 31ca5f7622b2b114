//! Does h3's client, over quinn, get its answers?

use bytes::{Buf, Bytes};
use forebay::server::Running;
use forebay::{Admitted, checkpoint};
use forebay_http3::{PROTOCOL, Stream};
use forebay_quic::quinn_proto::TransportConfig;
use forebay_quic::tls::{self, Certificate, Limits};
use forebay_quic::{Application, Bounds, Connection, Quic};
use h3::client::SendRequest;
use http::{HeaderMap, Request, Response, StatusCode};
use quic_client::{ONE_DATAGRAM, RSA, client_config, client_of, patient, run, with_certificate};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::skip::skip;

const PAGE: &str = include_str!("../README.md");

/// Ends the process with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example with further arguments: its process, its address, and the folder of its certificate.
fn example(arguments: &[&str]) -> Option<(Process, SocketAddr, tempfile::TempDir)> {
    let dir = with_certificate(PAGE, RSA)?;
    let test = std::env::current_exe().expect("this program");
    let program = test.parent().and_then(Path::parent).expect("a folder").join("examples/hashes");
    if !program.exists() {
        skip("the example is not built: cargo build -p forebay-http3 --examples makes it");
        return None;
    }
    let mut command = Command::new(program);
    command.args(["--cert", "cert.pem", "--key", "key.pem", "--listen", "127.0.0.1:0", "--admin", "off"]);
    command.args(arguments).current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Process(command.spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().expect("it is piped")).read_line(&mut line).expect("text");
    let address = line.trim_end().strip_prefix("listening on udp ").and_then(|rest| rest.split(',').next());
    let address = address.unwrap_or_else(|| panic!("it says {line:?}"));
    Some((process, address.parse().expect("an address"), dir))
}

type Client = SendRequest<h3_quinn::OpenStreams, Bytes>;

/// A client of `server`, while `work` runs.
async fn asking<F: Future<Output = ()>>(server: SocketAddr, dir: &Path, work: impl FnOnce(Client) -> F) {
    let endpoint = client_of(client_config(dir, ONE_DATAGRAM, PROTOCOL));
    let connection =
        patient(endpoint.connect(server, "localhost").expect("a local address")).await.expect("a handshake");
    let (mut driver, client) = patient(h3::client::new(h3_quinn::Connection::new(connection))).await.expect("HTTP/3");
    let drives = tokio::spawn(async move { std::future::poll_fn(|context| driver.poll_close(context)).await });
    work(client).await;
    drives.abort();
}

/// The status, the body and the trailers of an answer.
async fn ask(mut client: Client, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>, Option<HeaderMap>) {
    let request = Request::post(format!("https://localhost{path}")).body(()).expect("it is valid");
    let (mut send, mut receive) = patient(client.send_request(request)).await.expect("a stream").split();
    let sends = async {
        for part in body.chunks(50_000) {
            send.send_data(Bytes::copy_from_slice(part)).await.expect("it is taken");
        }
        send.finish().await.expect("it is open");
    };
    let receives = async {
        let response = receive.recv_response().await.expect("an answer");
        let mut body = Vec::new();
        while let Some(mut part) = receive.recv_data().await.expect("a body") {
            body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        let trailers = receive.recv_trailers().await.expect("none, or some");
        (response.status(), body, trailers)
    };
    patient(async { tokio::join!(sends, receives).1 }).await
}

// Is a light request answered while heavy ones of the same connection compute on the only worker?
#[test]
fn a_heavy_request_holds_up_no_light_one() {
    let one_worker = ["--workers", "1", "--policy", "levels"];
    let Some((_process, server, dir)) = example(&[&one_worker[..], &["--rounds", "200000"]].concat()) else { return };
    run(asking(server, dir.path(), async |client: Client| {
        let heavy = (0..4).map(|_| tokio::spawn(ask(client.clone(), "/hash/secret", Vec::new()))).collect::<Vec<_>>();
        for _ in 0..5 {
            let (status, body, _) = ask(client.clone(), "/", Vec::new()).await;
            assert!(status == 200 && body.starts_with(b"<!doctype html>"), "{status}");
        }
        assert!(heavy.iter().any(|heavy| !heavy.is_finished()), "all heavy ones ended before five light ones");
        for heavy in heavy {
            let (status, body, _) = heavy.await.expect("no panic");
            assert_eq!((status.as_u16(), body.len()), (200, 64));
        }
        assert_eq!(ask(client.clone(), "/elsewhere", Vec::new()).await.0, 404);
    }));
}

/// A server of `application`, and the folder of its certificate.
fn serving(application: impl Application) -> Option<(Running, tempfile::TempDir)> {
    let dir = with_certificate(PAGE, RSA)?;
    let certificate = Certificate::read(&dir.path().join("cert.pem"), &dir.path().join("key.pem")).expect("one");
    let config = tls::config(&Arc::new(certificate), None, &application, &Limits::default()).expect("no authorities");
    Some((forebay::Server::for_tests(Quic::new(Arc::new(application), config, Bounds::default())), dir))
}

/// Sends back each body, and its length as a trailer.
struct Echo;

impl Application for Echo {
    fn protocols(&self) -> Vec<String> {
        vec![PROTOCOL.to_owned()]
    }

    fn configure(&self, limits: &mut TransportConfig) {
        forebay_http3::configure(limits);
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        forebay_http3::serve(&connection, echo).await;
    }
}

async fn echo(request: Request<()>, mut stream: Stream) {
    if request.uri().path() == "/panic" {
        std::panic::resume_unwind(Box::new(()));
    }
    let response = Response::builder().status(201).body(()).expect("it is valid");
    stream.send_response(response).await.expect("it is open");
    let mut length = 0;
    while let Some(mut part) = stream.recv_data().await.expect("a body") {
        length += part.remaining();
        stream.send_data(part.copy_to_bytes(part.remaining())).await.expect("it is open");
    }
    let trailers = HeaderMap::from_iter([("length".parse().expect("a name"), length.into())]);
    stream.send_trailers(trailers).await.expect("it is open");
    stream.finish().await.expect("it is open");
}

// Do bodies of any length go both ways, many at once? Does a request whose task panics end alone?
#[test]
fn bodies_and_trailers_go_both_ways() {
    let Some((server, dir)) = serving(Echo) else { return };
    run(asking(server.address, dir.path(), async |client: Client| {
        let asked = [0, 1, 1_000, 300_000, 2_000_000].map(|length| {
            let body = (0..length).map(|byte| byte as u8).collect::<Vec<_>>();
            let client = client.clone();
            tokio::spawn(async move { (ask(client, "/", body.clone()).await, body) })
        });
        let failed = tokio::spawn({
            let mut client = client.clone();
            async move {
                let request = Request::get("https://localhost/panic").body(()).expect("it is valid");
                let mut stream = client.send_request(request).await.expect("a stream");
                patient(stream.recv_response()).await.is_err()
            }
        });
        for asked in asked {
            let ((status, answer, trailers), body) = asked.await.expect("no panic");
            assert!(answer == body && status == 201, "{} bytes", body.len());
            assert_eq!(trailers.expect("some")["length"], body.len().to_string());
        }
        assert!(failed.await.expect("no panic"));
    }));
    assert_eq!(server.stop().expect("it served to the end").totals.fates.failed, 1);
}

/// Answers once the client knows that the server stops. Counts the steps: it computes, and the
/// client knows.
struct Computes(Arc<AtomicUsize>);

impl Application for Computes {
    fn protocols(&self) -> Vec<String> {
        vec![PROTOCOL.to_owned()]
    }

    fn configure(&self, limits: &mut TransportConfig) {
        forebay_http3::configure(limits);
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        let on = connection.clone();
        let answer = move |_, mut stream: Stream| {
            let (on, own) = (on.clone(), Arc::clone(&self));
            async move {
                let computes = async move {
                    own.0.fetch_max(1, Ordering::SeqCst);
                    while own.0.load(Ordering::SeqCst) < 2 {
                        checkpoint().await;
                    }
                };
                if on.begin(Admitted::new(()), computes).await.is_err() {
                    return;
                }
                // The client takes back what it asks to learn of the stop.
                let _ = stream.send_response(Response::new(())).await;
                let _ = stream.send_data(Bytes::from_static(&[b'a'; 5_000])).await;
                let _ = stream.finish().await;
            }
        };
        forebay_http3::serve(&connection, answer).await;
    }
}

// A server stops while it computes an answer. Does the client learn that it is to send no more, and
// does it still get the answer?
#[test]
fn a_stop_answers_what_has_begun() {
    let steps = Arc::new(AtomicUsize::new(0));
    let Some((server, dir)) = serving(Computes(Arc::clone(&steps))) else { return };
    run(asking(server.address, dir.path(), async |mut client: Client| {
        let asked = tokio::spawn(ask(client.clone(), "/", Vec::new()));
        let wait = || tokio::time::sleep(Duration::from_millis(5));
        patient(async {
            while steps.load(Ordering::SeqCst) == 0 {
                wait().await;
            }
        })
        .await;
        let stop = std::thread::spawn(|| server.stop());
        let request = || Request::get("https://localhost/").body(()).expect("it is valid");
        patient(async {
            while client.send_request(request()).await.is_ok() {
                wait().await;
            }
        })
        .await;
        assert!(!asked.is_finished(), "its connection is closed");
        steps.store(2, Ordering::SeqCst);
        let (status, body, _) = asked.await.expect("no panic");
        assert_eq!((status.as_u16(), body), (200, vec![b'a'; 5_000]));
        let fates = stop.join().expect("no panic").expect("it served to the end").totals.fates;
        assert_eq!((fates.failed, fates.shed_draining), (0, 0), "{fates:?}");
    }));
}
