//! Does a restart lose nothing: when a successor takes the sockets over, and when systemd holds them meanwhile? Does the
//! server that runs serve on when a successor fails, at every step?
//! Method: the built binary, several after one another, under a stream of requests that does not wait for answers.
//!
//! A second by default; the full size, 1,000,000 requests at 20,000/s through ten successors, whose figures README.md in
//! src/server/handover has:
//! `FOREBAY_HANDOVER=1000000 cargo test --test alone handover::a_restart -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use crate::support::client::Client;
use crate::support::http::{fates, http, latency};
use crate::support::process::Forebay;
use crate::support::stream::stream;
use crate::support::{alone, await_until, listen};
use forebay::time::Nanos;
use forebay::wire::{Header, Status};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};
use socket2::{Domain, SockAddr, Socket, Type};
use std::cell::Cell;
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, fs, thread};

const PER_SECOND: u64 = 20_000;

fn requests() -> u64 {
    let size = env::var("FOREBAY_HANDOVER").map(|size| size.parse().expect("FOREBAY_HANDOVER is a number of requests"));
    size.unwrap_or(PER_SECOND)
}

/// A directory for the socket of successors, and the flags that all of them share.
struct Place {
    directory: tempfile::TempDir,
    flags: Vec<(&'static str, String)>,
}

impl Place {
    fn new(handler: &str) -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket").to_str().expect("text").to_owned();
        let flags = vec![
            ("--listen", listen()),
            ("--admin", "127.0.0.1:0".to_owned()),
            ("--workers", "2".to_owned()),
            ("--max-wait", "off".to_owned()),
            ("--drain-timeout", "60s".to_owned()),
            ("--handler", handler.to_owned()),
            ("--handover", path),
        ];
        Place { directory, flags }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A server with these flags, of which `other` has another value.
    fn command(&self, other: Option<(&str, &str)>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.env_clear().arg("serve");
        let value = |flag: &'static str, shared: &String| match other {
            Some((name, value)) if name == flag => value.to_owned(),
            _ => shared.clone(),
        };
        command.args(self.flags.iter().flat_map(|(flag, shared)| [(*flag).to_owned(), value(flag, shared)]));
        if let Some((name, value)) = other.filter(|(name, _)| !self.flags.iter().any(|(flag, _)| flag == name)) {
            command.args([name, value]);
        }
        command
    }

    fn start(&self) -> Forebay {
        Forebay::spawn(&mut self.command(None))
    }

