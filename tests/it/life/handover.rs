//! If a successor fails at any step, does the running server continue to serve? Does a successor
//! begin when its predecessor dies? Method: the test plays one side of the hand-over.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::Permissions;
use std::io::IoSlice;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use support::place::shared_socket;
use support::prelude::*;

/// One side of a hand-over, played by the test: each message is one packet.
struct Side(UnixStream);

impl Side {
    fn connect(path: &Path) -> Side {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
        socket.connect(&SockAddr::unix(path).expect("a path")).expect("a server listens");
        Side(UnixStream::from(OwnedFd::from(socket)))
    }

    fn hello(&mut self) {
        self.say(&json!({"hello": {"protocol": 1, "version": "test"}}));
    }

    fn say(&mut self, message: &Value) {
        self.0.write_all(message.to_string().as_bytes()).expect("the other side lives");
    }

    /// The next message; `None` if the other side has ended. Descriptors in it are dropped.
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

const STEPS: [&str; 7] = ["connect", "rubbish", "hello", "offer", "descriptors", "ready", "begin"];

/// Plays a successor up to `step`, and then ends.
fn die_at(step: &str, place: &Place) {
    let mut side = Side::connect(&place.path());
    if step == "rubbish" {
        side.say(&json!({"begin": 7}));
    }
    let at = STEPS.iter().position(|known| *known == step).expect("a step");
    for next in &STEPS[2..(at + 1).max(2)] {
        match *next {
            "hello" => side.hello(),
            "ready" => side.say(&json!("ready")),
            expected => {
                let heard = side.hear().expect("a message");
                assert!(heard.get(expected).is_some() || heard == expected, "{heard} instead of {expected}");
            }
        }
    }
}

// Wherever a successor dies, does the running server continue without losing a request, and can the
// next successor take over?
#[test]
fn a_successor_that_dies_changes_nothing() {
    let place = Place::new("echo");
    let server = place.start();
    let (udp, admin) = (server.udp, server.admin);
    let (_, successor) = answered_while(10_000, 0, udp, |_| {
        for step in STEPS {
            die_at(step, &place);
            // Later requests are served by the same server.
            let received = || fates(&latency(admin)).received;
            let before = received();
            await_until(|| received() > before + 200, &format!("it does not serve after {step}"));
        }
        // A silent successor is waited for, but it delays nothing.
        let _silent = Side::connect(&place.path());
        let successor = place.start();
        server.ends_well();
        successor
    });
    assert_eq!(status_at(successor.udp), Status::Ok);
}

/// Plays a successor until it may begin. Also returns the predecessor's last readings of the
/// kernel's drop counters.
fn begun(place: &Place) -> (Side, Vec<u64>) {
    let mut side = Side::connect(&place.path());
    side.hello();
    (0..2).for_each(|_| drop(side.hear().expect("an offer")));
    side.say(&json!("ready"));
    let begin = side.hear().expect("a message");
    let dropped = begin["begin"]["dropped"].as_array().expect("a counter for each socket");
    let dropped = dropped.iter().map(|dropped| dropped.as_u64().expect("the kernel tells")).collect();
    (side, dropped)
}

fn flood(client: &Client) {
    (0..FLOOD).for_each(|id| client.request(id, Nanos::ZERO, b""));
}

const FLOOD: u64 = 30_000;

// The server that then serves counts the drops. Method: sockets overflow while neither server
// receives; then the successor dies. `tests/alone/life/handover.rs` has the case of a successor
// that begins.
#[test]
fn drops_between_two_readings_are_counted() {
    let place = Place::new("echo");
    let server = place.start();
    let client = Client::new(server.udp);
    let (side, dropped) = begun(&place);
    assert_eq!(dropped, [0, 0]);
    flood(&client);
    drop(side);
    // Soon after the last drops, usually before the old server has read them again.
    let (side, dropped) = begun(&place);
    drop(side);
    assert_eq!(
        quiescent(server.admin, FLOOD).kernel_dropped,
        Some(dropped.iter().sum()),
        "all that was dropped so far"
    );
    // The next successor is told of these drops, and counts later ones.
    let mut sent = FLOOD;
    await_until(
        || {
            let before = quiescent(server.admin, sent).kernel_dropped;
            let began = clock::now();
            let (_side, dropped) = begun(&place);
            assert!(before > Some(0) && Some(dropped.iter().sum::<u64>()) == before, "{before:?} {dropped:?}");
            flood(&client);
            sent += FLOOD;
            let after = fates(&latency(server.admin)).kernel_dropped;
            // A successor that has been silent for a second no longer serves.
            let is_successors = clock::now().minus(began) < Nanos::from_secs(1);
            assert!(!is_successors || after == before, "{after:?} and not {before:?}: the rest is the successor's");
            is_successors
        },
        "a flood takes a second",
    );
}

#[test]
fn another_user_is_refused() {
    const NOBODY: u32 = 65_534;
    if fs::metadata("/proc/self").expect("a process").uid() != 0 {
        return skip("only root can start a server as another user");
    }
    let place = Place::new("echo");
    // The other user may have no access to the folder of the program.
    let program = place.directory.path().join("forebay");
    fs::copy(env!("CARGO_BIN_EXE_forebay"), &program).expect("room");
    fs::set_permissions(place.directory.path(), Permissions::from_mode(0o755)).expect("our own directory");
    chown(place.directory.path(), Some(NOBODY), None).expect("root may");
    let flags = place.command(None);
    let server = Forebay::spawn(Command::new(program).env_clear().args(flags.get_args()).uid(NOBODY));
    let mut side = Side::connect(&place.path());
    let reason = "the other process is user 0's, this one 65534's";
    assert_eq!((side.hear(), side.hear()), (Some(json!({"refused": {"reason": reason}})), None));
    let (code, said) = place.fails("--workers", "2");
    assert!(said.contains("the other process is user 65534's, this one 0's"), "{said}");
    assert_eq!((code, status_at(server.udp)), (Some(1), Status::Ok));
}

#[test]
fn a_successor_that_stands_still_is_told() {
    let place = Place::new("echo");
    let server = place.start();
    let (mut side, _) = begun(&place);
    let reason = "the successor has not answered in time";
    assert_eq!(side.hear(), Some(json!({"staying": {"reason": reason}})));
    assert_eq!((side.hear(), status_at(server.udp)), (None, Status::Ok));
}

/// A predecessor that the test plays, with a socket for each of two workers. A request waits in one
/// of them.
struct Played {
    side: Side,
    successor: Process,
    udp: SocketAddr,
    client: Client,
}

/// Plays a predecessor until the successor is ready, and then closes all its sockets.
fn play(place: &mut Place) -> Played {
    let first = shared_socket(listen().parse().expect("an address"));
    let udp = first.local_addr().expect("bound");
    let sockets = [first, shared_socket(udp)];
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
    let child = place.command(None).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let successor = Process { child };
    let mut side = Side(UnixStream::from(OwnedFd::from(door.accept().expect("it asks").0)));
    let hello = side.hear().expect("hello");
    assert_eq!(hello["hello"]["protocol"], 1, "{hello}");
    let client = Client::new(udp);
    client.request(7, Nanos::ZERO, b"");
    side.say(&json!({"offer": {"sockets": 2, "kept": false, "gro": false}}));
    let descriptors = [sockets[0].as_raw_fd(), sockets[1].as_raw_fd(), admin.as_raw_fd(), door.as_raw_fd()];
    side.send_descriptors(&json!("descriptors"), &descriptors[..3]);
    side.send_descriptors(&json!("descriptors"), &descriptors[3..]);
    assert_eq!(side.hear(), Some(json!("ready")));
    Played { side, successor, udp, client }
}

#[test]
fn a_predecessor_that_dies_is_succeeded() {
    let mut place = Place::new("echo");
    let Played { side, mut successor, udp, client, .. } = play(&mut place);
    assert_eq!(client.receive_within(Nanos::from_millis(100)), None, "it has not begun");
    drop(side);
    assert_eq!((client.receive().header.id, status_at(udp)), (7, Status::Ok));
    successor.signal(Signal::SIGTERM);
    assert_eq!(wait_for_exit(&mut successor.child).code(), Some(0));
    assert!(!place.path().exists(), "it removes the socket, which was its own by then");
}

#[test]
fn a_predecessor_that_stays_is_left_alone() {
    let mut place = Place::new("echo");
    let Played { mut side, mut successor, client, .. } = play(&mut place);
    side.say(&json!({"begin": {"dropped": [0, 0]}}));
    assert_eq!((side.hear(), client.receive().header.id), (Some(json!("serving")), 7));
    side.say(&json!({"staying": {"reason": "a test"}}));
    assert_eq!(wait_for_exit(&mut successor.child).code(), Some(1));
    assert!(place.path().exists(), "the path is the predecessor's");
}

// `src/server/listening.rs` has each setting that must fit.
#[test]
fn a_successor_that_does_not_fit_goes() {
    let place = Place::new("echo");
    let server = place.start();
    for (flag, value, says) in [
        ("--workers", "3", "--workers 3, and 2 UDP sockets: 2 at 127."),
        ("--listen", "127.0.0.1:9", "--listen 127.0.0.1:9; allowed: 127."),
        ("--admin", "127.0.0.1:9", "--admin 127.0.0.1:9; allowed: 127.0.0.1:"),
        ("--io", "gro", "--io gro; allowed: batches, for which"),
        ("--handover", "/dev/null", "cannot listen there: there is a file, and it is no socket"),
        ("--handover", "/nowhere/socket", "cannot listen there: No such file"),
    ] {
        let (code, said) = place.fails(flag, value);
        assert!(said.contains(says), "{said}");
        assert_eq!((code, status_at(server.udp)), (Some(2), Status::Ok), "{said}");
    }
    server.stop();
}
