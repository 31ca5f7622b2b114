//! Is the server independent of settings that its launcher leaves: signal masks, timer slack,
//! sockets?

use nix::sys::prctl::set_timerslack;
use nix::{libc, setsockopt_impl, sockopt_impl};
use socket2::{SockFilter, SockRef};
use support::prelude::*;

/// `forebay serve` with `flags`, started by `env` with signals in this state.
fn serve_with(state: &str, flags: &[&str]) -> Command {
    let served = serve(flags);
    let mut command = Command::new("env");
    command.env_clear().arg(state).arg(served.get_program()).args(served.get_args());
    command
}

#[test]
fn signals_that_the_launcher_blocked_or_ignored_are_heard() {
    let states = ["--block-signal=TERM,INT,QUIT,HUP,USR1", "--ignore-signal=TERM,INT,QUIT,HUP,USR1"];
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT];
    at_once(states.into_iter().flat_map(|state| signals.map(|signal| (state, signal))), |(state, signal)| {
        let server = Forebay::spawn(&mut serve_with(state, &["--workers", "1"]));
        server.signal(Signal::SIGHUP);
        await_until(|| config(server.admin)["reloads"] == 1, "SIGHUP is not heard");
        server.signal(Signal::SIGUSR1);
        assert_eq!(status_at(server.udp), Status::Ok);
        server.signal(signal);
        assert!(server.ends_well().starts_with("received 1, answered 1\n"));
    });
}

// With a slack of an hour, each sleep might end an hour late.
#[test]
fn threads_have_the_usual_slack_whatever_the_launchers_is() {
    let start = || {
        set_timerslack(3_600_000_000_000).expect("an hour");
        Forebay::start(&["--workers", "1"])
    };
    let server = thread::spawn(start).join().expect("no panic");
    let slack = |thread: &str| fs::read_to_string(format!("/proc/{thread}/timerslack_ns")).expect("a thread");
    let mut threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("the child lives").flatten();
    let name = |id: &str| fs::read_to_string(format!("/proc/{id}/comm")).expect("a thread");
    let of = |wanted: &str, ids: &[String]| ids.iter().find(|id| name(id).trim() == wanted).map(|id| slack(id));
    let ids = Vec::from_iter(threads.by_ref().map(|thread| thread.file_name().into_string().expect("a number")));
    for thread in ["forebay-0", "forebay-admin"] {
        assert_eq!(of(thread, &ids).as_deref(), Some("50000\n"), "{thread}");
    }
    assert_eq!(server.stop(), "received 0\n");
}

/// The log of a server with these sockets, and its output after it has served requests of 64
/// clients.
fn served(held: &Held, workers: usize) -> (String, String) {
    let mut log = tempfile::tempfile().expect("a file");
    let mut command = held.command(workers, "$$", "--handler echo");
    let server = Forebay::spawn_to(&mut command, Stdio::from(log.try_clone().expect("a descriptor")));
    (0..64).for_each(|_| assert_eq!(status_at(held.udp), Status::Ok));
    let said = server.stop();
    let mut text = String::new();
    io::Seek::rewind(&mut log).and_then(|()| log.read_to_string(&mut text)).expect("text");
    (text, said)
}

// Are missing sockets opened, whether or not the given sockets already share their address?
#[test]
fn sockets_that_are_missed_are_opened() {
    let alone = Held::sharing(1, |_| Ok(()));
    for (held, passed, workers) in [(Held::new(1), 1, 2), (Held::new(2), 2, 3), (alone, 1, 2)] {
        let (log, said) = served(&held, workers);
        assert!(said.starts_with("received 64, answered 64\n"), "{said}");
        let line =
            log.lines().find(|line| line.contains("has opened the sockets that were not passed")).expect("a line");
        assert!(line.contains(&format!("workers={workers} passed={passed}")), "{line}");
    }
}

// Only the user who bound a socket may share its address; is this error named?
#[test]
fn sockets_that_another_user_holds_are_named() {
    let held = Held::new(1);
    let socket = &held.descriptors[0];
    if std::os::unix::fs::fchown(socket, Some(65_534), None).is_err() {
        return skip("only root gives a socket to another user");
    }
    let (code, _, said) = ended(&mut held.command(2, "$$", ""));
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("--workers 2, and 1 UDP sockets at ") && said.contains("allowed: --workers 1, or"), "{said}");
}

sockopt_impl!(LockFilter, SetOnly, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, bool);

#[test]
fn a_foreign_filter_goes_and_what_hears_nobody_is_refused() {
    let reject_all = [SockFilter::new(0x06, 0, 0, 0)];
    let held = Held::new(1);
    let socket = SockRef::from(&held.descriptors[0]);
    socket.attach_filter(&reject_all).expect("a filter");
    assert!(served(&held, 1).1.starts_with("received 64, answered 64\n"));

    let refused = |held: &Held, expected: &str| {
        let (code, _, said) = ended(&mut held.command(1, "$$", ""));
        assert!(code == Some(2) && said.lines().count() == 1 && said.contains(expected), "{expected}: {said}");
    };
    socket.attach_filter(&reject_all).expect("a filter");
    nix::sys::socket::setsockopt(&held.descriptors[0], LockFilter, &true).expect("an option");
    refused(&held, "has a filter that is locked (SO_LOCK_FILTER); allowed: a bound UDP socket");

    let held = Held::new(1);
    let peer = UdpSocket::bind("127.0.0.1:0").and_then(|peer| peer.local_addr()).expect("a free port");
    SockRef::from(&held.descriptors[0]).connect(&peer.into()).expect("a port");
    refused(&held, "is connected, and hears its peer alone; allowed: a bound UDP socket");
}
