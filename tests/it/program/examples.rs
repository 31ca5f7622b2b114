//! Do the examples behave as they say? Method: each gets single messages, and then requests of
//! ntpdate, turnutils_stunclient and coap-client, if these are installed.

use rtime_clock::adjtime::{Timex, adjtimex};
use std::time::UNIX_EPOCH;
use support::prelude::*;

pub(super) fn ask(socket: &UdpSocket, question: &[u8]) -> Vec<u8> {
    socket.send(question).expect("the server's port is open");
    receive_bytes(socket)
}

pub(super) fn start(name: &str, arguments: &[&str]) -> (Forebay, UdpSocket) {
    // Examples that use `forebay::main` have flags.
    let listen: &[&str] = match name {
        "coap" | "sessions" => &["--listen", "127.0.0.1:0"],
        _ => &["127.0.0.1:0"],
    };
    let server = Forebay::spawn(Command::new(example(name)).args(listen).args(arguments));
    let socket = client_of(server.udp);
    (server, socket)
}

/// Waits until at least `expected` datagrams of `fate` have ended for the example's own `reason`.
pub(super) fn await_rejected(server: &Forebay, fate: &str, reason: &str, expected: f64) {
    let series = format!("forebay_datagrams_total{{fate=\"{fate}\",reason=\"{reason}\"}}");
    let count = || metric(&page(server.admin, "/metrics"), &series);
    await_until(|| count() == expected, &series);
}

/// The output of the program; `None`, and skipped, if it is not installed.
pub(super) fn said(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()),
        Err(error) => {
            skip(format_args!("{program} does not ask, it cannot be run: {error}"));
            None
        }
    }
}

#[test]
fn echo_answers_questions_alone() {
    let (_server, socket) = start("echo", &[]);
    socket.send(b"!an answer").expect("the server's port is open");
    assert_eq!(ask(&socket, b"?hello"), b"!hello");
}

// Is a source shed that asks too often, with the right fate?
#[test]
fn rate_limited_bounds_a_source() {
    let (server, socket) = start("rate_limited", &["3"]);
    (0..40).for_each(|_| assert_eq!(socket.send(b"?hi").expect("the server's port is open"), 3));
    assert_eq!(receive_bytes(&socket), b"!hi");
    // The forty requests may fall into two seconds, or into a few if the host stands still.
    let fates = quiescent(server.admin, 40);
    assert!(fates.answered + fates.shed_rate == 40 && fates.shed_rate >= 20 && fates.answered >= 3, "{fates:?}");
}

// If many payments into one account come at once, is none lost?
#[test]
fn accounts_are_paid_one_payment_at_a_time() {
    let (_server, socket) = start("accounts", &[]);
    for round in 0..20 {
        // One is served, and the others are set aside, because there is room for them.
        (0..9).for_each(|_| assert_eq!(socket.send(b"?3      ").expect("the server's port is open"), 8));
        let mut balances: Vec<_> = (0..9).map(|_| String::from_utf8(receive_bytes(&socket)).expect("text")).collect();
        balances.sort_by_key(|balance| balance[1..].parse::<u32>().expect("a number"));
        let expected: Vec<_> = (1..=9).map(|number| format!("!{}", (round * 9 + number) * 3)).collect();
        assert_eq!(balances, expected);
    }
}

/// The kernel's state of its clock, and the largest error in seconds.
fn known() -> (i32, f64) {
    let mut clock = Timex::new();
    (adjtimex(&mut clock).expect("every user may ask"), clock.0.maxerror as f64 / 1e6)
}

#[test]
fn ntp_tells_the_time() {
    let (server, socket) = start("ntp", &[]);
    let mut question = [0; 48];
    // Version 4, mode client. The transmit time may be any bytes of the client.
    question[0] = 0b00_100_011;
    question[40..].copy_from_slice(b"whatever");
    // Before and after, because it may change in between.
    let ((state, least), answer) = (known(), ask(&socket, &question));
    let leap = if state == 5 { 3 } else { answer[0] >> 6 };
    assert_eq!((answer.len(), answer[0], &answer[24..32]), (48, leap << 6 | 0b00_100_100, &b"whatever"[..]));
    assert_eq!((answer[1], &answer[12..16]), if state == 5 { (0, &b"INIT"[..]) } else { (10, &b"LOCL"[..]) });
    let dispersion = f64::from(u32::from_be_bytes(answer[8..12].try_into().expect("four bytes"))) / 65_536.0;
    assert!(dispersion >= least.min(known().1), "{dispersion} s of {least} s");
    let seconds = |at: usize| u64::from(u32::from_be_bytes(answer[at..at + 4].try_into().expect("four bytes")));
    let now = UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 2_208_988_800;
    assert!(now - seconds(40) < 60 && seconds(40) - seconds(32) < 60, "{answer:?}");
    // The server does not answer an answer.
    socket.send(&answer).expect("the server's port is open");
    assert_eq!(ask(&socket, &question)[0] & 0b00_111_111, 0b00_100_100);
    // A request for a list of clients gets no answer, and is counted under its reason.
    for scan in [&[0b00_010_110, 2, 0, 0][..], &[0b00_010_111, 0, 3, 42]] {
        socket.send(scan).expect("the server's port is open");
    }
    await_rejected(&server, "ignored", "management", 2.0);
}

