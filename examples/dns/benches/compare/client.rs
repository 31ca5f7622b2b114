//! An open-loop client: each question is sent at its scheduled time, whether or not earlier ones
//! were answered. Latency counts from the scheduled time.

use forebay::time::{Nanos, clock};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Questions of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    rate: f64,
    signed: bool,
}

/// The result of one load. Latencies are in nanoseconds from the scheduled time.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    latencies: Vec<u64>,
}

/// The most outstanding questions of a flow. A number has 16 bits, and must not be used again too
/// soon.
const NUMBERS: usize = 1 << 16;

/// Plain questions: addresses, an alias, a wildcard, a name that does not exist, a delegation.
const PLAIN: [&str; 6] = ["www", "mail", "alias", "any.star", "no", "www.child"];

impl Load {
    /// Questions without signatures.
    pub(crate) fn plain(rate: f64) -> Load {
        Load { rate, signed: false }
    }

    /// Questions whose answers need a signature that is not known yet.
    pub(crate) fn signed(rate: f64) -> Load {
        Load { rate, signed: true }
    }

    /// Outstanding questions of one flow under [`flood`]. For signatures it is a quarter. A server
    /// sheds questions that would wait behind 128 others, and each of these costs the client a
    /// timeout.
    fn window(self) -> u64 {
        if self.signed { 8 } else { 32 }
    }

    fn question(self, id: u16, number: u64) -> Vec<u8> {
        let name = match self.signed {
            // A name that was never asked for, neither in this run nor in another one.
            true => format!("x{}-{number}.star", clock::realtime().get()),
            false => PLAIN[number as usize % PLAIN.len()].to_owned(),
        };
        let mut message = [&id.to_be_bytes()[..], b"\0\0\0\x01\0\0\0\0\0\0"].concat();
        for label in name.split('.').chain(["example", "test", ""]) {
            message.push(label.len() as u8);
            message.extend(label.as_bytes());
        }
        message.extend(b"\0\x01\0\x01");
        if self.signed {
            message[11] = 1;
            message.extend(b"\0\0\x29\x04\xd0\0\0\x80\0\0\0");
        }
        message
    }
}

impl Outcome {
    /// The latency in microseconds that this share of the questions does not exceed. Infinite if
    /// too many were not answered.
    pub(crate) fn percentile(&mut self, quantile: f64) -> f64 {
        self.latencies.sort_unstable();
        let rank = (self.sent as f64 * quantile).ceil() as usize;
        self.latencies.get(rank.max(1) - 1).map_or(f64::INFINITY, |nanos| *nanos as f64 / 1e3)
    }
}

/// Sends each load to `server` for `duration`, over 8 flows with a socket each. Returns one outcome
/// for each load. A question without an answer one second after the end counts as lost.
pub(crate) fn run(server: SocketAddr, loads: &[Load], duration: Nanos) -> Vec<Outcome> {
    thread::scope(|scope| {
        let running: Vec<_> = loads.iter().map(|load| scope.spawn(|| one(server, *load, duration))).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

const FLOWS: usize = 8;

/// For `duration`, asks `server` questions of the kind of `load` as fast as it answers. Each flow
/// asks the next questions when it has all answers to the last ones. Returns the number of answers,
/// without failures.
pub(crate) fn flood(server: SocketAddr, load: Load, duration: Nanos) -> u64 {
    let end = clock::now().plus(duration);
    let flow = || {
        let socket = connected(server);
        let (mut answered, mut answer) = (0, [0; 4_096]);
        while clock::now() < end {
            for number in 0..load.window() {
                let _ = socket.send(&load.question(number as u16, number));
            }
            // A lost question costs the time of a timeout.
            let mut next = || socket.recv(&mut answer).ok().map(|length| is_whole(&answer[..length]));
            answered += (0..load.window()).map_while(|_| next()).filter(|is_whole| *is_whole).count() as u64;
        }
        answered
    };
    thread::scope(|scope| {
        let flows: Vec<_> = (0..FLOWS / 2).map(|_| scope.spawn(flow)).collect();
        flows.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn connected(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.connect(server).expect("a local address");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout above zero");
    socket
}

fn one(server: SocketAddr, load: Load, duration: Nanos) -> Outcome {
    let sockets: Vec<UdpSocket> = (0..FLOWS).map(|_| connected(server)).collect();
    // The scheduled time of each question, by flow and number.
    let intended: Vec<Vec<AtomicU64>> = (0..FLOWS).map(|_| (0..NUMBERS).map(|_| AtomicU64::new(0)).collect()).collect();
    prioritize();
    let began = clock::now().plus(Nanos::from_millis(20));
    let end = began.plus(duration);
    let patience = end.plus(Nanos::from_secs(1));
    thread::scope(|scope| {
        let receivers: Vec<_> = sockets
            .iter()
            .zip(&intended)
            .map(|(socket, intended)| scope.spawn(move || receive(socket, intended, patience)))
            .collect();
        let mut sent = 0;
        loop {
            let due = began.plus(Nanos::new((sent as f64 / load.rate * 1e9) as u64));
            if due >= end {
                break;
            }
            let wait = due.minus(clock::now());
            if wait > Nanos::ZERO {
                thread::sleep(wait.into());
            }
            let (flow, id) = (sent as usize % FLOWS, (sent / FLOWS as u64) as u16);
            // Ordering: relaxed, because the socket orders it.
            intended[flow][usize::from(id)].store(due.get(), Ordering::Relaxed);
            let message = load.question(id, sent);
            // A refused send counts as an unanswered question.
            let _ = sockets[flow].send(&message);
            sent += 1;
        }
        let latencies: Vec<u64> = receivers.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        Outcome { sent, answered: latencies.len() as u64, latencies }
    })
}

/// Whether an answer is complete, and reports neither a refusal nor a failure.
fn is_whole(answer: &[u8]) -> bool {
    answer.len() > 12 && answer[2] & 2 == 0 && matches!(answer[3] & 0xf, 0 | 3)
}

fn receive(socket: &UdpSocket, intended: &[AtomicU64], patience: Nanos) -> Vec<u64> {
    let (mut latencies, mut answer) = (Vec::new(), [0; 4_096]);
    while clock::now() < patience {
        let Ok(length) = socket.recv(&mut answer) else { continue };
        let now = clock::now().get();
        if is_whole(&answer[..length]) {
            let due = intended[usize::from(u16::from_be_bytes([answer[0], answer[1]]))].swap(0, Ordering::Relaxed);
            if due > 0 {
                latencies.push(now.saturating_sub(due));
            }
        }
    }
    latencies
}

/// Gives the calling thread, and threads that it starts, priority over the servers. On a machine
/// with few CPUs, the client would otherwise measure its own waiting.
pub(crate) fn prioritize() -> bool {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).is_ok()
}
