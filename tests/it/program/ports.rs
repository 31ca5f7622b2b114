//! Do the examples that keep state follow their protocols? Method: each gets single messages; in
//! addition, two aria2c share a file by the tracker.

use super::examples::{ask, await_rejected, said, start};
use nix::sys::signal::Signal;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use std::ops::Range;
use std::time::Duration;
use support::prelude::*;

fn tagged(key: &Key, parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    [&bytes, sign(key, &bytes).as_ref()].concat()
}

/// A session with the example, and its key.
struct Session {
    id: Vec<u8>,
    key: Key,
}

impl Session {
    fn open(socket: &UdpSocket) -> Session {
        let cookie = ask(socket, &[&b"H"[..], &[0; 47]].concat());
        assert_eq!((cookie[0], cookie.len()), (b'C', 33));
        let opened = ask(socket, &[b"O", &cookie[1..]].concat());
        let (b'S', id) = opened.split_first().map(|(kind, id)| (*kind, id.to_vec())).expect("an answer") else {
            panic!("{opened:?}")
        };
        let shared = Key::new(HMAC_SHA256, b"an example has no secret");
        let key = Key::new(HMAC_SHA256, sign(&shared, &id).as_ref());
        Session { id, key }
    }

    fn message(&self, number: u64, text: &str) -> Vec<u8> {
        tagged(&self.key, &[b"D", &self.id, &number.to_be_bytes(), text.as_bytes()])
    }

    /// Sends message `number` and gets its answer. Earlier messages must not have been answered.
    fn is_answered(&self, socket: &UdpSocket, number: u64) {
        let answer = ask(socket, &self.message(number, "hi"));
        assert_eq!(answer, tagged(&self.key, &[b"d", &self.id, &number.to_be_bytes(), b"hi"]));
    }

    /// Sends messages from `number` + 1 on, until one is answered. A host that has no CPU for the
    /// server may cost a request its answer.
    fn gets_through(&self, socket: &UdpSocket, number: &mut u64) {
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout above zero");
        let is_answered = (0..10).any(|_| {
            *number += 1;
            socket.send(&self.message(*number, "hi")).expect("sent");
            socket.recv(&mut [0; 1_500]).is_ok()
        });
        assert!(is_answered, "no answer up to message {number}");
    }

    fn is_told_that_it_ends(&self, socket: &UdpSocket) {
        let notice = receive_bytes(socket);
        let (text, tag) = notice.split_at(9);
        assert_eq!((text[0], &text[1..]), (b'X', &self.id[..]));
        assert!(verify(&self.key, text, tag).is_ok());
    }
}

// Are a forged cookie, a forged tag and an old message ignored? Does a session follow its client to
// another address? Is the client told of its end, after silence and after a stop?
#[test]
fn sessions_are_proven_move_and_end_with_a_notice() {
    let (server, socket) = start("sessions", &["--idle", "1s"]);
    socket.send(&[&b"O"[..], &[7; 32]].concat()).expect("the server's port is open");
    await_rejected(&server, "refused", "cookie", 1.0);
    let session = Session::open(&socket);
    session.is_answered(&socket, 1);
    let mut forged = session.message(2, "hi");
    forged[20] ^= 1;
    // Answers would come in the order of these messages.
    for silent in [session.message(1, "hi"), forged] {
        socket.send(&silent).expect("the server's port is open");
    }
    session.is_answered(&socket, 70);
    session.is_answered(&socket, 7);
    for silent in [6, 7, 70] {
        socket.send(&session.message(silent, "hi")).expect("the server's port is open");
    }
    let elsewhere = client_of(server.udp);
    session.is_answered(&elsewhere, 71);
    // A late message from the client's old address does not move the session back.
    session.is_answered(&socket, 8);
    session.is_told_that_it_ends(&elsewhere);
    let another = Session::open(&elsewhere);
    server.signal(Signal::SIGTERM);
    another.is_told_that_it_ends(&elsewhere);
    server.ends_well();
}

