//! Is a queue of several shards fair enough, and what does it bring?
//!
//! The bound is derived at `forebay::queue::Sharded`. Here it is compared with what is measured, in two ways: with threads,
//! whose operations are numbered by a counter that all share; and on one thread, which draws whose turn it is, so that
//! operations happen at one moment each, as the bound assumes.

use super::harness::{Arm, Draw, Figures, Size, interleaved, on_threads, processors, text};
use super::page::{Answer, CROWDED, Table};
use crossbeam_utils::CachePadded;
use forebay::queue::Sharded;
use forebay::sched::Insertion;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) const QUESTION: &str = "Is a queue of several shards fair enough, and what does it bring?";

/// Producers, as many consumers, and shards.
const SHAPES: [(usize, usize); 8] = [(1, 1), (1, 4), (4, 1), (4, 4), (4, 16), (16, 1), (16, 4), (16, 64)];

/// Where items go, and where consumers look first.
const WAYS: [(&str, Insertion, First); 4] = [
    ("random", Insertion::Random, First::InTurn),
    ("round-robin", Insertion::RoundRobin, First::InTurn),
    ("shorter-of-two", Insertion::ShorterOfTwo, First::InTurn),
    ("shorter-of-two, own shard first", Insertion::ShorterOfTwo, First::Own),
];
/// What the server does.
const OURS: usize = 2;
/// The way of which the bound is known.
const BOUNDED: usize = 1;

/// Where a consumer looks first.
#[derive(Clone, Copy)]
enum First {
    /// At a shard of its own.
    Own,
    /// At the shard after the one of its last item.
    InTurn,
}

/// Items that the queue has room for: what a server of 16 workers queues.
const CAPACITY: usize = 4_096;
/// Items that wait at the start, and about as many all the time.
const WAITING: usize = CAPACITY / 2;

/// One queue with its producers and consumers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Producers, and as many consumers.
    each: usize,
    shards: usize,
}

pub(crate) fn ask(size: Size) -> Answer {
    let names = WAYS.map(|(name, ..)| name);
    let columns = [&["producers and consumers, shards"], &names[..]].concat();
    let mut speed = Table::new("Items put and taken, millions/s", &columns);
    let columns = ["producers and consumers, shards", "way", "mean", "p99.9", "max", "bound"];
    let mut drawn =
        Table::new("Rank error, about 2,048 items waiting, one thread that draws whose turn it is", &columns);
    let mut threaded = Table::new("Rank error, the same with threads", &columns[..5]);
    let (mut speeds, mut errors) = (Vec::new(), Vec::new());
    for shape in SHAPES.map(|(each, shards)| Shape { each, shards }) {
        let items = size.of(40_000, 500);
        let mark = if 2 * shape.each > processors() { CROWDED } else { "" };
        let name = format!("{0} and {0}, {1}", shape.each, shape.shards);
        let arm = |way| -> Arm<'static> { Box::new(move || [through(shape, way, items, false).0]) };
        let figures = interleaved(size, (0..WAYS.len()).map(arm).collect());
        let cells = figures.iter().map(|[figures]| figures.text());
        speed.row([format!("{name}{mark}")].into_iter().chain(cells).collect());
        speeds.push((shape, figures));

        let in_turn = |way| -> Arm<'static, 3> { Box::new(move || in_turn(shape, way, items)) };
        let on_threads = |way| -> Arm<'static, 3> { Box::new(move || through(shape, way, items, true).1) };
        let both: Vec<Arm<'_, 3>> = (0..WAYS.len()).map(in_turn).chain((0..WAYS.len()).map(on_threads)).collect();
        let figures = interleaved(size, both);
        for (way, (ideal, real)) in figures.iter().zip(&figures[WAYS.len()..]).enumerate() {
            let bound = if way == BOUNDED { bound(shape).to_string() } else { "-".to_owned() };
            let row = |name: String, errors: &[Figures; 3]| {
                let cells = errors.iter().map(Figures::text);
                [name, names[way].to_owned()].into_iter().chain(cells).collect::<Vec<String>>()
            };
            // One shard is a queue: without threads its error is zero.
            if shape.shards > 1 {
                let mut cells = row(name.clone(), ideal);
                cells.push(bound);
                drawn.row(cells);
            }
            threaded.row(row(format!("{name}{mark}"), real));
        }
        errors.push((shape, figures));
    }
    let shape = |each, shards| move |shown: Shape| shown == Shape { each, shards };
    let speed_of =
        |each, shards| &speeds.iter().find(|(shown, _)| shape(each, shards)(*shown)).expect("shown").1[OURS][0];
    let error_of = |each, shards, way: usize| {
        let (_, errors) = errors.iter().find(|(shown, _)| shape(each, shards)(*shown)).expect("shown");
        errors[way].each_ref().map(Figures::median)
    };
    let [mean, p99_9, most] = error_of(16, 4, OURS);
    let verdict = format!(
        "{}: with 16 producers, 16 consumers and four shards an item is taken with {} earlier ones left \
         on average, {} at p99.9 and {} at most, which is {} mean service times of 16 workers at p99.9 of a request; with a \
         shard of their own, 4 consumers leave up to {} earlier items in 16 shards, and in turn {}; four shards carry {} times \
         the items of one.",
        if p99_9 / 16.0 < 2.0 { "Yes, if consumers go round" } else { "No, not even if consumers go round" },
        text(mean),
        text(p99_9),
        text(most),
        text(p99_9 / 16.0),
        text(error_of(4, 16, 3)[2]),
        text(error_of(4, 16, OURS)[2]),
        text(speed_of(16, 4).over(speed_of(16, 1)).median()),
    );
    Answer {
        tables: vec![speed, drawn, threaded],
        not_shown: "Consumers on more processors, for which shards are made. With threads an item counts as put a moment \
            before it is, and as taken a moment after; a thread that is interrupted in between makes others look late by as many \
            items as pass meanwhile, also with one shard, so read the figures against those of one shard.",
        verdict,
        failure: None,
    }
}

