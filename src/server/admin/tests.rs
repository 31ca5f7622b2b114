//! Tests of the endpoint over real connections to 127.0.0.1.

mod mock;

use super::*;
use crate::metrics::{Ended, WorkerMetrics};
use crate::time::clock;
use mock::Server;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A test that takes this long fails instead of hanging. It is far longer than any test here takes.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// The answer to an unknown path.
const HINT: &str = "try one of / /metrics /latency /latency.hlog /history /slow /capture /config /healthz /readyz\n";

const SECONDS: &str = "/capture?seconds=N: N is 1 to 60; without it 1\n";

/// Runs `client` against the endpoint of `metrics`, then stops the endpoint.
fn with_endpoint(limits: ClientLimits, metrics: &WorkerMetrics, client: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let (server, (stopper, stop)) = (Server::new(), watch::channel(false));
    std::thread::scope(|scope| {
        let endpoint = scope.spawn(|| {
            let (questions, mut collector) = (Metrics::new(), Collector::new(metrics));
            run(&runtime().unwrap(), Some(listener), &mut collector, &server, questions, stop, limits)
        });
        // The stopper is moved into the thread, so that a panicking client also stops the endpoint.
        let stopper = stopper;
        client(address);
        drop(stopper);
        endpoint.join().expect("no panic").expect("the endpoint ran");
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the endpoint listens");
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).expect("a timeout above zero");
    stream
}

/// Sends `request` and returns everything received until the server closes.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("the endpoint reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the endpoint answers and closes");
    reply
}

