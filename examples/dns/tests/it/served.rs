//! Does the program serve over UDP and TCP, load zones again, keep the bound against amplification,
//! and report errors? Method: raw messages, signals, and the program's output.

use crate::support::{PATIENCE, Process, Server, await_until, example_zone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A question. With `options`, it has an OPT record with these options.
pub(crate) fn question(id: u16, name: &str, rtype: u16, options: Option<&[u8]>) -> Vec<u8> {
    let mut message = [&id.to_be_bytes()[..], b"\x01\0\0\x01\0\0\0\0\0\0"].concat();
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend([rtype.to_be_bytes(), [0, 1]].concat());
    if let Some(options) = options {
        message[11] = 1;
        message.extend(b"\0\0\x29\x04\xd0\0\0\0\0");
        message.extend((options.len() as u16).to_be_bytes());
        message.extend(options);
    }
    message
}

pub(crate) const TXT: u16 = 16;
const SOA: u16 = 6;
pub(crate) const A: u16 = 1;

pub(crate) fn over_udp(server: &Server, message: &[u8]) -> Vec<u8> {
    let socket = server.socket();
    socket.send(message).expect("sent");
    let mut answer = vec![0; 4_096];
    let length = socket.recv(&mut answer).expect("an answer");
    answer.truncate(length);
    answer
}

fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).expect("an answer");
    answer
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout above zero");
    stream
}

/// Response code, whether truncated, and number of answers.
pub(crate) fn essence(answer: &[u8]) -> (u8, bool, u8) {
    (answer[3] & 0xf, answer[2] & 2 != 0, answer[7])
}

// Are short answers the same over UDP and TCP, and long ones whole over TCP? Messages over TCP come
// together or in pieces.
#[test]
fn udp_and_tcp_give_the_same_answers() {
    let server = Server::start(&example_zone(), &[]);
    let short = question(1, "www.example.test", A, None);
    let answer = over_udp(&server, &short);
    assert_eq!(essence(&answer), (0, false, 2));
    let mut stream = connect(&server);
    let long = question(2, "big.example.test", TXT, None);
    stream.write_all(&[framed(&short), framed(&long)].concat()).expect("sent");
    assert_eq!(read(&mut stream), answer);
    let whole = read(&mut stream);
    assert_eq!((essence(&whole), whole.len() > 512), ((0, false, 6), true));
    for byte in framed(&short) {
        stream.write_all(&[byte]).expect("sent");
    }
    assert_eq!(read(&mut stream), answer);
    assert_eq!(essence(&over_udp(&server, &long)), (0, true, 0));
    // With EDNS there is room. The answer is longer than 8 times the question, but the network has
    // saved credit.
    let roomy = question(3, "mail.example.test", A, Some(b""));
    assert_eq!(essence(&over_udp(&server, &roomy)), (0, false, 1));
}

// Is an answer never answered, does an error get the right code, and does each message count?
#[test]
fn what_is_no_question_is_answered_with_why_or_not_at_all() {
    let mut server = Server::start(&example_zone(), &[]);
    let good = question(7, "www.example.test", A, None);
    let changed = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        message
    };
    let socket = server.socket();
    socket.send(&changed(2, 0x81)).expect("sent");
    socket.send(&good[..5]).expect("sent");
    // The next answer belongs to the next question.
    socket.send(&question(8, "www.example.org", A, None)).expect("sent");
    let mut answer = [0; 512];
    assert_eq!((socket.recv(&mut answer).expect("an answer"), essence(&answer).0), (33, 5), "REFUSED");
    let mut stream = connect(&server);
    stream.write_all(&framed(&changed(5, 0))).expect("sent");
    assert_eq!(essence(&read(&mut stream)).0, 1);
    stream.write_all(&framed(&changed(2, 0x81))).expect("sent");
    assert_eq!(stream.read(&mut [0]).expect("it is closed"), 0);
    assert_eq!(stop(&mut server), "received 3, answered 1, malformed 2");
}