/// A connection ID for the sender of `socket`.
fn connection(socket: &UdpSocket) -> Vec<u8> {
    let answer = ask(socket, &[0, 0, 4, 0x17, 0x27, 0x10, 0x19, 0x80, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!((&answer[..8], answer.len()), (&[0, 0, 0, 0, 1, 2, 3, 4][..], 16));
    answer[8..].to_vec()
}

fn announce(id: &[u8], hash: u8, left: u64, event: u32, port: u16) -> Vec<u8> {
    let (action, transaction, peer) = (1_u32.to_be_bytes(), [5, 6, 7, 8], [hash ^ 1; 20]);
    let head = [id, &action, &transaction, &[hash; 20], &peer].concat();
    let (left, event, wanted) = (left.to_be_bytes(), event.to_be_bytes(), u32::MAX.to_be_bytes());
    [&head[..], &[0; 8], &left, &[0; 8], &event, &[0; 8], &wanted, &port.to_be_bytes()].concat()
}

/// The words of an answer after the action and the transaction ID.
fn words(answer: &[u8]) -> Vec<u32> {
    answer[8..].chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().expect("four bytes"))).collect()
}

// Does a session go on, and is no memory taken, while others forge and replay? Method: hellos that
// nothing follows, forged IDs and tags, and messages that came before, from many addresses.
#[test]
fn forged_and_replayed_messages_take_no_memory() {
    const SOURCES: u32 = 10_000;
    let (server, socket) = start("sessions", &[]);
    let session = Session::open(&socket);
    session.is_answered(&socket, 1);
    let mut number = 1;
    let mut attack = |sources: Range<u32>| {
        for source in sources {
            let forger = UdpSocket::bind((Ipv4Addr::from(0x7f10_0000 + source), 0)).expect("an address of the host");
            let (mut forged_tag, mut forged_id) = (session.message(number + 1, "hi"), session.message(1, "hi"));
            forged_tag[20] ^= 1;
            forged_id[1..9].copy_from_slice(&u64::from(source).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            let hello = [&b"H"[..], &[0; 47]].concat();
            for message in [hello, forged_tag, forged_id, session.message(1, "hi")] {
                forger.send_to(&message, server.udp).expect("sent");
            }
            if source % 16 == 0 {
                session.gets_through(&socket, &mut number);
            }
        }
        metric(&page(server.admin, "/metrics"), "process_resident_memory_bytes")
    };
    let (before, after) = (attack(0..SOURCES / 10), attack(SOURCES / 10..SOURCES));
    assert!(after - before < 2e6, "{before} to {after} bytes");
    server.stop();
}

// Does each client get the others of its swarm, and the right counts? Does a scrape count swarms of
// many shards?
#[test]
fn a_tracker_knows_who_shares_what() {
    let [started, completed, stopped] = [2, 1, 3];
    let (server, socket) = start("tracker", &[]);
    let id = connection(&socket);
    let announced = |hash, left, event, port| ask(&socket, &announce(&id, hash, left, event, port));
    let first = announced(9, 100, started, 1_000);
    assert_eq!((first[3], &first[4..8], words(&first)), (1, &[5, 6, 7, 8][..], vec![1_800, 0, 0]));
    let second = announced(9, 0, completed, 1_001);
    assert_eq!((words(&second[..20]), &second[20..]), (vec![1_800, 1, 0], &[127, 0, 0, 1, 3, 232][..]));
    for hash in 20..40 {
        announced(hash, 1, started, 1_000);
    }
    let hashes: Vec<u8> = [9, 20, 77].into_iter().chain(21..40).flat_map(|hash| [hash; 20]).collect();
    let scraped = ask(&socket, &[&id[..], &[0, 0, 0, 2, 9, 9, 9, 9], &hashes].concat());
    assert_eq!(scraped[..8], [0, 0, 0, 2, 9, 9, 9, 9]);
    let expected = [[1, 1, 1], [0, 0, 1], [0, 0, 0]].into_iter().chain([[0, 0, 1]; 19]);
    assert_eq!(words(&scraped), expected.flatten().collect::<Vec<_>>(), "seeders, completed, leechers");
    assert_eq!(words(&announced(9, 0, stopped, 1_001)), [1_800, 1, 0], "one that stops needs no peers");
    assert_eq!(words(&announced(9, 100, 0, 1_000)), [1_800, 0, 0]);
    let refused = ask(&socket, &announce(&[0; 8], 9, 0, 0, 1));
    assert_eq!(refused, [&[0, 0, 0, 3, 5, 6, 7, 8][..], b"connect"].concat());
    await_rejected(&server, "refused", "connection", 1.0);
    server.stop();
}

// Do two real clients find one another by the tracker, and share a file?
#[test]
fn aria2c_finds_its_peers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    if said("aria2c", &["--version"]).is_none() {
        return;
    }
    let (server, _) = start("tracker", &[]);
    // A file of 20,000 zeros, of which this is the SHA-1.
    let sha1 = "9bd7c3d157e82753fd2bf3a9df26bea49bc29caf";
    let sha1 = (0..20).map(|at| u8::from_str_radix(&sha1[2 * at..][..2], 16).expect("hex"));
    let tracker = format!("udp://{}/announce", server.udp);
    let name = clock::realtime().get().to_string();
    let mut torrent = format!(
        "d8:announce{}:{tracker}4:infod6:lengthi20000e4:name{}:{name}12:piece lengthi32768e6:pieces20:",
        tracker.len(),
        name.len()
    )
    .into_bytes();
    torrent.extend(sha1);
    torrent.extend(b"ee");
    fs::write(path("torrent"), torrent).expect("a writable folder");
    for side in ["seed", "leech"] {
        fs::create_dir(path(side)).expect("a writable folder");
    }
    fs::write(path(&format!("seed/{name}")), [0; 20_000]).expect("a writable folder");
    let aria2c = |side: &str, ratio: &[&str]| {
        let mut aria2c = Command::new("aria2c");
        // Its UDP tracker needs the DHT, which has no peers here.
        aria2c.args(["--no-conf", "--enable-dht=true", "--bt-enable-lpd=false", "--enable-peer-exchange=false"]);
        aria2c.args(["--check-integrity=true", "--file-allocation=none", "--interface=lo"]).args(ratio);
        aria2c.arg(format!("--dht-file-path={}", path(&format!("{side}.dht")))).args(["--dir", &path(side)]);
        aria2c.arg(path("torrent")).stdout(Stdio::null()).stderr(Stdio::null());
        aria2c
    };
    let mut seed = aria2c("seed", &["--seed-ratio=0.0"]).spawn().expect("it starts");
    let answered = || metric(&page(server.admin, "/metrics"), "forebay_datagrams_total{fate=\"answered\",reason=\"\"}");
    // It connects and announces itself.
    await_until(|| answered() >= 2.0, "the first one announces itself");
    let (code, ..) = ended(&mut aria2c("leech", &["--seed-time=0", "--bt-stop-timeout=60"]));
    seed.kill().expect("it runs");
    seed.wait().expect("it was started here");
    assert_eq!(code, Some(0));
    assert_eq!(fs::read(path(&format!("leech/{name}"))).expect("it came"), [0; 20_000]);
}

