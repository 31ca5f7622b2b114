//! If the system forbids some calls, does a server use other calls, or report what it cannot do?
//! Method: seccomp filters, as in sandboxes, on the threads of servers in this process. Threads
//! inherit the filter of the thread that starts them.

use nix::libc::{
    AF_NETLINK, EPERM, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_wait, SYS_getsockopt, SYS_io_uring_setup, SYS_openat,
    SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_setsockopt, SYS_socket, c_long,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::sync::{Once, PoisonError};
use support::http::Reply;
use support::prelude::*;

/// The value in asm-generic/socket.h.
const SO_MEMINFO: i32 = 55;

const CAP: Nanos = Nanos::from_secs(1);

/// Forbids `calls` to this thread and to threads that it starts.
fn forbid(calls: &[c_long]) {
    apply(calls.iter().map(|call| (*call, Vec::new())).collect());
}

fn apply(rules: BTreeMap<c_long, Vec<SeccompRule>>) {
    let forbidden = SeccompAction::Errno(EPERM as u32);
    let machine = std::env::consts::ARCH.try_into().expect("a machine that the filter knows");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, forbidden, machine).expect("rules");
    let program: BpfProgram = filter.try_into().expect("a filter");
    seccompiler::apply_filter(&program).expect("a kernel with seccomp");
}

/// Does `work` on a thread to which `calls` are forbidden.
fn where_forbidden<T: Send + 'static>(calls: &'static [c_long], work: impl FnOnce() -> T + Send + 'static) -> T {
    let forbidden = move || {
        forbid(calls);
        work()
    };
    thread::spawn(forbidden).join().expect("no panic")
}

fn page(server: &Running, path: &str) -> Reply {
    http(server.admin, &format!("GET {path}")).expect("the endpoint answers")
}

/// The reason why a server cannot be bound under `settings`.
fn refused(settings: &[(&str, &str)]) -> String {
    let pairs = [("admin", "127.0.0.1:0")].into_iter().chain(settings.iter().copied());
    Server::bind(&Config::from_pairs(pairs).expect("a configuration")).map(drop).expect_err("it is refused").to_string()
}

/// The lines of the log of all servers in this process that contain `text`.
fn logged(text: &str) -> Vec<String> {
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    static START: Once = Once::new();
    struct Log;
    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOG.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    START.call_once(|| tracing_subscriber::fmt().with_writer(|| Log).with_ansi(false).init());
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

// If the kernel gives no notices, does a light request still overtake a heavy one? Does the
// endpoint say why there are none? Is the start refused if the settings demand notices?
#[test]
fn without_a_ring_heavy_requests_look() {
    let settings = [("policy", "levels"), ("workers", "1")];
    for (calls, notices) in [(&[][..], "ring"), (&[SYS_io_uring_setup][..], "looks (no io_uring of Linux 6.1: ")] {
        let server = where_forbidden(calls, move || {
            Running::start(&settings, Bench::new(Spin::new(Burner::calibrated(), 1), CAP))
        });
        assert!(latency(server.admin)["notices"].as_str().expect("a text").starts_with(notices));
        let client = Client::new(server.udp);
        client.request(1, Nanos::from_millis(500), b"");
        await_until(|| fates(&latency(server.admin)).in_flight == 1, "the heavy request is not at work");
        client.request(2, Nanos::from_micros(1), b"");
        assert_eq!([client.receive().header.id, client.receive().header.id], [2, 1], "{notices}");
    }
    let refused = where_forbidden(&[SYS_io_uring_setup], || refused(&[("listen", "127.0.0.1:0"), ("notices", "ring")]));
    assert!(refused.starts_with("--notices ring: ") && refused.contains("allowed: auto, looks"), "{refused}");
}

// Is a start refused if the server could not receive or not send? Does the message name the allowed
// values?
#[test]
fn without_its_calls_there_is_no_start() {
    for (call, io, names) in [
        (
            SYS_recvmmsg,
            "batches",
            "recvmmsg: Operation not permitted (os error 1); allowed: a system that does, or --io gro",
        ),
        (
            SYS_recvmsg,
            "gro",
            "recvmsg: Operation not permitted (os error 1); allowed: a system that does, or --io batches",
        ),
        (SYS_sendmmsg, "gro", "sendmmsg: Operation not permitted (os error 1); allowed: a system that does"),
    ] {
        for listen in ["127.0.0.1:0", "[::]:0"] {
            let settings: &'static [(&str, &str)] = vec![("listen", listen), ("io", io)].leak();
            let calls: &'static [c_long] = vec![call].leak();
            let error = where_forbidden(calls, || refused(settings));
            assert_eq!(error, format!("--io {io}: this system does not permit {names}"));
        }
    }
    // Of the calls that `batches` uses, `gro` uses only the sending one.
    let server = where_forbidden(&[SYS_recvmmsg], || Running::start(&[("io", "gro")], Bench::new(Echo, CAP)));
    let answer = Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), b"payload");
    assert_eq!((answer.header.status, &answer.payload[..]), (Status::Ok, &b"payload"[..]));
}