/// Stops the server; returns its summary of the datagrams.
pub(crate) fn stop(server: &mut Server) -> String {
    signal(&server.process, Signal::SIGTERM);
    let mut ended = None;
    let mut has_ended = || {
        ended = server.process.0.try_wait().expect("a child of this process");
        ended.is_some()
    };
    await_until(&mut has_ended, "it does not end");
    let mut said = String::new();
    server.output.read_to_string(&mut said).expect("text");
    assert!(ended.is_some_and(|status| status.success()), "{said}{}", server.log());
    said.lines().find(|line| line.starts_with("received ")).unwrap_or_default().to_owned()
}

fn signal(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.0.id().cast_signed()), signal).expect("it lives");
}

/// Sets its flag when it is dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// Does a reload lose no question and load the changes? If a file is wrong, does everything stay as
// it was? Method: a client asks without a pause while files change 20 times.
#[test]
fn zones_are_loaded_again_without_loss() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let zone = |serial: u32| format!("$TTL 60\n@ SOA ns host {serial} 1 1 1 30\n@ NS ns\nns A 192.0.2.1\n");
    fs::write(file.path(), zone(1)).expect("written");
    let server = Server::start(file.path(), &[]);
    let serial = || {
        let answer = over_udp(&server, &question(1, "example.test", SOA, None));
        assert_eq!(essence(&answer), (0, false, 1));
        let at = answer.len() - 20;
        u32::from_be_bytes(answer[at..at + 4].try_into().expect("four bytes"))
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if this test fails, because the scope waits for its threads.
        let _end = Raised(&done);
        let asker = scope.spawn(|| {
            let (mut answered, mut last) = (0, 1);
            // Ordering: relaxed, because the flag is read again.
            while !done.load(Ordering::Relaxed) {
                let now = serial();
                assert!(now >= last, "an older zone came back");
                (answered, last) = (answered + 1, now);
            }
            answered
        });
        for number in 2..=20 {
            fs::write(file.path(), zone(number)).expect("written");
            signal(&server.process, Signal::SIGHUP);
            await_until(|| serial() == number, "the zone is not loaded");
        }
        done.store(true, Ordering::Relaxed);
        assert!(asker.join().expect("no question is lost") > 20);
    });
    assert_eq!(server.log().matches("SIGHUP").count(), 0, "{}", server.log());
    let errors = || server.log().matches("the service refuses the new configuration").count();
    assert_eq!(errors(), 0);
    fs::write(file.path(), zone(21) + "a A 192.0.2\n").expect("written");
    signal(&server.process, Signal::SIGHUP);
    await_until(|| errors() == 1, "the error is not logged");
    assert!(server.log().contains("expected IPv4 address"), "{}", server.log());
    assert_eq!(serial(), 20);
}

// Do the metrics count signatures, TCP messages and the reasons of refusals, by the names of the
// README?
#[test]
fn metrics_tell_of_signatures_tcp_and_refusals() {
    let server = Server::start(&example_zone(), &["--sign", "ed25519"]);
    let mut signed = question(1, "www.example.test", A, Some(b""));
    let flags = signed.len() - 4;
    signed[flags] = 0x80;
    (0..3).for_each(|_| assert_eq!(essence(&over_udp(&server, &signed)).2, 3));
    let mut stream = connect(&server);
    (0..2).for_each(|_| {
        stream.write_all(&framed(&signed)).expect("sent");
        read(&mut stream);
    });
    let metric = |name: &str| server.metric(name);
    assert_eq!((metric("dns_signatures_made_total"), metric("dns_tcp_messages_total")), (1.0, 2.0));
    let by_workers = metric("forebay_spawned_total{result=\"finished\"}");
    assert_eq!(by_workers, 2.0, "messages over TCP are answered by the workers");
    let signed = || metric("forebay_latency_seconds_count{stage=\"total\",class=\"signed\"}");
    await_until(|| signed() == 3.0, "answers with signatures are not counted as such");
    let mut update = question(2, "www.example.test", A, None);
    update[2] |= 0x28;
    assert_eq!(over_udp(&server, &update)[3] & 15, 4);
    let cut = question(3, "www.example.test", A, None);
    (0..2).for_each(|_| assert_eq!(over_udp(&server, &cut[..cut.len() - 1])[3] & 15, 1));
    let refused = |reason: &str| metric(&format!("forebay_datagrams_total{{fate=\"refused\",reason=\"{reason}\"}}"));
    assert_eq!([refused("opcode"), refused("format"), refused("other")], [1.0, 2.0, 0.0]);
}