// Does ntpdate take the answers? It asks only port 123. In a network of the test's own, no other
// server has this port, and each user may bind it.
#[test]
fn ntpdate_is_content() {
    if !in_own_network("program::examples::ntpdate_is_content") {
        return;
    }
    let _server = Forebay::spawn(Command::new(example("ntp")).arg("127.0.0.1:123"));
    if let Some(said) = said("ntpdate", &["-q", "127.0.0.1"]) {
        let expected = if known().0 == 5 { "no eligible servers" } else { " s10 no-leap" };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn stun_tells_the_address() {
    let (server, socket) = start("stun", &[]);
    let question = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"transaction!"].concat();
    let answer = ask(&socket, &question);
    assert_eq!((&answer[..4], &answer[4..20]), (&[1, 1, 0, 12][..], &question[4..]));
    let own = socket.local_addr().expect("bound").port();
    let port = own ^ 0x2112;
    let address: Vec<u8> =
        [127, 0, 0, 1].iter().zip([0x21, 0x12, 0xa4, 0x42]).map(|(byte, veil)| byte ^ veil).collect();
    let value = [&[0, 0x20, 0, 8, 0, 1], &port.to_be_bytes()[..], &address].concat();
    assert_eq!(&answer[20..], value);
    for malformed in [&question[..19], &[&question[..], b"more"].concat(), &answer] {
        socket.send(malformed).expect("the server's port is open");
    }
    assert_eq!(ask(&socket, &question), answer, "and nothing before");
    await_rejected(&server, "malformed", "length", 1.0);
    // An unknown attribute that a server must understand (CHANGE-REQUEST), between two that are
    // known or optional.
    let with = |attributes: &[&[u8]]| {
        let attributes = attributes.concat();
        [&[0, 1, 0, attributes.len() as u8][..], &question[4..], &attributes].concat()
    };
    let (username, change, software) =
        (&[0, 6, 0, 1, b'a', 0, 0, 0][..], &[0, 3, 0, 4, 0, 0, 0, 0], &[0x80, 0x22, 0, 0]);
    assert_eq!(ask(&socket, &with(&[username, software]))[..2], [1, 1]);
    let refused = ask(&socket, &with(&[username, change, software, &[0x7f, 0xff, 0, 0]]));
    let expected =
        [&[1, 0x11, 0, 16][..], &question[4..], &[0, 9, 0, 4, 0, 0, 4, 20, 0, 10, 0, 4, 0, 3, 0x7f, 0xff]].concat();
    assert_eq!(refused, expected);
    // The fingerprint of a message, with a checksum computed by zlib.
    let fingerprint = |wrong: u8| with(&[&[0x80, 0x28, 0, 4, 0xa6, 0xb2, 0x15, 0x0d ^ wrong]]);
    socket.send(&fingerprint(1)).expect("the server's port is open");
    socket.send(&with(&[&[0, 6, 0, 9, b'a', 0, 0, 0]])).expect("the server's port is open");
    assert_eq!(ask(&socket, &fingerprint(0))[..2], [1, 1]);
    await_rejected(&server, "malformed", "fingerprint", 1.0);
    await_rejected(&server, "malformed", "length", 2.0);
    let mut allocate = question.clone();
    allocate[1] = 3;
    socket.send(&allocate).expect("the server's port is open");
    await_rejected(&server, "ignored", "method", 1.0);
    let port = server.udp.port().to_string();
    if let Some(said) = said("turnutils_stunclient", &["-p", &port, "127.0.0.1"]) {
        assert!(said.contains("UDP reflexive addr: 127.0.0.1:"), "{said}");
    }
}

/// A GET of `path` with a query: confirmable, message 0x1234, token "t".
fn get(path: &[u8], query: &[u8]) -> Vec<u8> {
    // Option 11 for the path, then option 15, which is 4 higher.
    let path = [&[0xb0 | path.len() as u8], path].concat();
    let query = if query.is_empty() { Vec::new() } else { [&[0x40 | query.len() as u8], query].concat() };
    [&[0x41, 1, 0x12, 0x34, b't'][..], &path, &query].concat()
}

#[test]
fn coap_answers_at_once_or_later() {
    let (server, socket) = start("coap", &[]);
    let answer = |code: u8, content: &[u8]| [&[0x61, code, 0x12, 0x34, b't'][..], content].concat();
    assert_eq!(ask(&socket, &get(b"hello", b"")), answer(0x45, b"\xffhello, too"));
    assert_eq!(ask(&socket, &get(b"factors", b"91")), answer(0x45, b"\xff7"));
    assert_eq!(ask(&socket, &get(b"factors", b"one")), answer(0x84, b""));
    assert_eq!(ask(&socket, &get(b"nothing", b"")), answer(0x84, b""));
    // First comes the acknowledgement, and later the content. Other requests are served meanwhile.
    assert_eq!(ask(&socket, &get(b"slow", b"")), [0x60, 0, 0x12, 0x34]);
    assert_eq!(ask(&socket, &get(b"hello", b"")), answer(0x45, b"\xffhello, too"));
    assert_eq!(receive_bytes(&socket), b"\x51\x45\x12\x34t\xffat last");
    socket.send(&[0x60, 0, 0x12, 0x34]).expect("an acknowledgement, which is not answered");
    // A ping gets a reset. So does a confirmable message that is not a valid request.
    let (hello, reset) = (get(b"hello", b""), |id: u8| [0x70, 0, 0x12, id]);
    assert_eq!(ask(&socket, &[0x40, 0, 0x12, 0x35]), reset(0x35), "ping");
    assert_eq!(ask(&socket, &[&hello[..], b"\xff"].concat()), reset(0x34), "a marker without a payload");
    assert_eq!(ask(&socket, &[0x40, 1, 0x12, 0x36, 0xff]), reset(0x36), "the same without options");
    assert_eq!(ask(&socket, &[0x40, 0x20, 0x12, 0x37]), reset(0x37), "a reserved class");
    assert_eq!(ask(&socket, &[0x41, 0, 0x12, 0x38, b't']), reset(0x38), "an empty message with a token");
    assert_eq!(ask(&socket, &[0x49, 1, 0x12, 0x39]), reset(0x39), "a token of nine bytes");
    // No answer if the same is not confirmable, for a reset, and for another version.
    for silent in
        [&[0x50, 0, 0x12, 0x34][..], &[0x50, 1, 0x12, 0x34, 0xff], &[0x70, 0, 0x12, 0x34], &[0x80, 1, 0x12, 0x34]]
    {
        socket.send(silent).expect("the server's port is open");
    }
    // Option 9 is critical and unknown, and option 12 is elective. If-Match (1) comes before the
    // path.
    assert_eq!(ask(&socket, &[0x41, 1, 0x12, 0x34, b't', 0x90]), answer(0x82, b""));
    assert_eq!(ask(&socket, &[&[0x41, 1, 0x12, 0x34, b't', 0x10, 0xa5], &b"hello"[..]].concat()), answer(0x82, b""));
    assert_eq!(ask(&socket, &[&hello[..], b"\x10"].concat()), answer(0x45, b"\xffhello, too"));
    socket.send(&[0x51, 1, 0x12, 0x34, b't', 0x90]).expect("a bad option that is not confirmable");
    // An unknown method.
    let mut method = hello;
    method[1] = 8;
    assert_eq!(ask(&socket, &method), answer(0x85, b""));
    assert_eq!(ask(&socket, &get(b"factors", b"4")), answer(0x45, b"\xff2"));
    await_rejected(&server, "refused", "ping", 1.0);
    await_rejected(&server, "refused", "format", 5.0);
    await_rejected(&server, "malformed", "ping", 1.0);
    let address = format!("coap://127.0.0.1:{}/factors?1000003", server.udp.port());
    if let Some(said) = said("coap-client-notls", &["-m", "get", &address]) {
        assert_eq!(said.trim(), "1000003");
    }
}
