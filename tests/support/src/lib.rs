//! What the tests of several packages share: servers that stop when dropped, clients, HTTP, and
//! waiting for conditions.

#![allow(missing_docs, reason = "most names say it, and only tests of this repository read them")]

pub mod any_line;
pub mod client;
pub mod cpu;
pub mod erased;
mod fates;
pub mod golden;
pub mod held;
pub mod http;
pub mod network;
pub mod pages;
mod programs;
pub mod raw;
pub mod script;
pub mod scripted;
pub mod skip;
pub mod stream;

pub use programs::{generator, place, process, program};

/// The names that most tests use: `use support::prelude::*;`.
pub mod prelude {
    pub use super::client::{Client, ask, ask_from, client, client_of, message, receive, receive_bytes, status_at};
    pub use super::erased::Erased;
    pub use super::held::Held;
    pub use super::http::{config, exchange, fates, http, latency, metric, page, ready};
    pub use super::network::{HERE, HERE_V6, THERE, in_own_network, ip, lonely_device};
    pub use super::place::Place;
    pub use super::process::{
        Configured, Forebay, Process, cargo, ended, example, figure, serve, this_as, wait_for_exit,
    };
    pub use super::program::{FOREBAY, refusal};
    pub use super::raw::Raw;
    pub use super::scripted::{Act, Scripted, run_scripted, scripted};
    pub use super::skip::skip;
    pub use super::stream::answered_while;
    pub use super::{EndOf, GIVE_UP_AFTER, Running, alone, assert_adds_up, at_once, await_until};
    pub use super::{bound, echo, emulated, listen, policies, quiescent, sized};
    pub use crate::fates;
    pub use forebay::config::Config;
    pub use forebay::fate::{Fate, Malformed};
    pub use forebay::handler::builtin::{Bench, BenchWork, Burner, Echo, Order, Spin};
    pub use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved};
    pub use forebay::handler::{checkpoint, fork, handler_fn, hop, sleep, timeout, uninterrupted};
    pub use forebay::inside::sched::PolicyName;
    pub use forebay::inside::wire::{DATAGRAM_MAX_BYTES, HEADER_BYTES, Header, Kind, Status};
    pub use forebay::metrics::{Fates, Percentile};
    pub use forebay::server::Server;
    pub use forebay::time::{Nanos, clock};
    pub use nix::sys::signal::Signal;
    pub use serde_json::{Value, json};
    pub use std::collections::{BTreeMap, BTreeSet};
    pub use std::io::{ErrorKind, Read, Write};
    pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
    pub use std::os::fd::AsRawFd;
    pub use std::path::{Path, PathBuf};
    pub use std::process::{Command, Output, Stdio};
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub use std::sync::{Arc, Mutex};
    pub use std::{env, fs, io, thread};
}

use erased::Erased;
use forebay::config::Config;
use forebay::handler::builtin::{Bench, Burner, Spin};
use forebay::handler::{Handler, Reply, Request, Service};
use forebay::inside::run_emulated;
use forebay::inside::sched::PolicyName;
pub use forebay::metrics::Fates;
use forebay::server::{Metrics, Report, ServeError, Server, Spawner, StopHandle};
use forebay::time::{Nanos, clock};
use http::{latency, metric, page};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Far longer than any step takes on a busy machine. A test that waits this long fails instead of
/// hanging.
pub const GIVE_UP_AFTER: Nanos = Nanos::from_secs(30);

/// The policies that exist.
pub fn policies() -> impl Iterator<Item = &'static str> {
    PolicyName::ALL.iter().map(|policy| policy.name())
}

/// A policy with two or four workers, which pools share equally.
pub fn sized(policy: &str, workers: usize) -> Vec<(&str, &str)> {
    let size = match (policy, workers) {
        ("pools", 2) => ("pools", "front=1,heavy=1"),
        ("pools", _) => ("pools", "front=2,heavy=2"),
        (_, 2) => ("workers", "2"),
        _ => ("workers", "4"),
    };
    vec![("policy", policy), size]
}

