//! Does a server that systemd starts say what it does? Does it stop feeding the watchdog when a worker stands still?
//! Does it lose nothing in a restart when systemd holds its sockets? Does a hand-over make the successor the main
//! process?
//! Method: this test in the place of systemd, with a socket for its notices and the sockets of the service.

#![allow(clippy::print_stdout, reason = "a child of this test says where it listens, and a test what it measured")]

use crate::support::held::{HELD_FROM, Held};
use crate::support::prelude::*;
use crate::support::process::this_as;
use crate::support::stream::stream;
use nix::sys::signal::Signal;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// Where a service says what it does. A thread takes each notice at once: the socket has room for ten, and a server waits
/// when it is full.
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

    /// The next notice, if one comes within `patience`.
    fn next(&self, patience: Nanos) -> Option<String> {
        self.notices.recv_timeout(patience.into()).ok()
    }

    /// The next notice that is no food for the watchdog.
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

// Does the server say when it serves, reads its configuration again and stops, and does it feed the watchdog in between?
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

// Does one worker of two that stands still starve the watchdog, and a long job that passes checkpoints not? Method: no
// handler of the binary does that, so this test binary runs itself as such a server.
#[test]
fn a_worker_that_stands_still_starves_the_watchdog() {
    let notices = Notices::new();
    let mut command = this_as("life::supervised::the_watched_server_itself", WATCHED, "1");
    let watchdog = Nanos::from_secs(2);
    notices.set_for(&mut command, watchdog);
    let server = Forebay::spawn(&mut command);
    assert!(notices.event().starts_with("READY=1"));
    let client = Client::new(server.udp);
    client.send(b"long");
    let begin = clock::now();
    while clock::now().minus(begin) < LONG {
        assert_eq!(notices.next(watchdog.times(2)).as_deref(), Some(FED), "a long job is progress");
    }
    client.send(b"stuck");
    // What was fed before is followed by a silence that is longer than the watchdog's time.
    let last = clock::now();
    while notices.next(watchdog.plus(Nanos::from_millis(500))).is_some() {
        assert!(clock::now().minus(last) < GIVE_UP_AFTER, "the watchdog is fed for ever");
    }
}

const WATCHED: &str = "FOREBAY_TEST_WATCHED";
/// Longer than a slice may last here.
const LONG: Nanos = Nanos::from_millis(2_500);

// Not a test but the child of one.
#[test]
fn the_watched_server_itself() {
    if std::env::var_os(WATCHED).is_none() {
        return;
    }
    let server = bound(&[("workers", "2"), ("unhealthy-after", "1s")]).notify_supervisor();
    println!("{}", server.announcement());
    let report = server.run(&LongOrStuck);
    panic!("the server ended by itself: {report:?}");
}

/// Passes checkpoints for [`LONG`], or never comes to one.
struct LongOrStuck;

impl Handler for LongOrStuck {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, _: &mut Reply<'_>) {
        let begin = clock::now();
        while request.bytes() == b"stuck" || clock::now().minus(begin) < LONG {
            thread::sleep(Nanos::from_millis(1).into());
            if request.bytes() == b"long" {
                checkpoint().await;
            }
        }
    }
}

// Does a successor say that it is the main process before its predecessor goes, which says no more that it stops? Does it
// feed the watchdog, of which systemd tells the first process alone?
#[test]
fn a_successor_becomes_the_main_process() {
    let notices = Notices::new();
    let path = notices.directory.path().join("handover");
    let (listen, path) = (listen(), path.to_str().expect("text").to_owned());
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.env_clear().args(["serve", "--listen", &listen, "--admin", "127.0.0.1:0"]);
        command.args(["--workers", "2", "--handover", &path]);
        command
    };
    let mut watched = command();
    notices.set_for(&mut watched, Nanos::from_millis(400));
    let first = Forebay::spawn(&mut watched);
    assert!(notices.event().starts_with("READY=1"));
    let second = Forebay::spawn(command().env("NOTIFY_SOCKET", notices.directory.path().join("notify")));
    first.ends_well();
    assert_eq!(notices.event(), format!("MAINPID={}\n", second.id()));
    assert!(notices.event().starts_with("READY=1"));
    // What the first has said is read; it has ended.
    while notices.next(Nanos::from_millis(1)).is_some() {}
    (0..5).for_each(|_| assert_eq!(notices.next(GIVE_UP_AFTER).as_deref(), Some(FED)));
    second.signal(Signal::SIGTERM);
    assert!(notices.event().starts_with("STOPPING=1\n"));
    second.ends_well();
}

