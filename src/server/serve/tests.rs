//! A server of which a part fails, or to which the system grants less than it asks for.

use super::*;
use crate::config::Config;
use crate::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, handler_fn, sleep};
use crate::net::{BATCH, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES};
use crate::server::listening::small_buffers;
use crate::time::{Nanos, clock};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Far longer than any test here takes.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// Does a server whose admin endpoint failed end and say why, instead of serving unobserved?
/// Method: the admin listener is replaced by a file whose readiness cannot be awaited.
#[test]
fn a_dead_admin_endpoint_ends_the_server() {
    let config = Config::from_pairs([("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0"), ("workers", "1")]);
    let mut server = Server::bind(&config.expect("a configuration")).expect("free ports");
    server.start.bound.listening.admin = Some(OwnedFd::from(File::open("/dev/null").expect("there is one")).into());
    let (end, ended) = channel();
    thread::spawn(move || drop(end.send(server.run(&handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {})).map(drop))));
    match ended.recv_timeout(GIVE_UP_AFTER).expect("it ends") {
        Err(ServeError::Admin(reason)) => assert!(reason.contains("not permitted"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Is an ordinary handler refused on cores that sleep in place of work?
#[test]
fn only_the_bench_server_sleeps() {
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).set("burn", "sleep").bind();
    let server = server.expect("free ports");
    server.stop_handle().stop();
    let refused = server.run(&Sleeps).expect_err("its handler works").to_string();
    assert!(refused.starts_with("burn = \"sleep\": ") && refused.ends_with("; allowed: burn cpu"), "{refused}");
}

/// Sleeps for the number of 4 ms units in the request.
struct Sleeps;

impl Handler for Sleeps {
    type Ticket = ();

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        sleep(Nanos::from_millis(4).times(request.bytes()[0].into())).await;
        let _ = reply.put(request.bytes());
    }
}

/// The JSON at `path` of the admin endpoint.
fn get(admin: SocketAddr, path: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(admin).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON")
}

/// Does `/slow` name a lack of packets while a request waits for one, and afterwards? Method: a
/// server with eight packets, all held by sleeping requests. The client's next request waits in the
/// socket, much longer than a busy machine delays a worker.
#[test]
fn exhausted_packets_are_named() {
    let packets = |cause: &Option<String>| cause.as_deref() == Some("packets");
    let mut said = Vec::new();
    for policy in ["steal", "levels", "auto"] {
        let ports = [("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0"), ("workers", "1")];
        let config = Config::from_pairs(ports.into_iter().chain([("policy", policy)]));
        let mut server = Server::bind(&config.expect("a configuration")).expect("free ports");
        // The thread that stops the server has a batch.
        server.start.packets = BATCH + 8;
        let (udp, admin, stop) = (server.udp_address(), server.admin_address().expect("one"), server.stop_handle());
        let running = thread::spawn(move || server.run(&Sleeps));
        let slow = |list: &str| {
            // The request that waits for a packet came last.
            let body = get(admin, "/slow");
            let last = body[list].as_array()?.iter().max_by_key(|entry| entry["request"].as_u64())?;
            last["culprit"]["cause"].as_str().map(str::to_owned)
        };
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client.connect(udp).expect("an address");
        client.set_read_timeout(Some(GIVE_UP_AFTER)).expect("above zero");
        for seed in 0..8 {
            (0..8).for_each(|_| _ = client.send(&[60 + 7 * seed]).expect("sent"));
            let give_up_at = clock::now().plus(GIVE_UP_AFTER.into());
            while get(admin, "/latency")["fates"]["in_flight"] != 8 {
                assert!(clock::now() < give_up_at, "eight packets are not in use");
            }
            client.send(&[0]).expect("sent");
            // As a user who looks again: 100 ms, of the at least 240 that it waits.
            let mut looks = (0..10).map(|_| {
                thread::sleep(Duration::from_millis(10));
                slow("sockets")
            });
            let meanwhile = looks.find(packets);
            (0..9).for_each(|_| _ = client.recv(&mut [0; 9]).expect("an answer"));
            said.extend([meanwhile.flatten(), slow("slowest")]);
        }
        stop.stop();
        running.join().expect("no panic").expect("it ran");
    }
    // A busy host pauses this process, and that is then the cause.
    let judged = said.iter().filter(|cause| cause.as_deref() != Some("host_pause")).count();
    let right = said.iter().filter(|cause| packets(cause)).count();
    assert!(right * 20 >= judged * 19 && judged * 2 > said.len(), "{right} are right in {said:?}");
}

/// Is exactly each buffer that is too small named, with its setting in deploy/sysctl?
#[test]
fn small_buffers_name_their_sysctl() {
    let deployed = include_str!("../../../deploy/sysctl/60-forebay.conf");
    assert!(small_buffers(RECV_BUFFER_BYTES, SEND_BUFFER_BYTES).is_empty());
    for (receive, send, sysctl, wanted) in [
        (212_992, SEND_BUFFER_BYTES, "net.core.rmem_max", RECV_BUFFER_BYTES),
        (RECV_BUFFER_BYTES, 212_992, "net.core.wmem_max", SEND_BUFFER_BYTES),
    ] {
        let small = small_buffers(receive, send);
        assert_eq!(small.len(), 1, "{small:?}");
        assert!(small[0].contains("buffer of 212992 bytes"), "{small:?}");
        assert!(small[0].contains(&format!("`sysctl {sysctl}={wanted}`")), "{small:?}");
        assert!(deployed.contains(&format!("\n{sysctl} = {wanted}\n")), "{sysctl}");
    }
}
