//! If a server with an active gate ends in any way, is every datagram counted? Method: senders of
//! twenty times the capacity of emulated cores. Each datagram must be received, dropped by the
//! kernel at the sockets, or returned.

use super::returned::{ask_for_returned, await_returned, returned};
use support::prelude::*;

/// Two workers serve 400 per second.
const COST: Nanos = Nanos::from_millis(5);
const FLAGS: [(&str, &str); 7] = [
    ("--policy", "steal"),
    ("--handler", "spin"),
    ("--burn", "sleep"),
    ("--overheads", "none"),
    ("--max-wait", "10ms"),
    ("--drain-timeout", "60s"),
    ("--shed-answers", "silence"),
];

struct Flood {
    senders: Vec<Client>,
    sent: AtomicU64,
    pauses: AtomicBool,
    over: AtomicBool,
}

impl Flood {
    fn at(addresses: &[SocketAddr]) -> Flood {
        let senders = senders(addresses);
        senders.iter().for_each(|client| ask_for_returned(&client.socket));
        Flood { senders, sent: AtomicU64::new(0), pauses: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Sends while `body` runs; returns the result of `body`.
    fn during<T>(&self, body: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            let _end = EndOf(&self.over);
            scope.spawn(|| {
                while !self.over.load(Ordering::SeqCst) {
                    if !self.pauses.load(Ordering::SeqCst) {
                        self.round();
                    }
                    thread::sleep(Nanos::from_millis(1).into());
                }
            });
            body()
        })
    }

