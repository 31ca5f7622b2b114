//! Does each datagram of a train have a fate for which no packet is left? Method: a train that is longer than there are packets, with
//! nothing else that comes, in virtual time. A train leaves its socket as a whole, as a GRO batch does.

use super::handler::{HEADER, MAGIC, Scripted};
use super::run::Ends;
use super::scenario::{Event, Scenario};
use super::server::explore;
use crate::fate::Fate;
use crate::lab::sim::Rest;
use crate::sched::Tuning;
use crate::sched::bounds::BATCH;
use crate::sched::overload::QueueBounds;
use crate::time::Nanos;

const US: fn(u64) -> Nanos = Nanos::from_micros;

/// The fates of a train of so many datagrams, on a server with so many packets for them.
fn ends(train: usize, packets: usize) -> Ends {
    let request = [vec![MAGIC, 0, 0, 0], vec![1; 5]].concat();
    assert_eq!(request.len(), HEADER + 5);
    let scenario = Scenario {
        workers: 1,
        policy: Tuning::new(1, Nanos::ZERO).policy("isolated"),
        classified: false,
        rest: Rest::LOOKS,
        wake: Nanos::ZERO,
        step: Nanos::ZERO,
        // The thread that stops the server has a batch of its own.
        packets: BATCH + packets,
        queued: 2 * train,
        set_aside: [8, 8],
        socket_capacity: train,
        unsent_every: 0,
        odd_every: 0,
        trains: true,
        events: vec![(US(10), Event::Datagram(0, request)); train],
        waits: QueueBounds::NONE,
        drain: US(1_000),
    };
    explore(&scenario, &Scripted::default(), None, None).expect("the accounts balance, and nothing is in flight").ends
}

#[test]
fn the_rest_of_a_train_has_a_fate_without_a_packet() {
    for (train, packets) in [(20, 8), (50, 40), (20, 20)] {
        let ends = ends(train, packets);
        let shed = train.saturating_sub(packets) as u64;
        assert_eq!(ends[Fate::ShedQueueFull as usize], shed, "{train} datagrams, {packets} packets");
        assert_eq!(ends.iter().sum::<u64>(), train as u64, "{ends:?}");
    }
}
