//! Do the examples do what they say? Method: each is asked message by message, and then by ntpdate, turnutils_stunclient
//! and coap-client, where these are installed.

use crate::support::prelude::*;
use std::time::UNIX_EPOCH;

fn ask(socket: &UdpSocket, question: &[u8]) -> Vec<u8> {
    socket.send(question).expect("the server's port is open");
    receive_bytes(socket)
}

fn start(name: &str, arguments: &[&str]) -> (Forebay, UdpSocket) {
    // Those that are programs of `forebay::main` have flags.
    let listen: &[&str] = match name {
        "coap" => &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        _ => &["127.0.0.1:0"],
    };
    let server = Forebay::spawn(Command::new(example(name)).args(listen).args(arguments));
    let socket = client_of(server.udp);
    (server, socket)
}

/// Waits until as many datagrams of `fate` have ended for the example's own `reason` as there must be by then.
fn await_rejected(server: &Forebay, fate: &str, reason: &str, expected: f64) {
    let series = format!("forebay_datagrams_total{{fate=\"{fate}\",reason=\"{reason}\"}}");
    let count = || metric(&page(server.admin, "/metrics"), &series);
    await_until(|| count() == expected, &series);
}

/// What the program prints; `None`, skipped, where it is not installed.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
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

// Is a source that asks too often shed, with the fate that says so?
#[test]
fn rate_limited_bounds_a_source() {
    let (server, socket) = start("rate_limited", &["3"]);
    (0..40).for_each(|_| assert_eq!(socket.send(b"?hi").expect("the server's port is open"), 3));
    assert_eq!(receive_bytes(&socket), b"!hi");
    // The forty may fall into two seconds, on a host that stands still into a few.
    let fates = quiescent(server.admin, 40);
    assert!(fates.answered + fates.shed_rate == 40 && fates.shed_rate >= 20 && fates.answered >= 3, "{fates:?}");
}

// Is no payment lost, where many into one account come at once?
#[test]
fn accounts_are_paid_one_payment_at_a_time() {
    let (_server, socket) = start("accounts", &[]);
    for round in 0..20 {
        // One is served, and as many as there is room for are set aside.
        (0..9).for_each(|_| assert_eq!(socket.send(b"?3      ").expect("the server's port is open"), 8));
        let mut balances: Vec<_> = (0..9).map(|_| String::from_utf8(receive_bytes(&socket)).expect("text")).collect();
        balances.sort_by_key(|balance| balance[1..].parse::<u32>().expect("a number"));
        let expected: Vec<_> = (1..=9).map(|number| format!("!{}", (round * 9 + number) * 3)).collect();
        assert_eq!(balances, expected);
    }
}

#[test]
fn ntp_tells_the_time() {
    let (server, socket) = start("ntp", &[]);
    let mut question = [0; 48];
    // Version 4, client; the time of transmission is whatever the client says.
    question[0] = 0b00_100_011;
    question[40..].copy_from_slice(b"whatever");
    let answer = ask(&socket, &question);
    assert_eq!((answer.len(), answer[0], &answer[24..32]), (48, 0b00_100_100, &b"whatever"[..]));
    let seconds = |at: usize| u64::from(u32::from_be_bytes(answer[at..at + 4].try_into().expect("four bytes")));
    let now = UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 2_208_988_800;
    assert!(now - seconds(40) < 60 && seconds(40) - seconds(32) < 60, "{answer:?}");
    // An answer is none of its questions.
    socket.send(&answer).expect("the server's port is open");
    assert_eq!(ask(&socket, &question)[0], 0b00_100_100);
    // What asks for a list of clients gets nothing, and is counted as that.
    for scan in [&[0b00_010_110, 2, 0, 0][..], &[0b00_010_111, 0, 3, 42]] {
        socket.send(scan).expect("the server's port is open");
    }
    await_rejected(&server, "ignored", "management", 2.0);
    // ntpdate asks port 123 alone, of an address that nothing else is likely to have; only root may bind that.
    let address = "127.123.123.123";
    if let Err(error) = UdpSocket::bind((address, 123)) {
        return skip(format_args!("ntpdate does not ask, port 123 cannot be bound: {error}"));
    }
    let _server = Forebay::spawn(Command::new(example("ntp")).arg(format!("{address}:123")));
    if let Some(said) = said("ntpdate", &["-q", address]) {
        assert!(said.contains(" s10 no-leap"), "{said}");
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
    let mut allocate = question;
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
    // Option 11, and option 15 four further on.
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
    // The acknowledgement, which no request waits for, and then the content; others are served meanwhile.
    assert_eq!(ask(&socket, &get(b"slow", b"")), [0x60, 0, 0x12, 0x34]);
    assert_eq!(ask(&socket, &get(b"hello", b"")), answer(0x45, b"\xffhello, too"));
    assert_eq!(receive_bytes(&socket), b"\x51\x45\x12\x34t\xffat last");
    socket.send(&[0x60, 0, 0x12, 0x34]).expect("an acknowledgement, which is not answered");
    socket.send(&[0x40, 0, 0x12, 0x35]).expect("a ping, which is not answered");
    assert_eq!(ask(&socket, &get(b"factors", b"4")), answer(0x45, b"\xff2"));
    await_rejected(&server, "ignored", "ping", 1.0);
    let address = format!("coap://127.0.0.1:{}/factors?1000003", server.udp.port());
    if let Some(said) = said("coap-client-notls", &["-m", "get", &address]) {
        assert_eq!(said.trim(), "1000003");
    }
}
