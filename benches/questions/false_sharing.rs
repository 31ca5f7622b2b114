//! What does it cost that two threads write to one cache line, and where does the padding of our own structs pay?

use super::harness::{Arm, Size, on_threads, pin, text};
use super::page::{Answer, Grid};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const QUESTION: &str = "What does it cost that two threads write to one cache line, and where does the padding of our \
    own structs pay?";

pub(crate) fn ask(size: Size) -> Answer {
    let mut counters = Grid::new("Two threads, 1 M increments each, us", &["two counters", "packed", "padded"]);
    let count = size.of(1_000_000, 1_000);
    let published = "50,563 / 10,484";
    counters.case(size, "atomic additions", published, pair(count, add));
    let mut ours = Grid::new("Two threads, 1 M times each, us: places of our structs", &["place", "packed", "padded"]);
    ours.case(size, "counters of one writer (`Tally`, turns)", "-", pair(count, add_alone));
    ours.case(
        size,
        "a stamp written by one, read by another (`busy_since`)",
        "-",
        vec![stamp(count, false), stamp(count, true)],
    );
    ours.case(
        size,
        "two shards of a queue (`Sharded`)",
        "-",
        vec![
            shards(count, || Packed(ArrayQueue::new(64))),
            shards(count, || Padded(CachePadded::new(ArrayQueue::new(64)))),
        ],
    );
    let ratio = |grid: &Grid, case| grid.at(case, "packed").over(grid.at(case, "padded")).median();
    let verdict = format!(
        "Packed counters cost {} times padded ones under atomic additions, {} times where each has one writer; a stamp that \
         another worker reads costs {} times; shards of a queue, whose ends crossbeam pads already, cost {} times.",
        text(ratio(&counters, "atomic additions")),
        text(ratio(&ours, "counters of one writer (`Tally`, turns)")),
        text(ratio(&ours, "a stamp written by one, read by another (`busy_since`)")),
        text(ratio(&ours, "two shards of a queue (`Sharded`)")),
    );
    Answer {
        tables: vec![counters.table, ours.table],
        not_shown: "Caches of several sockets; how rarely a real worker writes such a place: once in a job, not once in a \
            nanosecond, so that what padding saves a job is one miss at most, 50 to 350 ns from core to core.",
        verdict,
        failure: None,
    }
}

/// Two counters side by side, and two with a line each.
fn pair(count: u64, bump: fn(&AtomicU64)) -> Vec<Arm<'static>> {
    // On a line of their own, as a pair: where an allocation happens to lie would decide otherwise.
    let packed: CachePadded<[AtomicU64; 2]> = CachePadded::default();
    let padded: [CachePadded<AtomicU64>; 2] = Default::default();
    vec![
        Box::new(move || [bumped(count, bump, &packed[0], &packed[1])]),
        Box::new(move || [bumped(count, bump, &padded[0], &padded[1])]),
    ]
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn add_alone(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Microseconds in which each of two threads has counted one of the counters up.
fn bumped(count: u64, bump: fn(&AtomicU64), first: &AtomicU64, second: &AtomicU64) -> f64 {
    let counters = [first, second];
    let before = counters.map(|counter| counter.load(Ordering::Relaxed));
    let time = on_threads(2, |thread| {
        pin(thread);
        (0..count).for_each(|_| bump(counters[thread]));
    });
    let after = counters.map(|counter| counter.load(Ordering::Relaxed));
    assert_eq!(after, before.map(|before| before + count), "no count is lost");
    time / 1e3
}

/// Microseconds in which one thread writes a stamp and the other reads a neighbour of it, which is never written.
fn stamp(count: u64, padded: bool) -> Arm<'static> {
    let stamps: CachePadded<[AtomicU64; 32]> = CachePadded::new([const { AtomicU64::new(0) }; 32]);
    let read = if padded { 16 } else { 1 };
    Box::new(move || {
        let time = on_threads(2, |thread| {
            pin(thread);
            let sum: u64 = (0..count)
                .map(|turn| {
                    if thread == 0 {
                        stamps[0].store(turn, Ordering::Release);
                        0
                    } else {
                        stamps[read].load(Ordering::Acquire)
                    }
                })
                .sum();
            assert_eq!(sum, 0, "it reads its own stamp");
        });
        [time / 1e3]
    })
}

/// Microseconds in which two threads push to and pop from a queue of their own; the queues are neighbours.
fn shards<Q>(count: u64, make: impl Fn() -> Q) -> Arm<'static>
where
    Q: AsRef<ArrayQueue<u64>> + Send + Sync + 'static,
{
    let queues: CachePadded<[Q; 2]> = CachePadded::new([make(), make()]);
    Box::new(move || {
        let time = on_threads(2, |thread| {
            pin(thread);
            let queue = queues[thread].as_ref();
            for item in 0..count {
                queue.push(item).expect("room for one");
                assert_eq!(queue.pop(), Some(item));
            }
        });
        [time / 1e3]
    })
}

/// A queue as it is, and one with a line of its own around it.
struct Packed(ArrayQueue<u64>);
struct Padded(CachePadded<ArrayQueue<u64>>);

impl AsRef<ArrayQueue<u64>> for Packed {
    fn as_ref(&self) -> &ArrayQueue<u64> {
        &self.0
    }
}

impl AsRef<ArrayQueue<u64>> for Padded {
    fn as_ref(&self) -> &ArrayQueue<u64> {
        &self.0
    }
}
