//! A small server of the bench protocol that can be told to misbehave, and a way to run `loadgen`
//! against it.

pub(crate) mod admin;

use forebay::fate::Ending;
use forebay::inside::wire::{DATAGRAM_MAX_BYTES, Kind, Served};
pub(crate) use forebay::inside::wire::{Header, Status};
pub(crate) use forebay::time::{Nanos, clock};
pub(crate) use nix::sys::signal::{Signal, kill};
pub(crate) use nix::unistd::Pid;
pub(crate) use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
pub(crate) use std::net::{SocketAddr, UdpSocket};
pub(crate) use std::process::{Command, Output, Stdio};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
pub(crate) use std::time::Duration;
pub(crate) use support::generator::{self, Generator, Run, bound, eventually, honest, loadgen, reply, status};
pub(crate) use support::program::LOADGEN;

/// What a server says to one request: each reply with its status, and how long it takes to come.
pub(crate) type Answers = Vec<(Status, Nanos)>;

/// A good answer, at once.
pub(crate) fn answer() -> Answers {
    vec![(Status::Ok, Nanos::ZERO)]
}

/// How long the client of a request that is shed should wait before it sends it again.
pub(crate) const HINT: Nanos = Nanos::from_millis(60);

/// A server in a thread.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Header>>,
}

impl Server {
    /// Starts a server that replies to each request as `act` says, in the order of their arrival.
    /// It hears nothing while `act` takes its time.
    pub(crate) fn start(act: impl FnMut(&Header) -> Answers + Send + 'static) -> Server {
        let (socket, address) = bound();
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&socket, act, &stopped));
        Server { address, stop, thread }
    }

    fn stop(self) -> Vec<Header> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server does not panic")
    }
}

fn serve(socket: &UdpSocket, mut act: impl FnMut(&Header) -> Answers, stop: &AtomicBool) -> Vec<Header> {
    let mut heard = Vec::new();
    let mut pending: BinaryHeap<Reverse<(Nanos, SocketAddr, Vec<u8>)>> = BinaryHeap::new();
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    while !stop.load(Ordering::Relaxed) {
        while pending.peek().is_some_and(|Reverse((due, ..))| *due <= clock::now()) {
            let Some(Reverse((_, client, reply))) = pending.pop() else { break };
            // A client that has gone is no concern of the server's.
            let _ = socket.send_to(&reply, client);
        }
        let Ok((bytes, client)) = socket.recv_from(&mut buffer) else { continue };
        let request = Header::parse(&buffer[..bytes]).expect("loadgen sends well-formed requests");
        heard.push(request);
        for (status, after) in act(&request) {
            let queue_wait = if status.ending() == Ending::Shed { HINT } else { Nanos::ZERO };
            let served = Served { queue_wait, ..Served::default() };
            let reply = Header { kind: Kind::Reply, status, served, ..request }.emit().to_vec();
            pending.push(Reverse((clock::now().plus(after), client, reply)));
        }
    }
    heard
}

/// Runs `loadgen run` against `server` with `flags`, separated by blanks. Returns its JSON report,
/// what the server heard in the order of arrival, and how the process ended.
pub(crate) fn run(server: Server, flags: &str) -> (Value, Vec<Header>, Output) {
    let Run { report, output, .. } = generator::run(server.address, flags);
    (report, server.stop(), output)
}

/// A number of a JSON report.
pub(crate) fn number(report: &Value, pointer: &str) -> f64 {
    let value = report.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {report:#}"));
    value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}, no number"))
}
