//! Does a server under systemd report its state, also in a hand-over, and stop feeding the watchdog
//! if a worker is stuck? If systemd holds its sockets, does a restart lose nothing? Method: this
//! test plays systemd.

#![allow(clippy::print_stdout, reason = "a child of this test says where it listens, and a test what it measured")]

use super::scripted_child;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{self, Receiver};
use support::held::inherited;
use support::prelude::*;

/// The socket for a service's notices. A thread reads each notice at once, because the socket has
/// room for ten, and a server waits while it is full.
struct Notices {
    directory: tempfile::TempDir,
    notices: Receiver<String>,
}

impl Notices {
    fn new() -> Notices {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = UnixDatagram::bind(directory.path().join("notify")).expect("a free path");
        let (sender, notices) = mpsc::channel();
        thread::spawn(move || {
            let mut text = [0; 4_096];
            let mut next =
                || socket.recv(&mut text).map(|length| String::from_utf8_lossy(&text[..length]).into_owned());
            while sender.send(next().expect("a notice")).is_ok() {}
        });
        Notices { directory, notices }
    }

    fn set_for(&self, command: &mut Command, watchdog: Nanos) {
        command.env("NOTIFY_SOCKET", self.directory.path().join("notify"));
        command.env("WATCHDOG_USEC", (watchdog.get() / 1_000).to_string());
    }

    fn next(&self, patience: Nanos) -> Option<String> {
        self.notices.recv_timeout(patience.into()).ok()
    }

    /// The next notice that does not feed the watchdog.
    fn event(&self) -> String {
        loop {
            let notice = self.next(GIVE_UP_AFTER).expect("a notice");
            if notice != FED {
                return notice;
            }
        }
    }
}

const FED: &str = "WATCHDOG=1\n";

#[test]
fn what_the_server_does_is_told() {
    let notices = Notices::new();
    let mut command = serve(&["--workers", "2"]);
    notices.set_for(&mut command, Nanos::from_secs(2));
    let server = Forebay::spawn(&mut command);
    let serving = "READY=1\nSTATUS=serving: policy auto, 2 workers\n";
    assert_eq!(notices.event(), serving);
    let begin = clock::now();
    (0..3).for_each(|_| assert_eq!(notices.next(GIVE_UP_AFTER).as_deref(), Some(FED)));
    let took = clock::now().minus(begin);
    assert!(took >= Nanos::from_secs(1), "three feeds, each after a quarter of the time: {took}");
    server.signal(Signal::SIGHUP);
    let reloading = notices.event();
    let time =
        reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|time| time.trim_end().parse::<u64>().ok());
    assert!(time.is_some_and(|time| time > 0), "{reloading:?}");
    assert_eq!(notices.event(), serving);
    server.signal(Signal::SIGTERM);
    assert!(notices.event().starts_with("STOPPING=1\n"));
    server.ends_well();
}

// If a worker is stuck, the server stops feeding the watchdog. A long job that passes checkpoints
// does not count as stuck. This test binary runs itself as the server.
#[test]
fn a_worker_that_stands_still_starves_the_watchdog() {
    let notices = Notices::new();
    let mut command = scripted_child("watched");
    let watchdog = Nanos::from_secs(2);
    notices.set_for(&mut command, watchdog);
    let server = Forebay::spawn(&mut command);
    assert!(notices.event().starts_with("READY=1"));
    let client = Client::new(server.udp);
    client.request(1, LONG, &[Act::Step as u8]);
    let begin = clock::now();
    while clock::now().minus(begin) < LONG {
        assert_eq!(notices.next(watchdog.times(2)).as_deref(), Some(FED), "a long job is progress");
    }
    client.request(2, Nanos::ZERO, &[Act::Hold as u8]);
    // After the earlier notices there is silence for longer than the watchdog's time.
    let last = clock::now();
    while notices.next(watchdog.plus(Nanos::from_millis(500))).is_some() {
        assert!(clock::now().minus(last) < GIVE_UP_AFTER, "the watchdog is fed for ever");
    }
}

/// Longer than a slice may last here.
const LONG: Nanos = Nanos::from_millis(2_500);