    /// The exit code and the complaint of a server that does not come to serve.
    fn fails(&self, other: (&str, &str)) -> (Option<i32>, String) {
        let output = self.command(Some(other)).output().expect("the program starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }
}

/// `received` and `kernel_dropped` in the summary of a server that answered all that it received.
#[track_caller]
fn all_answered(said: &str) -> (u64, u64) {
    let first = said.lines().next().expect("a summary");
    let figure = |name: &str| {
        let found = first.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        found.unwrap_or(0)
    };
    let received: u64 = figure("received");
    assert_eq!(figure("answered"), received, "{first}");
    (received, figure("kernel_dropped"))
}

fn ask(server: SocketAddr) -> Status {
    Client::new(server).ask(&Header::request(1, 0, Nanos::ZERO), b"").header.status
}

// Is every request answered, once, by one of the servers, while ten of them take over from one another?
#[test]
fn a_restart_loses_nothing() {
    let _alone = alone();
    const SUCCESSORS: u64 = 10;
    let (place, total) = (Place::new("echo"), requests());
    let first = place.start();
    assert_eq!(fs::metadata(place.path()).expect("a socket").permissions().mode() & 0o777, 0o600);
    let (udp, admin) = (first.udp, first.admin);
    let (over, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let (became, summaries) = thread::scope(|scope| {
        let guard = EndOf(&over);
        let streaming = scope.spawn(|| {
            let more = |sent| {
                progress.store(sent, Ordering::SeqCst);
                sent < total || !over.load(Ordering::SeqCst)
            };
            stream(PER_SECOND, || udp, more)
        });
        let (mut runs, mut summaries) = (first, Vec::new());
        for number in 1..=SUCCESSORS {
            while progress.load(Ordering::SeqCst) < total * number / (SUCCESSORS + 2) {
                thread::sleep(Nanos::from_millis(1).into());
            }
            let successor = place.start();
            assert_eq!((successor.udp, successor.admin), (udp, admin));
            assert_eq!(http(admin, "GET /readyz").map(|reply| reply.status), Some(200));
            let (status, said) = std::mem::replace(&mut runs, successor).end();
            assert_eq!(status.code(), Some(0), "{said}");
            summaries.push(said);
        }
        let received = || fates(&latency(admin)).received;
        await_until(|| received() > 0, "the last one serves nothing");
        drop(guard);
        let became = streaming.join().expect("no panic");
        runs.signal(Signal::SIGTERM);
        summaries.push(runs.end().1);
        (became, summaries)
    });
    let (received, dropped): (Vec<u64>, Vec<u64>) = summaries.iter().map(|said| all_answered(said)).unzip();
    println!("{became:?}, received {received:?}, dropped {dropped:?}");
    assert_eq!((became.lost(), became.unserved, became.twice), (0, 0, 0), "{became:?}, {received:?}, {dropped:?}");
    assert_eq!((received.iter().sum::<u64>(), dropped.iter().sum::<u64>()), (became.sent, 0), "{received:?}");
    assert!(received.iter().all(|received| *received > 0), "each served: {received:?}");
    assert!(!place.path().exists(), "the last one removes the socket");
}

/// Lets the stream end, also when the test fails: the scope waits for it.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// Is what the kernel dropped counted once, by the server that had the sockets? Method: sockets that overflow before, while
// and after they change hands; what was sent is what both received and what was dropped, exactly.
#[test]
fn drops_are_counted_by_one_of_both() {
    let _alone = alone();
    let place = Place::new("spin");
    let first = place.start();
    let (client, admin) = (Client::new(first.udp), first.admin);
    let sent = Cell::new(0);
    let flood = |enough: &mut dyn FnMut() -> bool| {
        while !enough() {
            (0..1_000).for_each(|_| client.request(0, Nanos::from_micros(50), b""));
            sent.set(sent.get() + 1_000);
        }
    };
    let dropped = || fates(&latency(admin)).kernel_dropped.expect("the kernel tells");
    flood(&mut || dropped() > 0);
    thread::scope(|scope| {
        let starting = scope.spawn(|| place.start());
        flood(&mut || starting.is_finished());
        let (status, said) = first.end();
        assert_eq!(status.code(), Some(0), "{said}");
        let second = starting.join().expect("it serves");
        let before = dropped();
        flood(&mut || dropped() > before);
        second.signal(Signal::SIGTERM);
        let counts = [all_answered(&said), all_answered(&second.end().1)];
        let sum: u64 = counts.iter().map(|(received, dropped)| received + dropped).sum();
        assert_eq!(sum, sent.get(), "{counts:?}");
        assert!(counts.iter().all(|(_, dropped)| *dropped > 0), "{counts:?}");
    });
}

// Is a successor that does not fit refused with exit code 2 and a line that says why, and does the running server serve on?
#[test]
fn a_successor_that_does_not_fit_is_refused() {
    let _alone = alone();
    let place = Place::new("echo");
    let server = place.start();
    for (flag, value, says) in [
        ("--workers", "3", "the running server refuses: --workers 3; allowed: 2, one for each socket"),
        ("--listen", "127.0.0.1:1", "the running server refuses: --listen 127.0.0.1:1; allowed: "),
        ("--admin", "127.0.0.1:1", "the running server refuses: --admin 127.0.0.1:1; allowed: "),
        ("--io", "gro", "the running server refuses: --io gro; allowed: batches or portable"),
        ("--handover", "/dev/null", "cannot listen there: there is a file, and it is no socket"),
        ("--handover", "/nowhere/socket", "cannot listen there: No such file"),
    ] {
        let (code, said) = place.fails((flag, value));
        assert!(said.contains(says), "{said}");
        assert_eq!((code, ask(server.udp)), (Some(2), Status::Ok), "{said}");
    }
    let (status, said) = {
        server.signal(Signal::SIGTERM);
        server.end()
    };
    assert_eq!(status.code(), Some(0), "{said}");
}

/// A process that plays one side of a hand-over by hand: each message is one packet.
struct Side(UnixStream);

impl Side {
    fn connect(path: &Path) -> Side {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
        socket.connect(&SockAddr::unix(path).expect("a path")).expect("a server listens");
        Side(UnixStream::from(OwnedFd::from(socket)))
    }

    fn say(&mut self, message: &Value) {
        self.0.write_all(message.to_string().as_bytes()).expect("the other side lives");
    }

    /// The next message; `None` when the other side is gone. Descriptors beside it are dropped.
    fn hear(&mut self) -> Option<Value> {
        let mut text = [0; 65_536];
        let length = self.0.read(&mut text).expect("the kernel");
        (length > 0).then(|| serde_json::from_slice(&text[..length]).expect("JSON"))
    }

    fn send_descriptors(&self, message: &Value, descriptors: &[RawFd]) {
        let text = message.to_string();
        let beside = [ControlMessage::ScmRights(descriptors)];
        let sent =
            sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(text.as_bytes())], &beside, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(text.len()));
    }
}

/// How far a successor comes before it dies.
const STEPS: [&str; 7] = ["connect", "rubbish", "hello", "offer", "descriptors", "ready", "begin"];

/// Plays a successor up to `step`, and dies.
fn die_at(step: &str, place: &Place, server: &Forebay) {
    let mut side = Side::connect(&place.path());
    let at = STEPS.iter().position(|known| *known == step).expect("a step");
    if step == "rubbish" {
        side.say(&json!({"begin": 7}));
    }
    if at < 2 {
        return;
    }
    side.say(&json!({"hello": {
        "protocol": 1, "version": "test", "listen": server.udp, "admin": server.admin, "workers": 2, "gro": false,
    }}));
    let heard = |side: &mut Side, expected: &str| {
        let heard = side.hear().expect("a message");
        assert!(heard.get(expected).is_some() || heard == expected, "{heard} instead of {expected}");
    };
    for (number, expected) in ["offer", "descriptors"].iter().enumerate() {
        if at > 2 + number {
            heard(&mut side, expected);
        }
    }
    if at >= 5 {
        side.say(&json!("ready"));
    }
    if at >= 6 {
        heard(&mut side, "begin");
    }
}

// Does the server that runs serve on, without losing a request, wherever a successor dies, and does the next one take over?
#[test]
fn a_successor_that_dies_changes_nothing() {
    let _alone = alone();
    let place = Place::new("echo");
    let server = place.start();
    let over = AtomicBool::new(false);
    let (udp, admin) = (server.udp, server.admin);
    thread::scope(|scope| {
        let guard = EndOf(&over);
        let streaming = scope.spawn(|| stream(2_000, || udp, |_| !over.load(Ordering::SeqCst)));
        for step in STEPS {
            die_at(step, &place, &server);
            // What comes after that is served by the same server.
            let received = || fates(&latency(admin)).received;
            let before = received();
            await_until(|| received() > before + 200, &format!("it does not serve after {step}"));
        }
        // One that says nothing is waited for, and holds up nothing.
        let silent = Side::connect(&place.path());
        let successor = place.start();
        assert_eq!(server.end().0.code(), Some(0));
        drop(guard);
        let became = streaming.join().expect("no panic");
        assert_eq!((became.lost(), became.unserved, became.twice), (0, 0, 0), "{became:?}");
        assert_eq!(ask(successor.udp), Status::Ok);
        drop(silent);
    });
}

// Does a successor that has not answered in time hear that the server serves on, also after it was told to begin?
#[test]
fn a_successor_that_stands_still_is_told() {
    let _alone = alone();
    let place = Place::new("echo");
    let server = place.start();
    let mut side = Side::connect(&place.path());
    side.say(&json!({"hello": {
        "protocol": 1, "version": "test", "listen": server.udp, "admin": server.admin, "workers": 2, "gro": false,
    }}));
    (0..2).for_each(|_| drop(side.hear().expect("an offer")));
    side.say(&json!("ready"));
    assert!(side.hear().expect("a message").get("begin").is_some());
    let reason = "the successor has not answered in time";
    assert_eq!(side.hear(), Some(json!({"staying": {"reason": reason}})));
    assert_eq!((side.hear(), ask(server.udp)), (None, Status::Ok));
}

/// A predecessor played by hand, with a socket for each of two workers; a request waits in one of them.
struct Played {
    side: Side,
    successor: Child,
    udp: SocketAddr,
    client: Client,
}

/// Plays a predecessor until the successor is ready, and holds no socket any more.
fn play(place: &mut Place) -> Played {
    let bound = |address: SocketAddr| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("an option");
        socket.bind(&address.into()).expect("a free port");
        UdpSocket::from(socket)
    };
    let first = bound(listen().parse().expect("an address"));
    let udp = first.local_addr().expect("bound");
    let sockets = [first, bound(udp)];
    let admin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let door = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
    door.bind(&SockAddr::unix(place.path()).expect("a path")).and_then(|()| door.listen(1)).expect("a free path");
    for (flag, value) in &mut place.flags {
        match *flag {
            "--listen" => *value = udp.to_string(),
            "--admin" => *value = admin.local_addr().expect("bound").to_string(),
            _ => {}
        }
    }
    let successor = place.command(None).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut side = Side(UnixStream::from(OwnedFd::from(door.accept().expect("it asks").0)));
    let hello = side.hear().expect("hello");
    assert_eq!(hello["hello"]["workers"], 2, "{hello}");
    let client = Client::new(udp);
    client.request(7, Nanos::ZERO, b"");
    side.say(&json!({"offer": {"sockets": 2, "kept": false}}));
    let descriptors = [sockets[0].as_raw_fd(), sockets[1].as_raw_fd(), admin.as_raw_fd(), door.as_raw_fd()];
    side.send_descriptors(&json!("descriptors"), &descriptors[..3]);
    side.send_descriptors(&json!("descriptors"), &descriptors[3..]);
    assert_eq!(side.hear(), Some(json!("ready")));
    Played { side, successor, udp, client }
}