const ECHO: &str = "--handler echo --max-wait off --drain-timeout 60s";

// Is every request answered, once, while a service is stopped and started again whose sockets systemd holds? Are
// requests that come meanwhile answered too?
#[test]
fn a_restart_of_a_service_loses_nothing() {
    let held = Held::new(2);
    let (udp, over) = (held.udp, AtomicBool::new(false));
    let start = || Forebay::spawn(&mut held.command(2, "$$", ECHO));
    let first = start();
    assert_eq!((first.udp, first.admin), (udp, held.admin));
    let (became, said) = thread::scope(|scope| {
        let guard = EndOf(&over);
        let streaming = scope.spawn(|| stream(20_000, udp, |_| !over.load(Ordering::SeqCst)));
        let (mut runs, mut said) = (first, Vec::new());
        for _ in 0..3 {
            let answered = || fates(&latency(held.admin)).answered;
            await_until(|| answered() > 1_000, "it serves nothing");
            said.push(runs.stop());
            runs = start();
        }
        drop(guard);
        let became = streaming.join().expect("no panic");
        said.push(runs.stop());
        (became, said)
    });
    let first_lines: Vec<_> = said.iter().map(|said| said.lines().next().unwrap_or_default()).collect();
    println!("{became:?}, {first_lines:?}");
    assert_eq!((became.lost(), became.unserved, became.twice), (0, 0, 0), "{first_lines:?}");
    assert!(first_lines.iter().all(|line| !line.contains("kernel_dropped")), "{first_lines:?}");
    // What comes when no server runs waits for one.
    let client = Client::new(udp);
    client.request(5, Nanos::ZERO, b"");
    let last = start();
    assert_eq!((client.receive().header.id, client.receive_within(Nanos::from_millis(1))), (5, None));
    assert!(last.stop().starts_with("received 1, answered 1\n"));
}

// Are sockets refused that are not those of the configuration, with a line that says what is allowed, and sockets for
// another process left alone?
#[test]
fn sockets_of_no_use_are_refused() {
    let refused = |command: &mut Command| {
        let child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        // A server that takes the sockets does not end by itself.
        let mut process = Process { child };
        let status = wait_for_exit(&mut process.child);
        let said = io::read_to_string(process.child.stderr.take().expect("a pipe")).expect("text");
        assert_eq!((status.code(), said.lines().count()), (Some(2), 1), "{said}");
        said
    };
    let mut held = Held::new(2);
    let says = "LISTEN_FDS: --workers 3, and 2 UDP sockets; allowed: 3 lines of ListenDatagram=";
    assert!(refused(&mut held.command(3, "$$", ECHO)).contains(says));
    // For another process: the port is in use.
    assert!(refused(&mut held.command(2, "1", ECHO)).contains("Address already in use"));
    held.udp = "127.0.0.1:9".parse().expect("an address");
    assert!(refused(&mut held.command(2, "$$", ECHO)).contains("LISTEN_FDS: --listen 127.0.0.1:9; allowed: 127."));
    held = Held::sharing(2, |socket| socket.set_reuse_address(true));
    assert!(
        refused(&mut held.command(2, "$$", ECHO)).contains("allowed: ReusePort=yes in the socket unit, or --workers 1")
    );
    held = Held::new(1);
    let other = Held::new(1);
    held.descriptors.push(fcntl_dupfd_cloexec(&other.descriptors[0], HELD_FROM).expect("a number"));
    fcntl_setfd(&held.descriptors[2], FdFlags::empty()).expect("a flag");
    assert!(refused(&mut held.command(2, "$$", ECHO)).contains("are bound to"));
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    held.descriptors[2] = fcntl_dupfd_cloexec(reader, HELD_FROM).expect("a number");
    fcntl_setfd(&held.descriptors[2], FdFlags::empty()).expect("a flag");
    assert!(
        refused(&mut held.command(1, "$$", ECHO))
            .contains("LISTEN_FDS: socket 2 (\"third\") is of no use; allowed: UDP")
    );
}