fn request(address: SocketAddr, line: &str) -> (u16, String) {
    let reply = exchange(address, &format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

// While a server has nothing to do, is the gate left alone? Once a worker stirs, does it decide at
// once, and then as often as always? Method: virtual time.
#[test]
fn an_idle_server_is_left_alone() {
    let (server, (stopper, stop)) = (Server::new(), watch::channel(false));
    server.is_idle.store(true, Ordering::Relaxed);
    let (metrics, (_asker, questions)) = (WorkerMetrics::new(1), mpsc::channel(1));
    let mut collector = Collector::new(&metrics);
    let test = async {
        let after = async |time| {
            tokio::time::sleep(time).await;
            server.decisions.load(Ordering::Relaxed)
        };
        let before = after(Duration::from_millis(1_500)).await;
        assert_eq!(after(Duration::from_secs(10)).await, before);
        server.is_idle.store(false, Ordering::Relaxed);
        server.activity().stirs();
        assert_eq!(after(Duration::from_millis(1)).await, before + 1);
        let each_second = (COLLECT_EVERY.get() / DECIDE_EVERY.get()) as usize;
        assert_eq!(after(COLLECT_EVERY.into()).await, before + 1 + each_second);
        drop(stopper);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime
        .expect("a runtime")
        .block_on(async { tokio::join!(control(&mut collector, &server, questions, stop), test) });
}

/// Is a page of another origin kept from reading answers and from starting captures, while
/// operators may do both? May any prober ask for health, and may another site link to the page?
#[test]
fn pages_of_other_sites_may_not_ask() {
    let metrics = WorkerMetrics::new(1);
    with_endpoint(ClientLimits::DEFAULT, &metrics, |address| {
        let status = |path: &str, headers: &str| {
            exchange(address, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n"))[9..12].to_owned()
        };
        let (health, operators) = (["/healthz", "/readyz"], ["/capture", "/config"]);
        let open = HINT.split(' ').map(str::trim).filter(|word| word.starts_with('/') && !health.contains(word));
        let open: Vec<&str> = open.filter(|path| !operators.contains(path)).collect();
        assert!(["/", "/metrics", "/latency", "/slow"].iter().all(|path| open.contains(path)), "{open:?}");
        for own in ["localhost:9001", "LOCALHOST", "127.0.0.1:9001", "[::1]:9001", "10.0.0.9"] {
            for path in open.iter().chain([&"/config"]) {
                assert_eq!(status(path, &format!("host: {own}")), "200", "{path} {own}");
                assert_eq!(status(path, &format!("host: {own}\r\norigin: http://{own}")), "200", "{path} {own}");
            }
        }
        assert_eq!(status("/config", "host: localhost\r\nsec-fetch-site: none"), "200");
        for host in ["host: evil.example", "host: 127.0.0.1.evil.example:9001", "host: ", "accept: */*"] {
            for path in open.iter().chain(&operators) {
                assert_eq!(status(path, host), "403", "{path} {host}");
            }
            health.iter().for_each(|path| assert_eq!(status(path, host), "200", "{path} {host}"));
        }
        for led in
            ["origin: null", "origin: http://evil.example", "origin: http://localhost:80", "sec-fetch-site: cross-site"]
        {
            let status = |path: &str| status(path, &format!("host: localhost\r\n{led}"));
            operators.iter().for_each(|path| assert_eq!(status(path), "403", "{path} {led}"));
            open.iter().for_each(|path| assert_eq!(status(path), "200", "{path} {led}"));
        }
    });
}

/// Are the headers right? Are unknown methods and paths answered as HTTP requires?
#[test]
fn replies_keep_to_http() {
    let config = Server::new().reloads().to_json();
    with_endpoint(ClientLimits::DEFAULT, &WorkerMetrics::new(1), |address| {
        for (line, status, header, body) in [
            ("GET /healthz", "200 OK", "content-type: text/plain; charset=utf-8", "ok\n"),
            ("GET /readyz?verbose", "200 OK", "content-length: 6", "ready\n"),
            ("HEAD /readyz", "200 OK", "content-length: 6", ""),
            ("HEAD /latency", "200 OK", "content-type: application/json", ""),
            ("GET /config", "200 OK", "content-type: application/json", &config),
            ("POST /metrics", "405 Method Not Allowed", "allow: GET,HEAD", ""),
            ("PUT /healthz", "405 Method Not Allowed", "content-length: 0", ""),
            ("GET /healthz/", "404 Not Found", "content-type: text/plain; charset=utf-8", HINT),
            ("POST /nowhere", "404 Not Found", "content-length: 94", HINT),
            ("POST /", "405 Method Not Allowed", "allow: GET,HEAD", ""),
            ("HEAD /", "200 OK", "cache-control: no-store", ""),
            ("GET /capture?seconds=61", "400 Bad Request", "content-type: text/plain; charset=utf-8", SECONDS),
            ("GET /capture?seconds=0", "400 Bad Request", "content-type: text/plain; charset=utf-8", SECONDS),
            ("GET /capture?second=1", "400 Bad Request", "content-type: text/plain; charset=utf-8", SECONDS),
        ] {
            let reply = exchange(address, &format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
            let (head, came) = reply.split_once("\r\n\r\n").expect("a head and a body");
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {reply}");
            assert!(head.lines().any(|line| line == header), "{line} without {header}: {reply}");
            assert_eq!(came, body, "{line}");
        }
    });
}

/// Does `/metrics` choose its format by the client's `Accept` header?
#[test]
fn metrics_come_in_the_accepted_format() {
    with_endpoint(ClientLimits::DEFAULT, &WorkerMetrics::new(1), |address| {
        let classic = exchange(address, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert!(classic.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{classic}");
        assert!(classic.contains("# TYPE forebay_datagrams_total counter\n"), "{classic}");
        let accept = "accept: application/openmetrics-text;version=1.0.0";
        let only_open = exchange(address, &format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\n{accept}\r\n\r\n"));
        assert!(only_open.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{only_open}");
    });
}

/// If silent clients take all connections, is a client that sends still answered? Method: more
/// silent clients than connections, all kept open.
#[test]
fn silent_clients_do_not_block_others() {
    // The other limits are so long that they disconnect no client.
    let patience = Nanos::from(2 * GIVE_UP_AFTER);
    let limits = ClientLimits { connections: 4, header: patience, connection: patience };
    with_endpoint(limits, &WorkerMetrics::new(1), |address| {
        let silent: Vec<TcpStream> = (0..10).map(|_| connect(address)).collect();
        assert_eq!(request(address, "GET /healthz").0, 200);
        assert!(is_cut_off(&silent[0]), "the oldest had to make room");
    });
}

/// Is a client disconnected if it never finishes its header, takes too long in total, or sends too
/// much? Method: the tested limit is short, the others are long. A read returns when the endpoint
/// closes.
#[test]
fn a_stalling_client_is_cut_off() {
    let short = Nanos::from_millis(50);
    with_endpoint(ClientLimits { header: short, ..ClientLimits::DEFAULT }, &WorkerMetrics::new(1), |address| {
        assert_eq!(exchange(address, "GET /healthz HTTP/1.1\r\nhost:"), "", "no answer to half a header");
    });
    let no_other =
        ClientLimits { header: GIVE_UP_AFTER.into(), connection: GIVE_UP_AFTER.into(), ..ClientLimits::DEFAULT };
    with_endpoint(ClientLimits { connection: short, ..no_other }, &WorkerMetrics::new(1), |address| {
        assert!(is_cut_off(&connect(address)));
    });
    with_endpoint(no_other, &WorkerMetrics::new(1), |address| {
        let mut endless = connect(address);
        let mut sent = 0;
        while endless.write_all(&[b'a'; 4_096]).is_ok() {
            sent += 4_096;
            assert!(sent < 64 << 20, "the endpoint reads without end");
        }
    });
}

/// Waits until the endpoint closes the connection. False if it sends something, or nothing happens
/// for [`GIVE_UP_AFTER`].
fn is_cut_off(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// If an endpoint drops its listener, does it answer the connections that it has accepted, and
/// leave later ones to the other process?
#[test]
fn a_released_listener_is_another_process_s() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let other = listener.try_clone().expect("a descriptor");
    let (server, metrics, (stopper, stop)) = (Server::new(), WorkerMetrics::new(1), watch::channel(false));
    std::thread::scope(|scope| {
        let endpoint = scope.spawn(|| {
            let (runtime, questions) = (runtime().unwrap(), Metrics::new());
            run(
                &runtime,
                Some(listener),
                &mut Collector::new(&metrics),
                &server,
                questions,
                stop,
                ClientLimits::DEFAULT,
            )
        });
        assert_eq!(request(address, "GET /healthz"), (200, "ok\n".into()));
        let mut open = TcpStream::connect(address).expect("it listens");
        open.write_all(b"GET /healthz HTTP/1.1\r\n").expect("a connection");
        // The connection is accepted by now, because connections are accepted in order.
        assert_eq!(request(address, "GET /healthz"), (200, "ok\n".into()));
        stopper.send(true).expect("it runs");
        let deadline = std::time::Duration::from_millis(20);
        // Until the endpoint has dropped the listener, it may still accept a connection, which it
        // then answers.
        let left = std::iter::repeat_with(|| {
            let mut late = TcpStream::connect(address).expect("the other process listens");
            late.set_read_timeout(Some(deadline)).expect("a timeout");
            late.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").expect("a connection");
            late.read(&mut [0; 1]).is_err()
        });
        assert!(left.take(1_000).any(|left| left), "it accepts for ever");
        other.set_nonblocking(true).expect("an option");
        assert!(std::iter::repeat_with(|| other.accept()).take(1_000).any(|accepted| accepted.is_ok()));
        open.write_all(b"connection: close\r\n\r\n").expect("a connection");
        open.set_read_timeout(Some(GIVE_UP_AFTER)).expect("a timeout");
        let mut answer = String::new();
        open.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(!endpoint.is_finished(), "it is there for its own server");
        drop(stopper);
        endpoint.join().expect("no panic").expect("it was stopped");
    });
}

/// Is a capture a trace of the requests that ended meanwhile? Is there only one at a time, and can
/// another begin once its client has left?
#[test]
fn one_client_captures_at_a_time() {
    let metrics = WorkerMetrics::new(1);
    let mut recorder = metrics.recorder(0);
    with_endpoint(ClientLimits::DEFAULT, &metrics, |address| {
        let head = "GET /capture?seconds=60 HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut gone = connect(address);
        gone.write_all(head.as_bytes()).expect("the endpoint reads");
        let begun = clock::now();
        while !recorder.flight.captures() {
            assert!(clock::now().minus(begun) < GIVE_UP_AFTER.into(), "no capture");
            std::thread::yield_now();
        }
        assert_eq!(request(address, "GET /capture").0, 409);
        drop(gone);
        while recorder.flight.captures() {
            assert!(clock::now().minus(begun) < GIVE_UP_AFTER.into(), "the capture of a client that has gone");
            std::thread::yield_now();
        }
        let (status, text) = std::thread::scope(|scope| {
            let capturing = scope.spawn(|| request(address, "GET /capture?seconds=1"));
            while !recorder.flight.captures() {
                assert!(clock::now().minus(begun) < GIVE_UP_AFTER.into(), "no second capture");
                std::thread::yield_now();
            }
            let (came_at, received_at) = (clock::now(), clock::now());
            let (service, class, socket, served) = (Nanos::from_micros(70), 1, 0, true);
            recorder.received(2);
            recorder.flight.capture(
                &Ended { came_at, received_at, service, class, socket, served, ..Ended::default() },
                "a",
                7,
            );
            capturing.join().expect("no panic")
        });
        assert_eq!(status, 200, "{text}");
        assert!(text.starts_with("# 2 arrived, 1 are below."), "{text}");
        assert!(text.contains("time-scale=10 burn=sleep workers=1 seed=0 warmup=0ns left-out=1 workload="), "{text}");
        assert!(text.contains(" long 7us ") && text.lines().count() == 6, "{text}");
    });
}