// The supervisor learns of the successor before the predecessor ends. Does the successor feed the
// watchdog? systemd sets the watchdog's variables only for the first process.
#[test]
fn a_successor_becomes_the_main_process() {
    let notices = Notices::new();
    let path = notices.directory.path().join("handover");
    let (listen, path) = (listen(), path.to_str().expect("text").to_owned());
    let command = || serve(&["--listen", &listen, "--workers", "2", "--handover", &path]);
    let mut watched = command();
    notices.set_for(&mut watched, Nanos::from_millis(400));
    let first = Forebay::spawn(&mut watched);
    assert!(notices.event().starts_with("READY=1"));
    let second = Forebay::spawn(command().env("NOTIFY_SOCKET", notices.directory.path().join("notify")));
    first.ends_well();
    assert_eq!(notices.event(), format!("MAINPID={}\n", second.id()));
    assert!(notices.event().starts_with("READY=1"));
    // All notices of the first process are read; it has ended.
    while notices.next(Nanos::from_millis(1)).is_some() {}
    (0..5).for_each(|_| assert_eq!(notices.next(GIVE_UP_AFTER).as_deref(), Some(FED)));
    second.signal(Signal::SIGTERM);
    assert!(notices.event().starts_with("STOPPING=1\n"));
    second.ends_well();
}

const ECHO: &str = "--handler echo --max-wait off --drain-timeout 60s";

#[test]
fn a_restart_of_a_service_loses_nothing() {
    let held = Held::new(2);
    let start = || Forebay::spawn(&mut held.command(2, "$$", ECHO));
    let (udp, first) = (held.udp, start());
    assert_eq!((first.udp, first.admin), (udp, held.admin));
    let (became, (last, mut said)) = answered_while(20_000, 0, udp, |_| {
        let (mut runs, mut said) = (first, Vec::new());
        for _ in 0..3 {
            let answered = || fates(&latency(held.admin)).answered;
            await_until(|| answered() > 1_000, "it serves nothing");
            said.push(runs.stop());
            runs = start();
        }
        (runs, said)
    });
    said.push(last.stop());
    let first_lines: Vec<_> = said.iter().map(|said| said.lines().next().unwrap_or_default()).collect();
    println!("{became:?}, {first_lines:?}");
    assert!(first_lines.iter().all(|line| !line.contains("kernel_dropped")), "{first_lines:?}");
    // A request that comes while no server runs waits for the next one.
    let client = Client::new(udp);
    client.request(5, Nanos::ZERO, b"");
    let last = start();
    assert_eq!((client.receive().header.id, client.receive_within(Nanos::from_millis(1))), (5, None));
    assert!(last.stop().starts_with("received 1, answered 1\n"));
}

#[test]
fn sockets_of_no_use_are_refused() {
    let refused = |held: &Held, workers: usize, pid: &str, expected: &str| {
        let (code, _, said) = ended(&mut held.command(workers, pid, ECHO));
        assert!(code == Some(2) && said.lines().count() == 1 && said.contains(expected), "{expected}: {said}");
    };
    let mut held = Held::new(2);
    refused(&held, 1, "$$", "LISTEN_FDS: --workers 1, and 2 UDP sockets: 2 at 127.");
    // With another process id the sockets are not used, so the port is in use.
    refused(&held, 2, "1", "Address already in use");
    held.udp = "127.0.0.1:9".parse().expect("an address");
    refused(&held, 2, "$$", "LISTEN_FDS: --listen 127.0.0.1:9; allowed: 127.");
    let shared = Held::sharing(2, |socket| socket.set_reuse_address(true));
    refused(&shared, 2, "$$", "allowed: ReusePort=yes in the socket unit, or --workers 1");
    held = Held::new(1);
    held.descriptors.push(inherited(&Held::new(1).descriptors[0]));
    refused(&held, 2, "$$", "are bound to");
    let (reader, _writer) = io::pipe().expect("a pipe");
    held.descriptors[2] = inherited(&reader);
    refused(&held, 1, "$$", "LISTEN_FDS: socket 2 (\"third\") is of no use; allowed: UDP");
}
