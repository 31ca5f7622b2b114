//! What becomes of a chain of tasks for each packet when one packet in a thousand ends in two tasks of 20 ms?
//!
//! A packet of 1 to 1.1 kB is searched for the ends of its lines. Three tasks follow, each of 20 reads at random
//! places of 8 MiB. One packet in a thousand goes on with two tasks of 20 ms.

use super::chain::{ALL, Chain, Order, P99, Pools, Threads, compare};
use super::harness::{Draw, Size, operations};
use super::page::Answer;
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const QUESTION: &str = "What becomes of a chain of tasks for each packet when one packet in a thousand ends in two tasks of \
    20 ms?";

/// Packets for each one with long tasks.
const ONE_IN: usize = 1_000;
/// The scan, and three tasks of reads.
const LIGHT_TASKS: usize = 4;
const LONG_TASKS: usize = 2;
/// Operations of a long task.
const LONG: u64 = 15_500_000;

pub(crate) fn ask(size: Size) -> Answer {
    let data = Arc::new(Data::new(size));
    let ways = [
        ("one pool, FIFO", Threads::Bench(Order::Fifo), Pools::One),
        ("one pool, LIFO", Threads::Bench(Order::Lifo), Pools::One),
        ("pools 2 + 1, FIFO", Threads::Bench(Order::Fifo), Pools::TwoAndOne),
        ("pools 2 + 1, LIFO", Threads::Bench(Order::Lifo), Pools::TwoAndOne),
        ("Forebay's tasks, one pool", Threads::Forebay, Pools::One),
        ("Forebay's tasks, pools 2 + 1", Threads::Forebay, Pools::TwoAndOne),
    ];
    let ways = ways.map(|(name, threads, pools)| (name, threads, pools, Arc::clone(&data)));
    let compared = compare(size, "packets", size.of(10_000, 2_000), &ways);
    let [our_one, our_pools] = ["Forebay's tasks, one pool", "Forebay's tasks, pools 2 + 1"];
    let verdict = format!(
        "Pools of 2 + 1 have {} times the p99 of one pool, last in first out {} times that of first in first out; with our own \
         tasks pools have {} times, and take {} times as long for all packets.",
        compared.over("pools 2 + 1, FIFO", "one pool, FIFO", P99),
        compared.over("one pool, LIFO", "one pool, FIFO", P99),
        compared.over(our_pools, our_one, P99),
        compared.over(our_pools, our_one, ALL),
    );
    Answer {
        table: compared.table,
        not_shown: "Workers that each have a processor, and what chains cost in caches of their own. The long tasks have no \
            checkpoint. A source that is always ahead: latency is mostly the length of the queue.",
        verdict,
        failure: None,
    }
}

/// What packets read.
struct Data {
    packets: Vec<Vec<u8>>,
    /// 8 MiB.
    places: Vec<u64>,
    /// Operations of each long task.
    long: u64,
}

impl Data {
    fn new(size: Size) -> Data {
        let mut draw = Draw::new(1);
        let packets = (0..64).map(|_| {
            let length = 1_000 + draw.below(100);
            (0..length).map(|_| if draw.below(40) == 0 { b'\n' } else { b'a' + draw.below(26) as u8 }).collect()
        });
        let packets = packets.collect();
        let places = (0..1 << 20).map(|_| draw.below(usize::MAX >> 33) as u64).collect();
        Data { packets, places, long: size.of(LONG, 1_000) }
    }

    /// The ends of the lines of packet `number`.
    fn scan(&self, number: usize) {
        let packet = black_box(&self.packets[number % self.packets.len()]);
        assert!(black_box(packet.iter().filter(|byte| **byte == b'\n').count()) < packet.len());
    }

    /// Reads at 20 places, each of which depends on the last.
    fn read(&self, number: usize) {
        let mut at = number;
        for _ in 0..20 {
            at = at.wrapping_mul(2_654_435_761).wrapping_add(self.places[at % self.places.len()] as usize);
        }
        black_box(at);
    }
}

impl Chain for Data {
    fn steps(&self, packet: usize) -> usize {
        if packet % ONE_IN == ONE_IN / 2 { LIGHT_TASKS + LONG_TASKS } else { LIGHT_TASKS }
    }

    fn light_steps(&self) -> usize {
        LIGHT_TASKS
    }

    fn run(&self, packet: usize, step: usize) {
        match step {
            0 => self.scan(packet),
            1..LIGHT_TASKS => self.read(packet),
            _ => {
                black_box(operations(self.long));
            }
        }
    }
}
