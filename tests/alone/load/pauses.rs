//! After a pause of the process or of a worker, is no request shed that can still be answered while
//! its client waits?

use super::cgroup::Cgroup;
use super::overload::pause;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use support::prelude::*;

/// Requests per second. They need a fiftieth of a core.
const REQUESTS: u64 = 200;
const COST: Nanos = Nanos::from_micros(100);

/// Sends requests for a second, and for another second while the server is stopped. The pause
/// begins while a worker runs a request.
fn sheds_nothing(policy: &str, server: &Forebay, stopped: impl FnOnce(&dyn Fn())) {
    let clients = [(); 4].map(|()| Client::new(server.udp));
    let for_a_second = || {
        let mut next = clock::now();
        for number in 0..REQUESTS {
            clients[number as usize % 4].request(number, COST, b"");
            pause(&mut next, Nanos::from_millis(5));
        }
    };
    let answered = || fates(&latency(server.admin)).answered;
    for_a_second();
    await_until(|| answered() == REQUESTS, &format!("{policy}: all are answered before it"));
    clients[0].request(0, Nanos::from_millis(50), b"");
    thread::sleep(Nanos::from_millis(10).into());
    stopped(&for_a_second);
    let fates = quiescent(server.admin, 2 * REQUESTS + 1);
    assert_eq!(fates.answered, 2 * REQUESTS + 1, "{policy}: {fates:?}");
}

#[test]
fn a_pause_of_the_process_sheds_nothing() {
    let _alone = alone();
    at_once(["isolated", "steal", "auto"], |policy| {
        let server = Forebay::start(&["--policy", policy, "--workers", "1"]);
        sheds_nothing(policy, &server, |for_a_second| {
            server.signal(Signal::SIGSTOP);
            for_a_second();
            server.signal(Signal::SIGCONT);
        });
    });
}

// Like a paused container, or a snapshot of one.
#[test]
fn a_frozen_cgroup_sheds_nothing() {
    let _alone = alone();
    at_once(["isolated", "steal", "auto"], |policy| {
        let Some(cgroup) = Cgroup::that_freezes() else { return };
        let server = Forebay::start(&["--policy", policy, "--workers", "1"]);
        cgroup.add(&server);
        sheds_nothing(policy, &server, |for_a_second| {
            cgroup.freeze(true);
            for_a_second();
            cgroup.freeze(false);
        });
        drop(server);
    });
}

// Method: a tracer stops one of two workers.
#[test]
fn a_worker_that_is_held_sheds_nothing() {
    let _alone = alone();
    at_once(["isolated", "global", "steal", "levels", "auto"], |policy| {
        let server = Forebay::start(&["--policy", policy, "--workers", "2"]);
        let worker = server.thread_ids()["forebay-1"];
        sheds_nothing(policy, &server, |for_a_second| {
            ptrace::seize(worker, ptrace::Options::empty()).expect("root may");
            ptrace::interrupt(worker).expect("it is traced");
            waitpid(worker, Some(WaitPidFlag::__WALL)).expect("it stops");
            for_a_second();
            ptrace::detach(worker, None).expect("it is traced");
        });
    });
}
