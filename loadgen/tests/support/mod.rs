//! A small server of the bench protocol that can be told to misbehave, and a way to run `loadgen` against it.
#![allow(dead_code, reason = "each test file uses its part of this")]

use forebay::time::{Nanos, clock};
use forebay::wire::{DATAGRAM_MAX_BYTES, Header, Kind, Status};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What to do with a request.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Reply so, after so long, so many times.
    Reply { status: Status, after: Nanos, times: usize },
    /// Say nothing.
    Drop,
    /// Hear nothing for so long, then reply.
    Stall(Nanos),
}

/// A good answer, at once.
pub const ANSWER: Act = Act::Reply { status: Status::Ok, after: Nanos::ZERO, times: 1 };

/// A server in a thread; it stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Header>>>,
}

impl Server {
    /// Starts a server that asks `act` about each request, in the order of their arrival.
    pub fn start(act: impl FnMut(&Header) -> Act + Send + 'static) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).expect("a receive buffer");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let address = socket.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&socket, act, &stopped));
        Server { address, stop, thread: Some(thread) }
    }

    /// Stops and returns every request it heard, in the order of their arrival.
    pub fn stop(mut self) -> Vec<Header> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("not stopped yet").join().expect("the server does not panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve(socket: &UdpSocket, mut act: impl FnMut(&Header) -> Act, stop: &AtomicBool) -> Vec<Header> {
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
        let (status, after, times) = match act(&request) {
            Act::Drop => continue,
            Act::Reply { status, after, times } => (status, after, times),
            Act::Stall(time) => {
                std::thread::sleep(time.into());
                (Status::Ok, Nanos::ZERO, 1)
            }
        };
        let reply = Header { kind: Kind::Reply, status, ..request }.emit().to_vec();
        for _ in 0..times {
            pending.push(Reverse((clock::now().plus(after), client, reply.clone())));
        }
    }
    heard
}

/// What a run left behind.
pub struct Run {
    pub output: Output,
    pub json: Value,
}

impl Run {
    /// A number of the JSON report.
    pub fn number(&self, pointer: &str) -> f64 {
        let value = self.json.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {:#}", self.json));
        value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}, no number"))
    }
}

/// Runs `loadgen run` against `server` with `flags`, separated by blanks.
pub fn run(server: &Server, flags: &str) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let output = loadgen()
        .args(["run", "--quiet", "--target", &server.address.to_string(), "--json"])
        .arg(&file)
        .args(flags.split_whitespace())
        .output()
        .expect("loadgen runs");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    Run { output, json: serde_json::from_str(&text).expect("JSON") }
}

/// The binary under test.
pub fn loadgen() -> std::process::Command {
    std::process::Command::new(env!("CARGO_BIN_EXE_loadgen"))
}