// Does the program end before it listens, with one line that names the call? If nothing can be
// sent, is that an error of its configuration, with exit code 2?
#[test]
fn a_call_that_is_missed_ends_the_start() {
    let cases: [(&[c_long], &str, &str, &[i32]); 4] = [
        (&[SYS_sendmmsg], "[::]:0", "forebay: --io batches: this system does not permit sendmmsg: ", &[2]),
        (&[SYS_epoll_wait, SYS_epoll_pwait], "127.0.0.1:0", "epoll_wait", &[1, 2]),
        (&[SYS_epoll_ctl], "127.0.0.1:0", "epoll_ctl", &[1, 2]),
        (&[SYS_setsockopt], "127.0.0.1:0", "(setsockopt)", &[1, 2]),
    ];
    for (calls, listen, names, codes) in cases {
        let run = move || ended(&mut serve(&["--listen", listen, "--workers", "1", "--log-level", "off"]));
        let (code, listening, said) = where_forbidden(calls, run);
        assert_eq!((listening.as_str(), said.lines().count()), ("", 1), "{names}: {said}");
        let is_expected = code.is_some_and(|code| codes.contains(&code));
        assert!(is_expected && said.contains(names), "{names}: {code:?}: {said}");
    }
}

// Is a server that can no longer receive not ready? Does it say so on /readyz, in a counter and in
// the log, but not too often?
#[test]
fn a_server_that_turned_deaf_says_so() {
    logged("");
    let began = clock::now();
    let server =
        Running::after(|| forbid(&[SYS_recvmmsg]), bound(&[("workers", "2")]), Erased::new(Bench::new(Echo, CAP)));
    let clients: Vec<Client> = (0..16).map(|_| Client::new(server.udp)).collect();
    clients.iter().for_each(|client| client.request(0, Nanos::ZERO, b""));
    await_until(|| page(&server, "/readyz").status == 503, "it goes on saying that it is ready");
    let why = page(&server, "/readyz").body;
    assert!(why.starts_with("receiving fails: denied ") && why.ends_with('\n'), "{why}");
    assert_eq!(page(&server, "/healthz").status, 200);
    let errors = || metric(&page(&server, "/metrics").body, "forebay_receive_errors_total{reason=\"denied\"}");
    let before = errors();
    assert!(before > 0.0);
    // No more datagrams come, so it tries again by itself.
    await_until(|| errors() >= before + 4.0, "it never tries again");
    let said = logged("datagrams cannot be received");
    let seconds = clock::now().minus(began).as_secs_f64();
    assert!((1.0..=seconds + 2.0).contains(&(said.len() as f64)), "{seconds} s: {said:#?}");
    assert!(said[0].contains("reasons=\"denied "), "{said:#?}");
}

// Does a server that can no longer send say so in its fates and in the log?
#[test]
fn a_server_that_turned_mute_says_so() {
    logged("");
    let server =
        Running::after(|| forbid(&[SYS_sendmmsg]), bound(&[("workers", "1")]), Erased::new(Bench::new(Echo, CAP)));
    let client = Client::new(server.udp);
    let sent = 3;
    (0..sent).for_each(|number| client.request(number, Nanos::ZERO, b""));
    assert_eq!(server.quiescent(sent).unsent, sent);
    await_until(|| !logged("the kernel did not take replies").is_empty(), "the log says nothing");
}

/// Overflows the socket of a server; returns how many datagrams were sent.
fn overflow(server: &Running, script: &Scripted) -> u64 {
    let client = Client::new(server.udp);
    client.request(0, Nanos::ZERO, &[Act::Hold as u8]);
    await_until(|| script.blockers().len() == 1, "the request did not begin");
    // Many times the capacity of 4 MiB; they are not requests.
    let flood = 8_000;
    (0..flood).for_each(|_| client.send(&[0; 2_000]));
    script.release();
    flood + 1
}

/// A rule for a call whose argument with this index equals `value`.
fn rule(argument: u8, value: i32) -> Vec<SeccompRule> {
    let is_equal = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64);
    vec![SeccompRule::new(vec![is_equal.expect("a condition")]).expect("a rule")]
}

// Are drops counted exactly without reading the tables of all sockets, which other processes can
// make long? Method: opening files and asking netlink is forbidden.
#[test]
fn drops_are_counted_by_our_own_sockets_alone() {
    let (handler, script) = scripted();
    let forbid = || apply(BTreeMap::from([(SYS_openat, Vec::new()), (SYS_socket, rule(0, AF_NETLINK))]));
    let server = Running::after(forbid, bound(&[("workers", "1")]), Erased::new(handler));
    let sent = overflow(&server, &script);
    let fates = server.quiescent(sent);
    assert!(fates.kernel_dropped > Some(0), "the socket was never full: {fates:?}");
    assert!(!page(&server, "/metrics").body.contains("process_"), "files can be opened");
}

// If no source tells the number of drops, is it unknown instead of 0, and does the log say so once?
#[test]
fn drops_that_nothing_tells_are_unknown() {
    logged("");
    let (handler, script) = scripted();
    let forbid = || apply(BTreeMap::from([(SYS_getsockopt, rule(2, SO_MEMINFO))]));
    let server = Running::after(forbid, bound(&[("workers", "1")]), Erased::new(handler));
    let sent = overflow(&server, &script);
    let fates = || latency(server.admin)["fates"].clone();
    await_until(|| fates()["in_flight"] == 0 && fates()["answered"] == 1, "it never comes to rest");
    assert!(fates()["received"].as_u64() < Some(sent), "nothing was dropped");
    assert!(fates()["kernel_dropped"].is_null(), "{}", fates());
    let text = page(&server, "/metrics").body;
    assert!(!text.contains("kernel_dropped"), "{text}");
    let said = logged("drops at our sockets cannot be read");
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].contains("getsockopt SO_MEMINFO: EPERM"), "{said:#?}");
    let report = server.stop();
    assert!(report.totals.summary().contains(", kernel_dropped unknown"));
}