    fn round(&self) {
        let request = message(&Header::request(0, 0, COST), b"");
        for client in self.senders.iter().cycle().take(8) {
            match client.socket.send(&request) {
                Ok(_) => drop(self.sent.fetch_add(1, Ordering::SeqCst)),
                // A datagram was returned, which the socket reports once instead of a send. A
                // socket has room for 100 such errors.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => self.over.store(true, Ordering::SeqCst),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Checks that each datagram is one of `counted`, or was returned.
    fn check(&self, counted: u64, what: &str) {
        let sent = self.sent.load(Ordering::SeqCst);
        let came_back = || self.senders.iter().map(|client| returned(&client.socket)).sum();
        await_returned(sent, counted, came_back, what);
    }
}

fn senders(addresses: &[SocketAddr]) -> Vec<Client> {
    let each = |address: &SocketAddr| {
        let from_v4 = |to: SocketAddr| [1, 2].map(|k| Client::at(IpAddr::from([127, 8, k, 1]), to));
        match address {
            SocketAddr::V4(_) => Vec::from(from_v4(*address)),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
                let (v4, v6) = ((Ipv4Addr::LOCALHOST, v6.port()), (Ipv6Addr::LOCALHOST, v6.port()));
                from_v4(v4.into()).into_iter().chain([Client::new(v6.into())]).collect()
            }
            SocketAddr::V6(_) => vec![Client::new(*address)],
        }
    };
    addresses.iter().flat_map(each).collect()
}

fn is_on(state: &Value) -> bool {
    let (gate, dropped) = (&state["gate"], &state["fates"]["kernel_dropped"]);
    assert!(gate["dropped_at_least"].as_u64() <= dropped.as_u64(), "{gate} of {dropped}");
    gate["limited_prefixes"].as_u64() > Some(0)
}

fn await_gate(admin: SocketAddr, on: bool) {
    await_until(|| is_on(&latency(admin)) == on, &format!("the gate is not {}", if on { "on" } else { "open" }));
}

fn counted(said: &str) -> u64 {
    figure(said, "received") + figure(said, "kernel_dropped")
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    GateOn,
    GateChanged,
    GateOpened,
    HandedOver,
    Killed,
}

const STOPS: [Stop; 5] = [Stop::GateOn, Stop::GateChanged, Stop::GateOpened, Stop::HandedOver, Stop::Killed];

// Method: a network namespace, where no other program can take the port of a server that has ended.
#[test]
fn each_stop_counts_each_datagram() {
    if !in_own_network("net::stops::each_stop_counts_each_datagram") {
        return;
    }
    let places = [listen(), "[::1]:0".to_owned(), "[::]:0".to_owned(), format!("{},[::1]:0", listen())];
    at_once(places.into_iter().enumerate(), |(number, listen)| {
        let mut place = Place::new("spin");
        place.flags.retain(|(flag, _)| !FLAGS.iter().any(|(other, _)| other == flag));
        place.flags.extend(FLAGS.map(|(flag, value)| (flag, value.to_owned())));
        place.flags[0].1 = listen;
        for stop in STOPS {
            match stop {
                Stop::Killed if number == 0 => killed_with_held_sockets(),
                Stop::Killed => killed(&place),
                _ => stopped(&place, stop),
            }
        }
    });
}

/// A server stops during a flood; in a hand-over, its successor stops too.
fn stopped(place: &Place, stop: Stop) {
    let mut server = place.start();
    let (flood, admin, mut sum) = (Flood::at(&server.addresses), server.admin, 0);
    flood.during(|| {
        await_gate(admin, true);
        let share = latency(admin)["gate"]["share"].clone();
        match stop {
            Stop::GateChanged => await_until(|| latency(admin)["gate"]["share"] != share, "the same share"),
            Stop::GateOpened => {
                flood.pauses.store(true, Ordering::SeqCst);
                await_gate(admin, false);
                flood.pauses.store(false, Ordering::SeqCst);
            }
            Stop::HandedOver => {
                let successor = place.start();
                sum += counted(&std::mem::replace(&mut server, successor).ends_well());
                await_gate(admin, true);
            }
            Stop::GateOn | Stop::Killed => {}
        }
        let said = server.stop();
        assert!(figure(&said, "kernel_dropped") > 0, "{said}");
        sum += counted(&said);
    });
    flood.check(sum, &format!("{stop:?} at {}", place.flags[0].1));
}

/// A server is killed while its gate is active, and another one starts at the same addresses.
fn killed(place: &Place) {
    let first = place.start();
    let flood = Flood::at(&first.addresses);
    flood.during(|| await_gate(first.admin, true));
    let listen: Vec<_> = first.addresses.iter().map(SocketAddr::to_string).collect();
    first.signal(Signal::SIGKILL);
    first.end();
    let second = Forebay::spawn(&mut place.command(Some(("--listen", &listen.join(",")))));
    let gentle = all_pass(&second);
    let flood = Flood::at(&second.addresses);
    let said = flood.during(|| {
        await_gate(second.admin, true);
        second.stop()
    });
    flood.check(counted(&said) - gentle, &format!("killed at {}", listen.join(",")));
}

/// The same with sockets that outlive the server. The filters must not outlive it.
fn killed_with_held_sockets() {
    let held = Held::new(2);
    let flags = FLAGS.map(|(flag, value)| format!("{flag} {value}")).join(" ");
    let start = || Forebay::spawn(&mut held.command(2, "$$", &flags));
    let first = start();
    let flood = Flood::at(&[held.udp]);
    // The first cuts admit nearly all datagrams, and a gate opens soon after its flood ends.
    flood.during(|| {
        let share = || latency(held.admin)["gate"]["share"].as_f64().expect("a number");
        await_until(|| share() < 0.5, "the gate lets most in");
        first.signal(Signal::SIGKILL);
    });
    first.end();
    left(&held);
    (0..8).for_each(|_| flood.round());
    assert!(left(&held) < 64, "no filter outlives its process");
    let second = start();
    let gentle = all_pass(&second);
    let flood = Flood::at(&[held.udp]);
    flood.during(|| await_gate(held.admin, true));
    let said = second.stop();
    flood.check(counted(&said) + left(&held) - gentle, "killed with held sockets");
}

/// How many datagrams waited in the sockets. They are removed.
fn left(held: &Held) -> u64 {
    let copies = held.descriptors[..2].iter().map(|held| held.try_clone().expect("a descriptor"));
    copies
        .map(UdpSocket::from)
        .map(|socket| (0..).take_while(|_| socket.recv(&mut [0; 64]).is_ok()).count() as u64)
        .sum()
}

/// Sends requests, of which a gate that remained active would admit one in fifty; returns how many
/// were sent.
fn all_pass(server: &Forebay) -> u64 {
    let clients = senders(&server.addresses);
    clients.iter().cycle().take(100).for_each(|client| client.request(7, Nanos::ZERO, b""));
    assert_eq!(quiescent(server.admin, 100).kernel_dropped, Some(0));
    100
}
