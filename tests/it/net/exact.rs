//! Is every datagram of a flood accounted for: good, malformed and from port 0, even if the server
//! stops during the flood? Method: three senders overflow the sockets. Each datagram must be
//! received, dropped by a socket, or returned after a stop. A tenth of the full size:
//! `FOREBAY_FLOOD=400000 cargo test --test it exact:: -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use super::returned::{ask_for_returned, await_returned, returned};
use forebay::metrics::Snapshot;
use std::os::fd::{AsFd, BorrowedFd};
use support::prelude::*;

fn flood_size() -> u64 {
    let size = env::var("FOREBAY_FLOOD").map(|size| size.parse().expect("FOREBAY_FLOOD is a number of datagrams"));
    size.unwrap_or(40_000)
}

fn server(policy: &str, io: &str, listen: &str) -> Running {
    let settings = [("policy", policy), ("workers", "2"), ("io", io), ("listen", listen)];
    run_scripted(&settings).0
}

enum Sender {
    Good(Client),
    Malformed(Client),
    PortZero(Raw),
}

/// A sender of each kind. The one from port 0 needs IPv4 and the right to open raw sockets. Its
/// address depends on `number`.
fn senders(server: SocketAddr, number: u8) -> Vec<Sender> {
    let mut senders = vec![Sender::Good(Client::new(server)), Sender::Malformed(Client::new(server))];
    if let SocketAddr::V4(server) = server {
        // Its own address, so that only its own datagrams are returned to it.
        let nobody = SocketAddrV4::new(Ipv4Addr::new(127, 99, 99, 99 + number), 0);
        match Raw::new(nobody, server) {
            Ok(raw) => {
                raw.socket.bind(&nobody.into()).expect("a loopback address");
                raw.socket.connect(&server.into()).expect("a local address");
                senders.push(Sender::PortZero(raw));
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                skip(format_args!("without a sender of port 0, raw sockets are not permitted here ({error})"));
            }
            Err(error) => panic!("{error}"),
        }
    }
    senders
}

impl Sender {
    fn send(&self, number: u64) -> io::Result<()> {
        // Serving takes longer than sending, and has no checkpoint.
        let good = |number| message(&Header::request(number, 0, Nanos::from_micros(50)), &[Act::Block as u8]);
        match self {
            Sender::Good(client) => client.socket.send(&good(number)).map(drop),
            // Too short, too long, and of another protocol.
            Sender::Malformed(client) => match number % 3 {
                0 => client.socket.send(&good(number)[..20]).map(drop),
                1 => client.socket.send(&[&good(number)[..], &[0; 3_000]].concat()).map(drop),
                _ => client.socket.send(&[7; 100]).map(drop),
            },
            Sender::PortZero(raw) => raw.send(&good(number)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Sender::Good(_) => "good",
            Sender::Malformed(_) => "malformed",
            Sender::PortZero(_) => "from port 0",
        }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Sender::Good(client) | Sender::Malformed(client) => client.socket.as_fd(),
            Sender::PortZero(raw) => raw.socket.as_fd(),
        }
    }

    /// Sends and counts in `sent`, for at most a test's patience. It also ends when a datagram is
    /// returned, which the socket reports once instead of a send.
    fn flood(&self, sent: &AtomicU64) {
        let end = clock::now().plus(GIVE_UP_AFTER);
        while clock::now() < end {
            match self.send(sent.load(Ordering::Relaxed)) {
                Ok(()) => sent.fetch_add(1, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                Err(error) => panic!("{error}"),
            };
        }
    }
}

fn overflowed(server: &Running) -> bool {
    fates(&latency(server.admin)).kernel_dropped > Some(0)
}

/// Prints how many each sender sent and how the server counted them, and checks that the sockets
/// overflowed. Returns the sum.
fn tell(run: &str, senders: &[Sender], sent: &[AtomicU64], totals: &Snapshot) -> u64 {
    let sent: Vec<u64> = sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect();
    let kinds: Vec<_> = senders.iter().zip(&sent).map(|(sender, sent)| format!("{sent} {}", sender.kind())).collect();
    let (sum, fates) = (sent.iter().sum(), &totals.fates);
    let from_port_zero = totals.counts.counted.malformed[Malformed::SourcePort as usize];
    println!("{run}: sent {sum}: {}; received from port 0: {from_port_zero}; {fates:?}", kinds.join(", "));
    assert_adds_up(fates);
    assert!(fates.kernel_dropped > Some(0), "{run}: no flood");
    let any = senders.iter().any(|sender| matches!(sender, Sender::PortZero(_)));
    assert!((from_port_zero > 0) == any, "{run}: from port 0");
    sum
}

/// Sends the first datagram of every sender to the idle server, which receives all of them. In a
/// flood the sockets may drop all datagrams of one kind. Returns how many each has sent.
fn first_datagrams(server: &Running, senders: &[Sender]) -> Vec<AtomicU64> {
    senders.iter().for_each(|sender| sender.send(0).expect("a server that listens"));
    let fates = server.quiescent(senders.len() as u64);
    assert_eq!((fates.answered, fates.malformed), (1, senders.len() as u64 - 1), "{fates:?}");
    senders.iter().map(|_| AtomicU64::new(1)).collect()
}

// Each policy with one way of datagrams, and each way with some policies. Policies and ways share
// no code.
#[test]
fn a_flood_that_outlasts_its_server_is_accounted_for() {
    let ways = ["batches", "gro"].into_iter().cycle();
    let cases: Vec<_> = policies().zip(ways).enumerate().collect();
    // Servers that mostly sleep may run in parallel.
    at_once(cases.chunks(4), |cases| {
        cases.iter().for_each(|(number, (policy, io))| stop_in_a_flood(policy, io, *number as u8));
    });
}

fn stop_in_a_flood(policy: &str, io: &str, number: u8) {
    // Every second flood of GRO batches uses IPv6.
    let listen = if number % 6 == 1 { "[::1]:0".to_owned() } else { listen() };
    let mut server = server(policy, io, &listen);
    let senders = senders(server.udp, number);
    let sent = first_datagrams(&server, &senders);
    senders.iter().for_each(|sender| ask_for_returned(&sender.socket()));
    let report = thread::scope(|scope| {
        for (sender, sent) in senders.iter().zip(&sent) {
            scope.spawn(move || sender.flood(sent));
        }
        let sum = || sent.iter().map(|sent| sent.load(Ordering::Relaxed)).sum::<u64>();
        await_until(|| sum() > flood_size() && overflowed(&server), "no flood");
        server.stop_handle().stop();
        server.join()
    });
    let sent = tell(&format!("{policy}, {io}, {listen}"), &senders, &sent, &report.totals);
    let fates = report.totals.fates;
    assert_eq!((fates.in_flight, report.packets_away), (0, 0), "{policy}: {fates:?}");
    let counted = fates.arrived().expect("drops that can be read");
    println!("stopped: {} of them found no socket any more, and must have come back", sent - counted);
    let came_back = || senders.iter().map(|sender| returned(&sender.socket())).sum();
    await_returned(sent, counted, came_back, &format!("{policy}: {fates:?}"));
}