// Does a proxy ask again, with an ID that its client cannot know, and give its client the answer?
// Does it say so if none comes, and end as failed for its own reason? Method: the test is the
// server behind it.
#[test]
fn a_proxy_asks_again_and_gives_up() {
    let behind = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    behind.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a socket");
    let (server, socket) = start("proxy", &[&behind.local_addr().expect("bound").to_string()]);
    let mut buffer = [0; 64];
    let mut hear = || {
        let (length, proxy) = behind.recv_from(&mut buffer).expect("a question");
        (buffer[..length].to_vec(), proxy)
    };
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\0\0\x01\0\x01";
    socket.send(question).expect("the server's port is open");
    let ([(first, _), (second, proxy)], mut forged) = ([hear(), hear()], question.to_vec());
    assert_eq!((&first[2..], &second[2..]), (&question[2..], &question[2..]));
    assert_ne!(first[..2], second[..2]);
    // Late, and under an ID that nothing waits for.
    forged[2] = 0x81;
    for id in [[first[0], first[1]], [!second[0], second[1]], [second[0], second[1]]] {
        forged[..2].copy_from_slice(&id);
        forged[3] = id[0];
        behind.send_to(&forged, proxy).expect("sent");
    }
    let answer = receive_bytes(&socket);
    assert_eq!(answer, [&[0x12, 0x34, 0x81, second[0]], &question[4..]].concat());
    socket.send(question).expect("the server's port is open");
    let asked: BTreeSet<_> = (0..3).map(|_| hear().0).collect();
    assert_eq!((receive_bytes(&socket), asked.len()), (b"\x12\x34\x81\x02\0\0\0\0\0\0\0\0".to_vec(), 3));
    await_rejected(&server, "failed", "upstream", 1.0);
    server.stop();
}
