//! Do messages reach their shard, in order, from other shards and from threads, while a server runs
//! and while it drains? Is each shard that asks for it told of a stop?

use crate::support::prelude::*;
use forebay::handler::Teller;
use forebay::{Event, Out, Service};

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

fn pass(teller: &Teller, from: usize, baton: Baton) {
    assert!(teller.tell(from + 1, baton).is_ok(), "there is room");
}

impl Service for Relay {
    type Ticket = ();
    /// Its number.
    type Shard = usize;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;

    fn shard(&self, number: usize) -> usize {
        number
    }

    async fn handle(&self, number: &mut usize, event: Event<'_>, out: &mut Out<'_>) {
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
            Event::Message(message) => {
                checkpoint().await;
                let Baton(more) = *message.downcast().expect("a baton");
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
        assert_eq!(service.over.load(Ordering::SeqCst), BATONS, "{policy}");
        assert_eq!(service.stopped.lock().expect("no panic").len(), SHARDS, "{policy}");
        let (fates, events) = (report.totals.fates, report.totals.counts.counted.shard_events);
        assert_eq!(
            (fates.no_reply, fates.received, report.packets_away),
            (fates.received, fates.received, 0),
            "{policy}"
        );
        assert!(fates.received == BATONS as u64 + events.iter().sum::<u64>(), "{policy}: {events:?} of {fates:?}");
    }
}