// Does a client without a valid cookie get at most as many bytes as it sent? Does a client with a
// cookie get as much as it asks for?
#[test]
fn only_cookies_open_the_way_for_long_answers() {
    let server = Server::start(&example_zone(), &["--set", "amplification=1", "--set", "amplification-allowance=0"]);
    let (mut sent, mut received) = (0, 0);
    let mut ask = |options: &[u8]| {
        let message = question(9, "big.example.test", TXT, Some(options));
        let answer = over_udp(&server, &message);
        (sent, received) = (sent + message.len(), received + answer.len());
        assert!(answer.len() <= message.len() && essence(&answer) == (0, true, 0));
    };
    ask(b"");
    let client = b"\0\x0a\0\x08abcdefgh";
    ask(client);
    let forged = [&b"\0\x0a\0\x18abcdefgh\x01\0\0\0"[..], &[0x77; 12]].concat();
    (0..100).for_each(|_| ask(&forged));
    assert!(received <= sent, "{received} bytes for {sent}");
    // If the message has room for the server's part of a cookie, the client gets it, and then long
    // answers.
    let message = question(9, "big.example.test", TXT, Some(&forged));
    let answer = over_udp(&server, &message);
    let cookie = &answer[answer.len() - 24..];
    assert_eq!(cookie[..8], *b"abcdefgh");
    let shown = [b"\0\x0a\0\x18", cookie].concat();
    let message = question(9, "big.example.test", TXT, Some(&shown));
    for _ in 0..100 {
        let answer = over_udp(&server, &message);
        assert_eq!((essence(&answer), answer.len() > 600), ((0, false, 6), true));
    }
}

// Are connections beyond the limit served after others end, and does an idle connection end? Does
// the program end while some are open?
#[test]
fn connections_are_bounded() {
    let mut server = Server::start(&example_zone(), &["--connections", "2"]);
    let message = framed(&question(1, "www.example.test", A, None));
    let mut connections: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    for stream in &mut connections {
        stream.write_all(&message).expect("sent");
    }
    for stream in &mut connections[..2] {
        read(stream);
    }
    // The first two send nothing more. The third is served after one of them has been closed, which
    // takes a second.
    assert_eq!(essence(&read(&mut connections[2])), (0, false, 2));
    let mut is_closed = |index: usize| {
        let stream: &mut TcpStream = &mut connections[index];
        stream.set_nonblocking(true).expect("an open descriptor");
        matches!(stream.read(&mut [0]), Ok(0))
    };
    assert!(is_closed(0) || is_closed(1));
    let _idle = connect(&server);
    assert_eq!(stop(&mut server), "received 0");
}

/// Asks over UDP and TCP at `server.address`, and expects answers.
fn assert_answers(server: &Server) {
    let message = question(1, "www.example.test", A, None);
    let answer = over_udp(server, &message);
    assert_eq!(essence(&answer), (0, false, 2), "{}", server.address);
    let mut stream = connect(server);
    stream.write_all(&framed(&message)).expect("sent");
    assert_eq!(read(&mut stream), answer, "{}", server.address);
}

// Is each of several addresses served over UDP and TCP, also both wildcards, each with its own
// sockets? Method: connected sockets, which hear only the address that they asked.
#[test]
fn each_address_is_served() {
    let mut server = Server::start_on(&["127.0.0.1", "127.0.0.2", "[::1]"], &example_zone(), &[]);
    assert_eq!(server.addresses.len(), 3);
    for address in server.addresses.clone() {
        server.address = address;
        assert_answers(&server);
    }
    assert_eq!(stop(&mut server), "received 3, answered 3");
    for hosts in [&["0.0.0.0", "[::]"][..], &["[::]", "0.0.0.0"], &["[::]"]] {
        let mut server = Server::start_on(hosts, &example_zone(), &[]);
        for host in ["127.0.0.1", "127.0.0.2", "[::1]"] {
            server.address = format!("{host}:{}", server.address.port()).parse().expect("an address");
            assert_answers(&server);
        }
    }
}

