//! Is a request that a connection brings to a handler the same as one that a datagram brings?

use forebay::fate::Refused;
use forebay::handler::{Carried, GiveUp, Served};
use forebay::{Event, Out, Service};
use std::convert::Infallible;
use support::prelude::*;

/// The class that the handler gives a request while it serves it.
const LATER: u8 = 3;

/// Treats each request as its first byte says.
struct Kinds {
    gate: Arc<AtomicBool>,
}

impl Handler for Kinds {
    type Ticket = u8;

    const REASON_NAMES: &'static [&'static str] = &["network", "upstream"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<u8>, Rejected<u8>> {
        let kind = arrival.bytes()[0];
        let admitted = Admitted::new(kind).class(1);
        match kind {
            b'm' => Err(Rejected::Malformed(Malformed::Version)),
            b'i' => Err(Rejected::Ignored.because(0)),
            b'r' => Err(Rejected::Refused(admitted, Refused::UnknownClass)),
            b'b' => Err(Rejected::Refused(admitted, Refused::Other).because(1)),
            b'o' => Err(Rejected::OverRate(admitted)),
            b'a' => std::panic::resume_unwind(Box::new(())),
            b'd' => Ok(admitted.deadline(Nanos::from_millis(20))),
            b'l' => Ok(admitted.deadline(Nanos::from_secs(3_600))),
            _ => Ok(admitted),
        }
    }

    async fn handle(&self, request: Request<'_, u8>, reply: &mut Reply<'_>) {
        assert_eq!((request.bytes()[0], request.class()), (*request.ticket(), 1));
        assert_eq!(request.expires_at().is_some(), matches!(request.ticket(), b'd' | b'l'));
        match request.ticket() {
            b'n' => {}
            b'p' => std::panic::resume_unwind(Box::new(())),
            b'v' => drop(reply.put(&[0; 70_000])),
            b'g' => reply.give_up(GiveUp::Refused, 1),
            b'f' => reply.give_up(GiveUp::Failed, 9),
            b'u' => reply.give_up(GiveUp::Full, 0),
            b'w' | b'd' => {
                while !self.gate.load(Ordering::SeqCst) {
                    checkpoint().await;
                }
            }
            b'c' => {
                reply.set_class(LATER);
                reply.put(request.bytes()).expect("as long");
            }
            _ => reply.put(request.bytes()).expect("as long"),
        }
    }

    fn refuse(&self, request: Request<'_, u8>, unserved: Unserved, reply: &mut Reply<'_>) {
        assert!(request.bytes().len() >= 2);
        reply.put(&[b'0' + unserved.status as u8]).expect("shorter");
    }

    fn seal(&self, request: Request<'_, u8>, served: &Served, reply: &mut [u8]) {
        assert!(served.service > Nanos::ZERO && served.worker < 2);
        match request.ticket() {
            b's' => *reply.last_mut().expect("it is not empty") = b'S',
            b'x' => std::panic::resume_unwind(Box::new(())),
            _ => {}
        }
    }
}

/// Gives what each datagram brings to the handler. What it replies goes to the last client.
struct Carries {
    kinds: Arc<Kinds>,
    /// The client's interest in requests, until a datagram "!" comes.
    wanted: Mutex<Option<Arc<()>>>,
}

impl Service for Carries {
    type Ticket = ();
    type Shard = Option<SocketAddr>;
    type Message = Infallible;

