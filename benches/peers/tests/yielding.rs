//! Does each peer that yields answer every request, and does no heavy request delay a light one?
//! Method: each peer serves on real CPUs. One socket sends requests to it, and the order of the
//! replies decides, not their time.

use forebay::inside::wire::{HEADER_BYTES, Header, Kind, Status};
use forebay::time::Nanos;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that is killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `command`, and connects a socket to it.
fn start(mut command: Command) -> (Server, UdpSocket) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the peer starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    let server = Server(child);
    BufReader::new(stdout).read_line(&mut line).expect("a first line");
    let address = line.trim().strip_prefix("listening on udp ").and_then(|rest| rest.strip_suffix(", admin none"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(address.unwrap_or_else(|| panic!("no address in {line:?}"))).expect("connected");
    // Only an upper bound: a test that passes takes far less.
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    (server, socket)
}

fn ours(shape: &str, threads: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.args(["__serve-peer", "--shape", shape, "--threads", &threads.to_string()]);
    command.args(["--work", "cpu", "--quantum-ns", "10000"]);
    command
}

/// Every peer that yields, on this many threads.
fn yielding(threads: usize) -> [(&'static str, Command); 2] {
    ["tokio-yield", "rayon-split"].map(|shape| (shape, ours(shape, threads)))
}

fn send(socket: &UdpSocket, id: u64, cost: Nanos) {
    socket.send(&Header::request(id, 0, cost).emit()).expect("sent");
}

fn reply(name: &str, socket: &UdpSocket) -> u64 {
    let mut buffer = [0; HEADER_BYTES];
    let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{name}: no reply: {error}"));
    let header = Header::parse(&buffer[..length]).expect("a header");
    assert_eq!((header.kind, header.status), (Kind::Reply, Status::Ok), "{name}");
    header.id
}

// Is each request of a mixed batch answered once, also after a pause in which the peer went to
// sleep? Do light requests then overtake heavy ones?
#[test]
fn every_request_is_answered_once_and_light_ones_pass_heavy_ones() {
    const REQUESTS: u64 = 300;
    for threads in [1, 2] {
        for (name, command) in yielding(threads) {
            let (_server, socket) = start(command);
            for id in 0..REQUESTS {
                // Less than a quantum, one quantum, some, and many.
                send(&socket, id, Nanos::from_micros([1, 10, 37, 1_000][id as usize % 4]));
            }
            let mut replies: Vec<u64> = (0..REQUESTS).map(|_| reply(name, &socket)).collect();
            replies.sort_unstable();
            assert_eq!(replies, Vec::from_iter(0..REQUESTS), "{name} on {threads}");
            std::thread::sleep(Duration::from_millis(50));
            send(&socket, REQUESTS, Nanos::from_micros(20));
            assert_eq!(reply(name, &socket), REQUESTS, "{name} on {threads}");
            // More heavy requests than threads. Each of them takes longer than all light ones
            // together.
            let heavy = 3;
            (0..heavy).for_each(|id| send(&socket, id, Nanos::from_millis(300)));
            (heavy..heavy + 20).for_each(|id| send(&socket, id, Nanos::from_micros(20)));
            let replies: Vec<u64> = (0..heavy + 20).map(|_| reply(name, &socket)).collect();
            assert!(replies[..20].iter().all(|id| *id >= heavy), "{name} on {threads}: {replies:?}");
        }
    }
}
