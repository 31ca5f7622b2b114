//! Do messages reach their shard, in order, from other shards and from threads, while a server runs
//! and while it drains? Is each shard that asks for it told of a stop? Does each get what its
//! predecessor handed over?

use forebay::handler::{Once, Teller};
use forebay::{Event, Out, Server, Service};
use support::prelude::*;

const SHARDS: usize = 8;

/// A request begins a message that goes from shard to shard, as often as the second byte says. If
/// the first byte is 't', another thread sends it.
#[derive(Clone, Default)]
struct Relay {
    /// The number of messages sent for requests, and the number that have ended.
    begun: Arc<AtomicUsize>,
    over: Arc<AtomicUsize>,
    /// The numbers of the shards that have heard of the stop.
    stopped: Arc<Mutex<BTreeSet<usize>>>,
}

/// How many more shards the message visits.
struct Baton(u8);

fn pass(teller: &Teller<Baton>, from: usize, baton: Baton) {
    assert!(teller.tell(from + 1, baton).is_ok(), "there is room");
}

impl Service for Relay {
    type Ticket = ();
    /// Its number.
    type Shard = usize;
    type Message = Baton;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;

    fn shard(&self, number: usize) -> usize {
        number
    }

    async fn handle(&self, number: &mut usize, event: Event<'_, (), Baton>, out: &mut Out<'_, Baton>) {
        assert_eq!(out.shard(), *number);
        let (teller, from) = (out.teller(), *number);
        match event {
            Event::Datagram(request) => {
                let (baton, begun) = (Baton(request.bytes()[1]), Arc::clone(&self.begun));
                let begin = move || {
                    pass(&teller, from, baton);
                    begun.fetch_add(1, Ordering::SeqCst);
                };
                if request.bytes()[0] == b't' { drop(thread::spawn(begin)) } else { begin() }
            }
            Event::Message(Baton(more)) => {
                checkpoint().await;
                match more {
                    0 => _ = self.over.fetch_add(1, Ordering::SeqCst),
                    _ => pass(&teller, from, Baton(more - 1)),
                }
            }
            Event::Stopping => {
                let first = self.stopped.lock().expect("no panic").insert(*number);
                assert!(first, "each shard hears of it once");
            }
            _ => unreachable!("there are no other events"),
        }
    }
}

// Do messages arrive under every policy, and end with a fate? Method: messages go round while the
// server stops.
#[test]
fn messages_reach_their_shard_also_while_a_server_drains() {
    const BATONS: usize = 32;
    for policy in policies() {
        let service = Relay::default();
        let server = Running::on(bound(&sized(policy, 4)), service.clone());
        let client = client(&server);
        for number in 0..BATONS {
            client.send(&[b"wt"[number % 2], 200, 0, 0]).expect("the server's port is open");
        }
        await_until(|| service.begun.load(Ordering::SeqCst) == BATONS, policy);
        let report = server.stop();
        assert_eq!(service.over.load(Ordering::SeqCst), BATONS, "{policy}: {:?}", report.totals.fates);
        assert_eq!(service.stopped.lock().expect("no panic").len(), SHARDS, "{policy}");
        let events = report.totals.counts.counted.shard_events.iter().sum::<u64>();
        let (received, no_reply) = (BATONS as u64 + events, BATONS as u64);
        assert_eq!(report.totals.fates, fates! { received, no_reply, handled: events }, "{policy}");
        assert_eq!(report.packets_away, 0, "{policy}");
    }
}

/// Each shard is told once, at the start, and notes the number that it is told.
#[derive(Clone, Default)]
struct Told {
    numbers: Arc<Mutex<Vec<(usize, usize)>>>,
    teller: Arc<Mutex<Option<Teller<usize>>>>,
}

impl Service for Told {
    type Ticket = ();
    type Shard = ();
    type Message = usize;

    const SHARDS: usize = SHARDS;

    fn shard(&self, _: usize) {}

    fn started(&self, teller: &Teller<usize>) {
        (0..SHARDS).for_each(|shard| teller.tell(shard, shard + 1).expect("there is room"));
        *self.teller.lock().expect("no panic") = Some(teller.clone());
    }

    async fn handle(&self, (): &mut (), event: Event<'_, (), usize>, out: &mut Out<'_, usize>) {
        if let Event::Message(number) = event {
            self.numbers.lock().expect("no panic").push((out.shard(), number));
        }
    }
}

// Does a service reach its shards before the first request, from within the call and with the
// teller that it keeps, also below a wrapper?
#[test]
fn a_service_reaches_its_shards_before_the_first_request() {
    let service = Told::default();
    let server = Running::on(bound(&[]), Once::new(service.clone()));
    let numbers = || service.numbers.lock().expect("no panic").clone();
    await_until(|| numbers().len() == SHARDS, "shards are not told");
    let teller = service.teller.lock().expect("no panic").take().expect("it has started");
    teller.tell(3, 100).expect("there is room");
    await_until(|| numbers().len() > SHARDS, "a shard is not told");
    let mut told = numbers();
    told.sort_unstable();
    let first: Vec<_> = (0..SHARDS).map(|shard| (shard, shard + 1)).collect();
    let mut expected = [first, vec![(3, 100)]].concat();
    expected.sort_unstable();
    assert_eq!(told, expected);
    let handled = SHARDS as u64 + 1;
    server.ends_as(fates! { received: handled, handled }, "all are messages");
    // One that has stopped takes no more.
    assert!(teller.tell(3, 101).is_err());
}