    const SHARDS: usize = 1;
    const REASON_NAMES: &'static [&'static str] = <Kinds as Handler>::REASON_NAMES;

    fn shard(&self, _: usize) -> Option<SocketAddr> {
        None
    }

    async fn handle(&self, client: &mut Option<SocketAddr>, event: Event<'_>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) if request.bytes() == b"!" => {
                self.wanted.lock().expect("no panic").take();
            }
            Event::Datagram(request) => {
                *client = Some(request.peer());
                let carried = Carried::new(request.bytes().to_vec(), request.peer(), request.local());
                let wanted = self.wanted.lock().expect("no panic").as_ref().map(Arc::downgrade);
                out.serve(7, &self.kinds, carried.wanted(wanted.expect("it is wanted"))).expect("there is room");
            }
            Event::Replied { key: 7, reply } if !reply.is_empty() => {
                let to = client.expect("a client asked");
                out.send(to, forebay::handler::Transmit::new(&reply).validated()).expect("there is room");
            }
            Event::Replied { key: 7, .. } | Event::Unfinished { key: 7, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn carries(gate: &Arc<AtomicBool>) -> Carries {
    Carries { kinds: Arc::new(Kinds { gate: Arc::clone(gate) }), wanted: Mutex::new(Some(Arc::new(()))) }
}

// Has it the same answer, fate, reason and class, however it ends? Method: each kind of request
// once, in a datagram, and over a service that carries it. Only the server answers what it sheds.
#[test]
fn a_carried_request_ends_as_that_of_a_datagram() {
    let gate = Arc::new(AtomicBool::new(false));
    for (policy, workers) in [("levels", "1"), ("auto", "2"), ("pools", "2")] {
        let settings = [("policy", policy), ("workers", workers)];
        let plain = Running::on(bound(&settings), Kinds { gate: Arc::clone(&gate) });
        let carried = Running::on(bound(&settings), carries(&gate));
        let (by_datagram, by_service) = (client(&plain), client(&carried));
        for kind in ["m-", "i-", "n-", "x-", "a-"] {
            by_datagram.send(kind.as_bytes()).expect("the server's port is open");
            by_service.send(kind.as_bytes()).expect("the server's port is open");
        }
        for (kind, answer) in [
            ("e-", Some("e-")),
            ("l-", Some("l-")),
            ("c-", Some("c-")),
            ("s-", Some("sS")),
            ("r-", Some("1")),
            ("b-", Some("1")),
            ("g-", Some("1")),
            ("p-", Some("6")),
            ("v-", Some("6")),
            ("f-", Some("6")),
            ("o-", None),
            ("u-", None),
            ("d-", None),
        ] {
            let told = ask_from(&by_datagram, kind);
            match answer {
                Some(answer) => {
                    assert_eq!((told.as_str(), ask_from(&by_service, kind).as_str()), (answer, answer), "{policy}");
                }
                None => drop(by_service.send(kind.as_bytes()).expect("the server's port is open")),
            }
        }
        let asked = 18;
        plain.quiescent(asked);
        let begun = || metric(&page(carried.admin, "/metrics"), "forebay_shard_events_total{kind=\"begun\"}");
        await_until(|| begun() == asked as f64 && fates(&latency(carried.admin)).in_flight == 0, "all end");
        for admin in [plain.admin, carried.admin] {
            let total = &latency(admin)["since_start"]["total"];
            assert_eq!(total[format!("class{LATER}")]["count"], 1, "{policy}: {total}");
        }
        let (plain, carried) = (plain.stop().totals, carried.stop().totals);
        for fate in Fate::ALL.into_iter().filter(|fate| *fate != Fate::Handled) {
            // The datagrams themselves had no reply.
            let more = if fate == Fate::NoReply { asked } else { 0 };
            assert_eq!(carried.fates.of(fate), plain.fates.of(fate) + more, "{policy}: {}", fate.name());
        }
        let (own, theirs) = (&plain.counts.counted, &carried.counts.counted);
        assert_eq!(own.malformed, theirs.malformed, "{policy}");
        assert_eq!((own.refused, own.expired, own.failed), (theirs.refused, theirs.expired, theirs.failed), "{policy}");
        assert_eq!(plain.counts.rejected, carried.counts.rejected, "{policy}");
    }
}

// Does heavy work end where it pauses, once no client waits for it?
#[test]
fn what_nobody_wants_ends_early() {
    let gate = Arc::new(AtomicBool::new(false));
    let server = Running::on(bound(&[("policy", "levels"), ("workers", "1")]), carries(&gate));
    let client = client(&server);
    client.send(b"w-").expect("the server's port is open");
    assert_eq!(ask_from(&client, "e-"), "e-");
    let before = fates(&latency(server.admin));
    assert_eq!(before.in_flight, 1, "{before:?}");
    client.send(b"!").expect("the server's port is open");
    await_until(|| fates(&latency(server.admin)).in_flight == 0, "it ends");
    let after = server.stop().totals.fates;
    assert_eq!((after.no_reply, after.answered), (before.no_reply + 2, 1), "{after:?}");
}
