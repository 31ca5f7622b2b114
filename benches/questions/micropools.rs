//! Do pools of their own for light and heavy jobs beat one pool that steals: 1 job in 10,000 is 2,000 times heavier?
//!
//! The original experiment in process: a thread puts jobs into a bounded queue as fast as there is room, three workers run
//! them, and a job's latency counts from then. Pools: every job begins in the pool of two, and goes on in the pool of one
//! when its first chunk has not been its last.

use super::harness::{Arm, Figures, Size, interleaved, ns, processors, text};
use super::latencies::{Latencies, Sorted};
use super::mini::{self, Job, Next, Order, Rules, Sharing, Victim};
use super::page::{Answer, CROWDED, Table};
use super::virtual_time::policies;
use forebay::handler::{checkpoint, hop};
use forebay::tasks::Runtime;
use forebay::time::{Nanos, clock};
use sha1::{Digest, Sha1};
use std::hint::black_box;

pub(crate) const QUESTION: &str = "Do pools of their own for light and heavy jobs beat one pool that steals, if 1 job in 10,000 is \
    2,000 times heavier?";

const HEAVY: usize = 2_000;
const ONE_IN: usize = 10_000;
/// What is shown of the latencies.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9995];

const ONE_POOL: Rules = Rules { pools: &[3], order: Order::Fifo, victim: Victim::Random, sharing: Sharing::Steal };
const TWO_POOLS: Rules = Rules { pools: &[2, 1], ..ONE_POOL };

/// A way to run the jobs.
#[derive(Clone, Copy)]
enum Way {
    /// In threads of the bench; whether a chunk is a part, after which others may run.
    Mini(Rules, bool),
    /// In our runtime, with one pool or two.
    Ours { pools: bool },
}

const WAYS: [(&str, Way); 9] = [
    ("one pool, chunks, FIFO", Way::Mini(ONE_POOL, true)),
    ("one pool, one block, FIFO", Way::Mini(ONE_POOL, false)),
    ("one pool, chunks, LIFO", Way::Mini(Rules { order: Order::Lifo, ..ONE_POOL }, true)),
    ("one pool, chunks, FIFO, neighbour", Way::Mini(Rules { victim: Victim::Neighbour, ..ONE_POOL }, true)),
    ("pools 2 + 1, chunks, FIFO", Way::Mini(TWO_POOLS, true)),
    ("pools 2 + 1, one block, FIFO", Way::Mini(TWO_POOLS, false)),
    ("pools 2 + 1, chunks, LIFO", Way::Mini(Rules { order: Order::Lifo, ..TWO_POOLS }, true)),
    ("Forebay's tasks, one pool", Way::Ours { pools: false }),
    ("Forebay's tasks, pools 2 + 1", Way::Ours { pools: true }),
];
/// The ways of which every job of the full number is shown, by the logarithm of its latency.
const IN_FULL: [usize; 4] = [0, 4, 7, 8];

pub(crate) fn ask(size: Size) -> Answer {
    let mark = if processors() < 4 { CROWDED } else { "" };
    let jobs = size.of(200_000, 20_000);
    let columns = ["3 workers and the source of jobs", ".5, us", ".99, us", ".999, us", ".9995, us", "all, ms"];
    let mut table = Table::new(format!("{jobs} jobs, a chunk is {:.0} ns of SHA-1{mark}", chunk_ns(size)), &columns);
    let arm = |(_, way): (&str, Way)| -> Arm<'static, 5> { Box::new(move || shown(way, jobs)) };
    let figures = interleaved(size, WAYS.map(arm).into());
    for ((name, _), figures) in WAYS.iter().zip(&figures) {
        table.row([(*name).to_owned()].into_iter().chain(figures.iter().map(Figures::text)).collect());
    }

    let jobs = size.of(5_000_000, 20_000);
    let names = IN_FULL.map(|way| WAYS[way].0);
    let columns = [&["log2 of ns"], &names[..]].concat();
    let mut histogram =
        Table::new(format!("{jobs} jobs by the logarithm of their latency, one run each{mark}"), &columns);
    let all = IN_FULL.map(|way| run(WAYS[way].1, jobs).1);
    for row in histogram_rows(&all) {
        histogram.row(row);
    }
    let mut quantiles =
        Table::new("The same runs: log2(ns) at .5 / .99 / .999 / .9995", &["", names[0], names[1], names[2], names[3]]);
    let logarithms =
        |sorted: &Sorted| QUANTILES.map(|share| format!("{:.0}", sorted.quantile(share).log2().floor())).join(" / ");
    quantiles.row(["here".to_owned()].into_iter().chain(all.iter().map(logarithms)).collect());
    let published = ["20 / 21 / 23 / 23 and 20 / 21 / 22 / 23", "21 / 21 / 22 / 22 and 20 / 21 / 21 / 21"];
    quantiles.row(["published", published[0], published[1], published[0], published[1]].map(str::to_owned).into());

    let (simulated, order) = policies(size, "micropools");
    let over = |one: usize, other: usize, quantity: usize| {
        text(figures[one][quantity].over(&figures[other][quantity]).median())
    };
    let verdict = format!(
        "Pools of 2 + 1 have {} times the p99.9 and {} times the p99.95 of one pool that steals, and {} times its p50; with our own \
         runtime {}, {} and {} times. Heavy jobs in one block make p99.95 {} times that with chunks, last in first out {} times \
         that of first in first out. In virtual time the p99.9 of the slowdown is least under `{}`, most under `{}`.",
        over(4, 0, 2),
        over(4, 0, 3),
        over(4, 0, 0),
        over(8, 7, 2),
        over(8, 7, 3),
        over(8, 7, 0),
        over(1, 0, 3),
        over(2, 0, 3),
        order[0],
        order[order.len() - 1],
    );
    Answer {
        tables: vec![table, histogram, quantiles, simulated],
        not_shown: "Workers that each have a processor: with fewer processors than threads a share of the tail is the kernel's \
            time slices. Load below capacity: the source always has the next job, so latency is mostly the length of the queue, \
            as in the original. Sockets: [real.md](real.md).",
        verdict,
        failure: None,
    }
}

