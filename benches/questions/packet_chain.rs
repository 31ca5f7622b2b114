//! What becomes of a chain of tasks for each packet when one packet in a thousand ends in two tasks of 20 ms?
//!
//! A packet of 1 to 1.1 kB is searched for the ends of its lines; three tasks follow, each of 20 reads at random places of
//! 8 MiB; one packet in a thousand goes on with two tasks of 20 ms. A thread puts packets into a bounded queue as fast as
//! there is room. Pools: packets run in a pool of two, the long tasks in a pool of one.

use super::harness::{Arm, Draw, Figures, Size, interleaved, ns, operations, processors, text};
use super::latencies::Latencies;
use super::mini::{self, Job, Next, Order, Rules, Sharing, Victim};
use super::page::{Answer, CROWDED, Table};
use super::virtual_time::policies;
use forebay::handler::{checkpoint, hop};
use forebay::tasks::Runtime;
use forebay::time::{Nanos, clock};
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const QUESTION: &str = "What becomes of a chain of tasks for each packet when one packet in a thousand ends in two tasks of \
    20 ms?";

/// Packets of a run for each one with long tasks.
const ONE_IN: usize = 1_000;
/// The same mix in virtual time: a light packet takes 2 us.
const MIX: &str = "packet-chain";
/// Operations of a long task.
const LONG: u64 = 15_500_000;

const ONE_POOL: Rules = Rules { pools: &[3], order: Order::Fifo, victim: Victim::Random, sharing: Sharing::Steal };
const TWO_POOLS: Rules = Rules { pools: &[2, 1], ..ONE_POOL };

#[derive(Clone, Copy)]
enum Way {
    Mini(Rules),
    Ours { pools: bool },
}

const WAYS: [(&str, Way); 6] = [
    ("one pool, FIFO", Way::Mini(ONE_POOL)),
    ("one pool, LIFO", Way::Mini(Rules { order: Order::Lifo, ..ONE_POOL })),
    ("pools 2 + 1, FIFO", Way::Mini(TWO_POOLS)),
    ("pools 2 + 1, LIFO", Way::Mini(Rules { order: Order::Lifo, ..TWO_POOLS })),
    ("Forebay's tasks, one pool", Way::Ours { pools: false }),
    ("Forebay's tasks, pools 2 + 1", Way::Ours { pools: true }),
];

pub(crate) fn ask(size: Size) -> Answer {
    let packets = size.of(10_000, 2_000);
    let data = Arc::new(Data::new(size));
    let mark = if processors() < 4 { CROWDED } else { "" };
    let columns = ["3 workers and the source of packets", ".5, us", ".99, us", ".999, us", "all, ms"];
    let mut table = Table::new(format!("{packets} packets{mark}"), &columns);
    let arm = |(_, way): (&str, Way)| -> Arm<'static, 4> {
        let data = Arc::clone(&data);
        Box::new(move || run(way, packets, &data))
    };
    let figures = interleaved(size, WAYS.map(arm).into());
    for ((name, _), figures) in WAYS.iter().zip(&figures) {
        table.row([(*name).to_owned()].into_iter().chain(figures.iter().map(Figures::text)).collect());
    }
    let (simulated, order) = policies(size, MIX);
    let over = |one: usize, other: usize, quantity: usize| {
        text(figures[one][quantity].over(&figures[other][quantity]).median())
    };
    let verdict = format!(
        "Pools of 2 + 1 have {} times the p99 of one pool, last in first out {} times that of first in first out; with our own \
         runtime pools have {} times. In virtual time the p99.9 of the slowdown is least under `{}`, then `{}`, most under `{}`.",
        over(2, 0, 1),
        over(1, 0, 1),
        over(5, 4, 1),
        order[0],
        order[1],
        order[order.len() - 1],
    );
    Answer {
        tables: vec![table, simulated],
        not_shown: "Workers that each have a processor, and what chains cost in caches of their own. The long tasks have no \
            checkpoint here; in virtual time a request may step aside, which is what `levels` and `hybrid` live on. A source \
            that is always ahead: latency is mostly the length of the queue.",
        verdict,
        failure: None,
    }
}

/// What packets read.
struct Data {
    packets: Vec<Vec<u8>>,
    /// 8 MiB.
    places: Vec<u64>,
    /// Operations of each of the two long tasks.
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
        Data {
            packets,
            places: (0..1 << 20).map(|_| draw.below(usize::MAX >> 33) as u64).collect(),
            long: size.of(LONG, 1_000),
        }
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

    /// Runs task `step` of packet `number`, counted from 0.
    fn run(&self, number: usize, step: usize) {
        match step {
            0 => self.scan(number),
            1..SHORT_TASKS => self.read(number),
            _ => {
                black_box(operations(self.long));
            }
        }
    }
}

/// The scan, and three tasks of reads.
const SHORT_TASKS: usize = 4;

/// Tasks of packet `number`.
fn tasks(number: usize) -> usize {
    if number % ONE_IN == ONE_IN / 2 { SHORT_TASKS + 2 } else { SHORT_TASKS }
}

fn run(way: Way, packets: usize, data: &Arc<Data>) -> [f64; 4] {
    let latencies = Latencies::new(packets);
    let time = match way {
        Way::Mini(rules) => {
            let packet = |number| Packet {
                number,
                step: 0,
                born: clock::now(),
                data: Arc::clone(data),
                latencies: latencies.clone(),
            };
            mini::run(rules, packets, Vec::new(), (0..packets).map(packet)).ns
        }
        Way::Ours { pools } => ours(pools, packets, data, &latencies),
    };
    let sorted = latencies.sorted();
    let [p50, p99, p99_9] = [0.5, 0.99, 0.999].map(|share| sorted.quantile(share) / 1e3);
    [p50, p99, p99_9, time / 1e6]
}

struct Packet {
    number: usize,
    step: usize,
    born: Nanos,
    data: Arc<Data>,
    latencies: Latencies,
}

impl Job for Packet {
    fn part(&mut self, _: &mut Vec<Packet>) -> Next {
        self.data.run(self.number, self.step);
        self.step += 1;
        if self.step == tasks(self.number) {
            self.latencies.ended(self.number, self.born);
            return Next::Done;
        }
        if self.step == SHORT_TASKS { Next::Hop } else { Next::Again }
    }
}

fn ours(pools: bool, packets: usize, data: &Arc<Data>, latencies: &Latencies) -> f64 {
    let builder = Runtime::builder().slice(Nanos::ZERO);
    let builder = if pools { builder.pool("front", 2).pool("heavy", 1) } else { builder.pool("main", 3) };
    let runtime = builder.build().expect("threads");
    let heavy = runtime.pool("heavy");
    ns(|| {
        for number in 0..packets {
            let (data, latencies, born) = (Arc::clone(data), latencies.clone(), clock::now());
            drop(runtime.spawn_future(async move {
                for step in 0..tasks(number) {
                    match heavy {
                        Some(heavy) if step == SHORT_TASKS => hop(heavy).await,
                        _ if step > 0 => checkpoint().await,
                        _ => {}
                    }
                    data.run(number, step);
                }
                latencies.ended(number, born);
            }));
        }
        runtime.shutdown();
    })
}