/// The bound that is derived at `Sharded`.
fn bound(shape: Shape) -> usize {
    (shape.shards - 1) * (shape.each + 2 * shape.each)
}

/// A producer or a consumer, with its part of the way.
struct Party {
    number: usize,
    turns: usize,
}

impl Party {
    fn put(&mut self, queue: &Sharded<usize>, way: usize, item: usize) -> Result<(), usize> {
        let shards = WAYS[way].1.shards(self.number, self.turns);
        queue.push(shards, item).inspect(|()| self.turns += 1)
    }

    fn take(&mut self, queue: &Sharded<usize>, way: usize) -> Option<usize> {
        let first = match WAYS[way].2 {
            First::Own => self.number,
            First::InTurn => self.number + self.turns,
        };
        queue.pop(first).inspect(|_| self.turns += 1)
    }
}

fn parties(shape: Shape) -> Vec<Party> {
    (0..shape.each).map(|number| Party { number, turns: 0 }).collect()
}

/// Mean, p99.9 and largest rank error, operations happening one after the other.
fn in_turn(shape: Shape, way: usize, items: usize) -> [f64; 3] {
    let queue = Sharded::new(shape.shards, CAPACITY);
    let (mut producers, mut consumers) = (parties(shape), parties(shape));
    let (mut there, mut errors, mut put) = (BTreeSet::new(), Vec::with_capacity(items), 0);
    let mut draw = Draw::new(shape.each * shape.shards);
    while errors.len() < items {
        if put < WAITING || draw.below(2 * WAITING) >= there.len() {
            let producer = &mut producers[draw.below(shape.each)];
            producer.put(&queue, way, put).expect("it is about half full");
            there.insert(put);
            put += 1;
        } else {
            let item = consumers[draw.below(shape.each)].take(&queue, way).expect("it is about half full");
            errors.push(there.range(..item).count());
            assert!(there.remove(&item), "every item is taken once");
        }
    }
    if way == BOUNDED {
        let most = errors.iter().max().expect("items");
        assert!(*most <= bound(shape), "{most} earlier ones were left, {} is the bound", bound(shape));
    }
    summary(errors)
}

fn summary(mut errors: Vec<usize>) -> [f64; 3] {
    errors.sort_unstable();
    let mean = errors.iter().sum::<usize>() as f64 / errors.len() as f64;
    [mean, errors[(errors.len() - 1) * 999 / 1_000] as f64, errors[errors.len() - 1] as f64]
}

/// Millions of items per second that pass, half full at the start; and the rank errors, if they are `counted`.
fn through(shape: Shape, way: usize, items: usize, counted: bool) -> (f64, [f64; 3]) {
    let queue = Sharded::new(shape.shards, CAPACITY);
    let each = items / shape.each;
    // The number of each operation, which is the item where it is put.
    let numbers = CachePadded::new(AtomicUsize::new(0));
    let number = || if counted { numbers.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let mut producers = parties(shape);
    for turn in 0..WAITING {
        producers[turn % shape.each].put(&queue, way, number()).expect("it is half full");
    }
    let producers: Vec<Mutex<Party>> = producers.into_iter().map(Mutex::new).collect();
    let taken = Mutex::new(Vec::with_capacity(items));
    let time = on_threads(2 * shape.each, |thread| {
        if let Some(producer) = producers.get(thread) {
            let mut producer = producer.lock().unwrap();
            for _ in 0..each {
                let mut item = number();
                while let Err(back) = producer.put(&queue, way, item) {
                    item = back;
                    thread::yield_now();
                }
            }
            return;
        }
        let mut consumer = Party { number: thread - shape.each, turns: 0 };
        let mut mine = Vec::with_capacity(each);
        while mine.len() < each {
            match consumer.take(&queue, way) {
                Some(item) => mine.push((number(), item)),
                None => thread::yield_now(),
            }
        }
        taken.lock().unwrap().extend(mine);
    });
    assert_eq!(queue.len(), WAITING, "as many were taken as were put");
    let all = (each * shape.each) as f64;
    let errors = if counted { errors_of(taken.into_inner().unwrap()) } else { [0.0; 3] };
    (all / time * 1e3, errors)
}

/// The rank errors of items that were taken, each with the number of the operation that took it.
fn errors_of(mut taken: Vec<(usize, usize)>) -> [f64; 3] {
    taken.sort_unstable();
    let taken_by: BTreeSet<usize> = taken.iter().map(|(_, item)| *item).collect();
    assert_eq!(taken_by.len(), taken.len(), "every item is taken once");
    let last = taken.iter().map(|(by, item)| by.max(item)).max().expect("items");
    // Ranks of a moment by a Fenwick tree over the numbers of the items that have been taken by then.
    let mut tree = vec![0; last + 2];
    let operations: BTreeSet<usize> = taken.iter().map(|(by, _)| *by).collect();
    let is_put: Vec<bool> = (0..=*last).map(|number| !operations.contains(&number)).collect();
    let mut puts_before = vec![0; last + 2];
    for number in 0..=*last {
        puts_before[number + 1] = puts_before[number] + usize::from(is_put[number]);
    }
    let error = |(_, item): &(usize, usize)| {
        let (mut at, mut gone) = (*item, 0);
        while at > 0 {
            gone += tree[at];
            at &= at - 1;
        }
        let mut at = item + 1;
        while at < tree.len() {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
        puts_before[*item] - gone
    };
    summary(taken.iter().map(error).collect())
}