/// Sets its flag when it is dropped, also if a test fails. The threads of a scope then end, and the
/// scope waits for them.
pub struct EndOf<'a>(pub &'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The address where a server of this process listens: a free port of a loopback address that no
/// other process uses.
///
/// Ports are soon used again. On 127.0.0.1 a server that counts exactly would sometimes count a
/// datagram meant for the server before it. That is a reply to a client that has ended, or a
/// request to a server that has ended.
pub fn listen() -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // Process ids are below 2^22, so the address stays between 127.1 and 127.64.
    SocketAddr::from(([127, high + 1, middle, low], 0)).to_string()
}

/// A server in this process; dropping it stops it.
pub struct Running {
    pub udp: SocketAddr,
    /// All addresses where it listens, `udp` first.
    pub addresses: Vec<SocketAddr>,
    pub admin: SocketAddr,
    pub spawner: Spawner,
    pub measured: Metrics,
    stop: StopHandle,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    /// Serves with `handler`, which has no names of its own, under `settings`, on free ports.
    pub fn start<H: Handler<Ticket: 'static> + Send + 'static>(settings: &[(&str, &str)], handler: H) -> Running {
        Running::on(bound(settings), Erased::new(handler))
    }

    /// Serves with `server`, which may have no endpoint, and any service without type erasure.
    /// Requests are not boxed. A server is compiled for each type of handler.
    pub fn on<H: Service + Send + 'static>(server: Server, handler: H) -> Running {
        Running::after(|| (), server, handler)
    }

    /// Like [`Running::on`], but the thread of the server calls `first` before it starts other
    /// threads.
    pub fn after<H: Service + Send + 'static>(
        first: impl FnOnce() + Send + 'static,
        server: Server,
        handler: H,
    ) -> Running {
        let run = move |server: Server| {
            first();
            server.run(&handler)
        };
        Running::with(server, run)
    }

    /// As [`Running::start`], on emulated cores.
    pub fn emulated<H: Handler<Ticket: 'static> + Send + 'static>(settings: &[(&str, &str)], handler: H) -> Running {
        let handler = Erased::new(handler);
        let cores = [("burn", "sleep"), ("overheads", "none")];
        Running::with(bound(&[&cores[..], settings].concat()), move |server| run_emulated(server, &handler))
    }

    fn with(server: Server, run: impl FnOnce(Server) -> Result<Report, ServeError> + Send + 'static) -> Running {
        let admin = server.admin_address().unwrap_or(SocketAddr::from(([0; 4], 0)));
        let (udp, addresses, stop) = (server.udp_address(), server.udp_addresses().to_vec(), server.stop_handle());
        let (spawner, measured) = (server.spawner(), server.metrics());
        let thread = Some(thread::spawn(|| run(server).expect("the server runs")));
        Running { udp, addresses, admin, spawner, measured, stop, thread }
    }

    /// A handle that stops it while other code still uses it.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Stops it and returns its report.
    pub fn stop(mut self) -> Report {
        self.stop.stop();
        self.join()
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of a server that a stop handle has stopped.
    pub fn join(&mut self) -> Report {
        let thread = self.thread.take().expect("a server is joined once");
        thread.join().expect("the server does not panic")
    }

    /// Waits until all datagrams have ended as `expected`, and stops it. No work may be left.
    #[track_caller]
    pub fn ends_as(self, expected: Fates, what: impl Display) {
        let fates = self.quiescent(expected.arrived().expect("drops that are known"));
        let report = self.stop();
        assert_eq!((fates, report.totals.fates, report.packets_away), (expected, expected, 0), "{what}");
    }

    pub fn metrics(&self) -> String {
        page(self.admin, "/metrics")
    }

    /// How many datagrams ended as `fate` for `reason`, according to `/metrics`.
    pub fn count(&self, fate: &str, reason: &str) -> f64 {
        metric(&self.metrics(), &format!("forebay_datagrams_total{{fate=\"{fate}\",reason=\"{reason}\"}}"))
    }

    /// Waits until `expected` datagrams have reached its sockets and none is in flight; returns
    /// their fates.
    pub fn quiescent(&self, expected: u64) -> Fates {
        quiescent(self.admin, expected)
    }
}