// If one connection is served at once, may it be at any of the addresses, in any order?
#[test]
fn addresses_share_the_connections() {
    let mut server = Server::start_on(&["127.0.0.1", "127.0.0.2"], &example_zone(), &["--connections", "1"]);
    for index in [1, 1, 0, 0, 1] {
        server.address = server.addresses[index];
        assert_answers(&server);
    }
}

/// Runs the program to its end; returns its exit code and its output.
fn ended(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-dns")).args(arguments).output().expect("it starts");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

// Does each wrong argument end the program with code 2 and one line that names it? Does a TCP
// address in use end it with code 1?
#[test]
fn wrong_arguments_are_named() {
    let zone = format!("example.test={}", example_zone().display());
    let missing = "example.test=/nowhere";
    for (arguments, named) in [
        (&["--zone", missing][..], "zone example.test. (/nowhere): No such file"),
        (&["--zone", "example.test"], "--zone example.test: allowed: origin=file"),
        (&["--zone", "a..b=x"], "--zone a..b=x: \"a..b\" is not a name"),
        (&["--zone", &zone, "--zone", &zone], "--zone example.test.: given twice"),
        (&["--zone", &zone, "--set", "workers"], "--set workers: allowed: NAME=VALUE"),
        (&["--zone", &zone, "--set", "workers=none"], "workers"),
        (&["--zone", &zone, "--set", "listen=127.0.0.1:1"], "use --listen"),
        (&["--zone", &zone, "--listen", "127.0.0.1:1,here:2"], "listen"),
        (&["--zone", &zone, "--policy", "best"], "policy"),
        (&["--zone", &zone, "--sign", "p256", "--key-dir", "/nowhere"], "--key-dir /nowhere: No such file"),
        (&["--zone", &zone, "--quic", "127.0.0.1:53", "--cert", "x", "--key", "x"], "--quic: port 53 "),
        (&["--zone", &zone, "--quic", "127.0.0.1:0", "--cert", "/nowhere", "--key", "x"], "--cert /nowhere: "),
        (&["--zone", &zone, "--cookie-secret", "/nowhere"], "--cookie-secret /nowhere: No such file"),
    ] {
        let (code, said) = ended(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("forebay-dns: ") && said.contains(named), "{arguments:?}: {said}");
        // Errors in Forebay's own settings have a headline and a line for each.
        assert!(said.trim_end().lines().count() <= 2, "{said}");
    }
    // Correct arguments: --check shows what would be served.
    let (code, said) = ended(&["--zone", &zone, "--check", "--sign", "p256"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("example.test. IN DS ") && said.contains("serial 2026112101, 28 names, signed"), "{said}");
    let socket = TcpListener::bind("127.0.0.2:0").expect("a free port");
    let taken = socket.local_addr().expect("it is bound");
    let (code, said) = ended(&["--zone", &zone, "--listen", &format!("{taken},127.0.0.1:0")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with(&format!("forebay-dns: TCP: {taken}: ")) && said.contains("in use"), "{said}");
}

// If a bound is too small for signed answers, is there a warning at start? It must name the
// setting, its value and what answers need.
#[test]
fn a_bound_below_signed_answers_is_warned_of() {
    let zone = format!("example.test={}", example_zone().display());
    for (algorithm, bound, warned) in [("rsa2048", 23, true), ("rsa2048", 24, false), ("ed25519", 12, false)] {
        let bound = format!("amplification={bound}");
        let (code, said) = ended(&["--zone", &zone, "--check", "--sign", algorithm, "--set", &bound]);
        assert_eq!(code, Some(0), "{said}");
        let warns = said.contains("amplification=23: signed answers fit with 24");
        assert_eq!(warns, warned, "{algorithm} {bound}: {said}");
    }
}
