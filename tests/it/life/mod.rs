//! Start, hand-over, supervision and stop of a server.

#![allow(clippy::print_stdout, reason = "a child of a test says where it listens")]

mod handover;
mod launched;
mod left;
mod shutdown;
mod spawner;
mod supervised;
mod switch;

use support::prelude::*;

const CHILD: &str = "FOREBAY_TEST_CHILD";

/// This test binary as a server of scripted requests, of this kind.
pub(crate) fn scripted_child(kind: &str) -> Command {
    this_as("life::the_server_itself", CHILD, kind)
}

// Not a test but the server of some tests.
#[test]
fn the_server_itself() {
    let Ok(kind) = env::var(CHILD) else { return };
    let server = match &*kind {
        "told to give up" => {
            bound(&[("workers", "1"), ("drain-timeout", "50ms")]).stop_on_signals().map(Server::exit_when_stuck)
        }
        "watched" => Ok(bound(&[("workers", "2"), ("unhealthy-after", "1s")]).notify_supervisor()),
        "panicking" => bound(&[("workers", "2")]).stop_on_signals(),
        drain_timeout => bound(&[("workers", "1"), ("drain-timeout", drain_timeout)]).stop_on_signals(),
    };
    let server = server.expect("signals");
    println!("{}", server.announcement());
    let report = server.run(&Erased::new(scripted().0));
    assert_eq!(kind, "panicking", "the server ended by itself: {report:?}");
}