// Does a successor serve what waits in the sockets when its predecessor dies instead of letting it begin?
#[test]
fn a_predecessor_that_dies_is_succeeded() {
    let _alone = alone();
    let mut place = Place::new("echo");
    let Played { side, mut successor, udp, client } = play(&mut place);
    assert_eq!(client.receive_within(Nanos::from_millis(100)), None, "it has not begun");
    drop(side);
    assert_eq!((client.receive().header.id, ask(udp)), (7, Status::Ok));
    let pid = i32::try_from(successor.id()).expect("a process id");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).expect("it lives");
    assert_eq!(successor.wait().expect("a child").code(), Some(0));
    assert!(!place.path().exists(), "it removes the socket, which was its own by then");
}

// Does a successor go, and leave socket and path alone, when its predecessor changes its mind at the last moment?
#[test]
fn a_predecessor_that_stays_is_left_alone() {
    let _alone = alone();
    let mut place = Place::new("echo");
    let Played { mut side, mut successor, client, .. } = play(&mut place);
    side.say(&json!({"begin": {"dropped": [0, 0]}}));
    assert_eq!((side.hear(), client.receive().header.id), (Some(json!("serving")), 7));
    side.say(&json!({"staying": {"reason": "a test"}}));
    assert_eq!(successor.wait().expect("a child").code(), Some(1));
    assert!(place.path().exists(), "the path is the predecessor's");
}