/// One row for each logarithm that any run has.
fn histogram_rows(all: &[Sorted; 4]) -> Vec<Vec<String>> {
    let counts = all.each_ref().map(Sorted::by_logarithm);
    let ends = counts.iter().flat_map(|counts| counts.iter().map(|(logarithm, _)| *logarithm));
    let (least, most) = ends.fold((u32::MAX, 0), |(least, most), at| (at.min(least), at.max(most)));
    let of = |counts: &Vec<(u32, usize)>, row| counts.iter().find(|(at, _)| *at == row).map_or(0, |(_, count)| *count);
    let row = |row: u32| {
        [row.to_string()].into_iter().chain(counts.iter().map(|counts| of(counts, row).to_string())).collect()
    };
    (least..=most).map(row).collect()
}

fn shown(way: Way, jobs: usize) -> [f64; 5] {
    let (ns, sorted) = run(way, jobs);
    let [p50, p99, p99_9, p99_95] = QUANTILES.map(|share| sorted.quantile(share) / 1e3);
    [p50, p99, p99_9, p99_95, ns / 1e6]
}

fn run(way: Way, jobs: usize) -> (f64, Sorted) {
    let latencies = Latencies::new(jobs);
    let ns = match way {
        Way::Mini(rules, in_chunks) => {
            let job = |number| Chunks {
                number,
                left: chunks(number),
                in_chunks,
                began: false,
                born: clock::now(),
                latencies: latencies.clone(),
            };
            mini::run(rules, jobs, Vec::new(), (0..jobs).map(job)).ns
        }
        Way::Ours { pools } => ours(pools, jobs, &latencies),
    };
    (ns, latencies.sorted())
}

/// Chunks of job `number`.
fn chunks(number: usize) -> usize {
    if number % ONE_IN == ONE_IN / 2 { HEAVY } else { 1 }
}

/// One chunk: the digest of a short text, again and again for about half a microsecond.
fn chunk(number: usize) {
    let mut text = number.to_le_bytes();
    for _ in 0..15 {
        let digest = Sha1::digest(text);
        text.copy_from_slice(&digest[..8]);
    }
    black_box(text);
}

fn chunk_ns(size: Size) -> f64 {
    let times = size.of(20_000, 10);
    ns(|| (0..times).for_each(chunk)) / times as f64
}

struct Chunks {
    number: usize,
    left: usize,
    in_chunks: bool,
    began: bool,
    born: Nanos,
    latencies: Latencies,
}

impl Job for Chunks {
    fn part(&mut self, _: &mut Vec<Chunks>) -> Next {
        // The first chunk shows that a job is heavy.
        let chunks = if self.began && !self.in_chunks { self.left } else { 1 };
        (0..chunks).for_each(|_| chunk(self.number));
        self.left -= chunks;
        if self.left == 0 {
            self.latencies.ended(self.number, self.born);
            return Next::Done;
        }
        if std::mem::replace(&mut self.began, true) { Next::Again } else { Next::Hop }
    }
}

fn ours(pools: bool, jobs: usize, latencies: &Latencies) -> f64 {
    let builder = Runtime::builder().slice(Nanos::ZERO);
    let builder = if pools { builder.pool("front", 2).pool("heavy", 1) } else { builder.pool("main", 3) };
    let runtime = builder.build().expect("threads");
    let heavy = runtime.pool("heavy");
    ns(|| {
        for number in 0..jobs {
            let (latencies, born) = (latencies.clone(), clock::now());
            drop(runtime.spawn_future(async move {
                for done in 0..chunks(number) {
                    match heavy {
                        Some(heavy) if done == 1 => hop(heavy).await,
                        _ if done > 0 => checkpoint().await,
                        _ => {}
                    }
                    chunk(number);
                }
                latencies.ended(number, born);
            }));
        }
        runtime.shutdown();
    })
}