/// Answers with the request's bytes.
pub fn echo(request: Request<'_>, reply: &mut Reply<'_>) {
    reply.put(request.bytes()).expect("as long as the request");
}

/// A server that does not run yet, on free ports unless `settings` say otherwise.
pub fn bound(settings: &[(&str, &str)]) -> Server {
    let listen = listen();
    // Without a bound on waits: on a busy machine it would shed requests in any test.
    let ports = [("listen", listen.as_str()), ("admin", "127.0.0.1:0"), ("max-wait", "off")];
    let pairs = ports.into_iter().chain(settings.iter().copied());
    Server::bind(&Config::from_pairs(pairs).expect("a configuration")).expect("free ports")
}

/// A server with emulated cores at this time scale. Requests cost as much as they state. It has the
/// default bound on waits, because a busy machine does not delay an emulated core.
pub fn emulated(scale: u64, settings: &[(&str, &str)]) -> Running {
    let time_scale = scale.to_string();
    let cores = [("time-scale", &*time_scale), ("max-wait", "auto")];
    let spin = Bench::new(Spin::new(Burner::Sleep, scale), Nanos::MAX);
    Running::emulated(&[&cores[..], settings].concat(), spin)
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Twice, because a failed test should not wait for a drain.
            self.stop.stop();
            self.stop.stop();
            let _ = thread.join();
        }
    }
}

/// Waits until `expected` datagrams have reached the server's sockets and nothing is in flight.
pub fn quiescent(admin: SocketAddr, expected: u64) -> Fates {
    let (mut last, mut give_up) = (Fates::default(), clock::now().plus(GIVE_UP_AFTER));
    loop {
        let fates = http::fates(&latency(admin));
        // On a busy machine many datagrams take long, but the counts change meanwhile.
        if fates != last {
            (last, give_up) = (fates, clock::now().plus(GIVE_UP_AFTER));
        }
        if last.arrived() >= Some(expected) && last.in_flight == 0 {
            break;
        }
        assert!(clock::now() < give_up, "the server never came to rest after {expected} datagrams: {last:?}");
        thread::sleep(Nanos::from_millis(1).into());
    }
    assert_eq!(last.arrived(), Some(expected), "{last:?}");
    assert_adds_up(&last);
    last
}

/// Checks that the fates add up: each received datagram has ended in one fate or is in flight.
#[track_caller]
pub fn assert_adds_up(fates: &Fates) {
    let ended = forebay::fate::Fate::ALL.map(|fate| fates.of(fate)).iter().sum::<u64>();
    assert_eq!(fates.received, ended + fates.in_flight, "{fates:?}");
}

/// Waits until `condition` holds, and fails with `complaint` when it does not in [`GIVE_UP_AFTER`].
#[track_caller]
pub fn await_until(mut condition: impl FnMut() -> bool, complaint: &str) {
    let deadline = clock::now().plus(GIVE_UP_AFTER);
    while !condition() {
        assert!(clock::now() < deadline, "{complaint}");
        thread::sleep(Nanos::from_millis(1).into());
    }
}

/// Runs all `cases` in parallel, for tests that mostly wait. What a case says has the name of the
/// test.
pub fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, body: impl Fn(T) + Sync) {
    let (body, name) = (&body, thread::current().name().unwrap_or("a test").to_owned());
    thread::scope(|scope| {
        for case in cases {
            let thread = thread::Builder::new().name(name.clone());
            drop(thread.spawn_scoped(scope, move || body(case)).expect("a thread"));
        }
    });
}

/// The lock of tests that measure time or the counters of the machine; they run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