/// Each shard notes what it gets. There are more of them than packets, so some hear of the start
/// late.
#[derive(Clone, Default)]
struct Noting {
    noted: Arc<Mutex<BTreeMap<usize, Vec<u8>>>>,
}

const MANY: usize = 16_384;

impl Service for Noting {
    type Ticket = ();
    type Shard = ();
    type Message = ();

    const SHARDS: usize = MANY;
    const HEARS_START: bool = true;

    fn shard(&self, _: usize) {}

    fn started(&self, teller: &Teller<()>) {
        teller.tell(MANY - 1, ()).expect("there is room");
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::default().shard(MANY as u32 - u32::from(arrival.bytes()[0])))
    }

    async fn handle(&self, (): &mut (), event: Event<'_, (), ()>, out: &mut Out<'_, ()>) {
        let what = match event {
            Event::Starting => b's',
            Event::Timer { .. } => b't',
            Event::Message(()) => b'm',
            Event::Datagram(_) => b'd',
            _ => unreachable!("there are no other events"),
        };
        self.noted.lock().expect("no panic").entry(out.shard()).or_default().push(what);
        if what == b's' {
            out.at(0, clock::instant(clock::now())).expect("there is room");
        }
    }
}

// Does each shard hear of the start before it gets anything else, also below a wrapper? Method:
// requests wait in the socket when the workers begin. Can a shard set a timer then?
#[test]
fn each_shard_hears_of_the_start_first() {
    for policy in policies() {
        let service = Noting::default();
        let bound = bound(&sized(policy, 4));
        let client = client_of(bound.udp_address());
        // To the last shards.
        (1..=SHARDS as u8).for_each(|shard| assert_eq!(client.send(&[shard, 0]).expect("it is bound"), 2));
        let server = Running::on(bound, Once::new(service.clone()));
        let noted = || service.noted.lock().expect("no panic").clone();
        await_until(|| noted().values().flatten().count() == 2 * MANY + SHARDS + 1, policy);
        server.stop();
        for (shard, mut all) in noted() {
            assert_eq!(all[0], b's', "{policy}, shard {shard}: {all:?}");
            all.sort_unstable();
            let expected = if shard < MANY - SHARDS { &b"st"[..] } else { b"dst" };
            assert_eq!(all, if shard == MANY - 1 { b"dmst" } else { expected }, "{policy}, shard {shard}");
        }
    }
}

/// Each shard counts the requests whose second byte is 1, also those of servers before. A reply has
/// the count.
#[derive(Clone, Default)]
struct Counting {
    /// How many shards could not hand over.
    alone: Arc<AtomicUsize>,
}

impl Service for Counting {
    type Ticket = ();
    type Shard = u64;
    type Message = std::convert::Infallible;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;

    fn shard(&self, _: usize) -> u64 {
        0
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::default().shard(arrival.bytes()[0].into()))
    }

    async fn handle(&self, count: &mut u64, event: Event<'_>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) => {
                *count += u64::from(request.bytes()[1]);
                assert!(out.hand_over(vec![1]).is_err(), "the server does not stop");
                out.reply().put(count.to_string().as_bytes()).expect("there is room");
            }
            Event::HandedOver(state) => *count += u64::from_be_bytes(state[..].try_into().expect("a count")),
            Event::Stopping => {
                let handed_over = out.hand_over(count.to_be_bytes().to_vec());
                self.alone.fetch_add(handed_over.is_err().into(), Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

// Method: three servers follow one another at one address. The first two hand over, and the last
// one has no successor. Shard `n` gets `n` requests from each.
#[test]
fn the_shards_of_a_successor_get_the_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let counting = Counting::default();
    let start = |udp| {
        let server = Server::builder().listen(udp).admin(SocketAddr::from(([127, 0, 0, 1], 0))).workers(2);
        let server = server.set("handover", path.to_str().expect("text")).bind().expect("a server");
        let (udp, stop, counting) = (server.udp_address(), server.stop_handle(), counting.clone());
        (udp, stop, thread::spawn(move || server.run(&counting)))
    };
    let (udp, mut stop, mut running) = start(listen().parse().expect("an address"));
    let client = client_of(udp);
    let ask = |shard: u8, more: u8| ask_from(&client, [shard, more]);
    for server in 1..=3 {
        for shard in 1..SHARDS as u8 {
            (0..shard).for_each(|_| drop(ask(shard, 1)));
        }
        if server < 3 {
            let (_, stop_successor, successor) = start(udp);
            running.join().expect("no panic").expect("it hands over and ends");
            (stop, running) = (stop_successor, successor);
        }
    }
    assert_eq!(counting.alone.load(Ordering::SeqCst), 0, "each shard had a successor");
    // The state arrives once the server before has ended.
    for shard in 0..SHARDS as u8 {
        await_until(|| ask(shard, 0) == (3 * shard).to_string(), "the state does not arrive");
    }
    stop.stop();
    running.join().expect("no panic").expect("it ends");
    assert_eq!(counting.alone.load(Ordering::SeqCst), SHARDS);
}
