//! Does a stop end in time, whatever work a handler has left? Method: this binary as a server, and
//! signals.

use forebay::server::Ended;
use forebay::{Event, Out, Service};
use std::convert::Infallible;
use std::sync::mpsc::channel;
use support::prelude::*;

const LEAVES: &str = "FOREBAY_TEST_LEAVES";

fn hang() -> ! {
    loop {
        thread::park();
    }
}

struct Hangs;

impl Drop for Hangs {
    fn drop(&mut self) {
        hang();
    }
}

/// Leaves the work that its text names.
struct Leaves(String);

impl Handler for Leaves {
    type Ticket = ();

    async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
        let (begins, begun) = channel();
        let begin_and_hang = move || {
            begins.send(()).expect("the handler waits");
            hang()
        };
        match &*self.0 {
            "work" => drop(tokio::task::spawn_blocking(begin_and_hang)),
            "task" => drop(tokio::spawn(async move { begin_and_hang() })),
            "destructor" => {
                let _hangs = Hangs;
                sleep(Nanos::from_secs(3_600)).await;
            }
            _ => drop(begin_and_hang),
        }
        // A stop drops work that has not begun.
        let _ = begun.recv();
        reply.put(b"x").expect("as long as the request");
    }
}

/// Has a shard whose state hangs when it is dropped.
struct Keeps;

impl Service for Keeps {
    type Ticket = ();
    type Shard = Hangs;
    type Message = Infallible;

    const SHARDS: usize = 1;

    fn shard(&self, _: usize) -> Hangs {
        Hangs
    }

    async fn handle(&self, _: &mut Hangs, _: Event<'_>, out: &mut Out<'_>) {
        out.reply().put(b"x").expect("as long as the request");
    }
}

// Not a test but the server of one.
#[test]
fn the_server_itself() {
    let Ok(text) = env::var(LEAVES) else { return };
    let (leaves, drain_timeout) = text.split_once(' ').expect("two words");
    let (drain_timeout, gives_up) = (drain_timeout.trim_end_matches('!'), drain_timeout.ends_with('!'));
    let server = bound(&[("workers", "1"), ("drain-timeout", drain_timeout)]).stop_on_signals().expect("signals");
    let server = if gives_up { server.exit_when_stuck() } else { server };
    println!("{}", server.announcement());
    let report = if leaves == "state" { server.run(&Keeps) } else { server.run(&Leaves(leaves.to_owned())) };
    let report = report.expect("it ran");
    std::process::exit(if report.ended == Ended::Drained { 0 } else { 3 });
}

// `!`: the server is told to give up.
#[test]
fn what_a_handler_leaves_does_not_keep_the_process() {
    let cases = [
        ("nothing 1h", 1, 0),
        ("work 300ms", 1, 3),
        ("work 1h", 2, 3),
        ("task 300ms!", 1, 3),
        ("task 1h", 2, 3),
        ("destructor 300ms!", 1, 3),
        ("destructor 300ms", 2, 3),
        ("state 300ms!", 1, 3),
        ("state 1h", 2, 3),
    ];
    at_once(cases, |(leaves, signals, code)| {
        let server = Forebay::spawn(&mut this_as("life::left::the_server_itself", LEAVES, leaves));
        let client = client_of(server.udp);
        client.send(b"x").expect("a socket");
        if leaves.starts_with("destructor") {
            await_until(|| fates(&latency(server.admin)).in_flight == 1, "the request did not begin");
        } else {
            assert_eq!(receive_bytes(&client), b"x", "{leaves}");
        }
        // Two signals of one kind may arrive as one.
        [Signal::SIGTERM, Signal::SIGINT][..signals].iter().for_each(|signal| server.signal(*signal));
        let (status, said) = server.end();
        assert_eq!(status.code(), Some(code), "{leaves}: {said}");
    });
}
