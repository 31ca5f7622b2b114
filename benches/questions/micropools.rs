//! Do pools of their own for light and heavy jobs beat one pool that steals: 1 job in 10,000 is 2,000 times heavier?

use super::chain::{ALL, Chain, Order, P50, P99_9, Pools, Threads, Way, compare};
use super::harness::{Size, ns};
use super::page::Answer;
use sha1::{Digest, Sha1};
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const QUESTION: &str = "Do pools of their own for light and heavy jobs beat one pool that steals, if 1 job in 10,000 is \
    2,000 times heavier?";

const HEAVY: usize = 2_000;
const ONE_IN: usize = 10_000;

pub(crate) fn ask(size: Size) -> Answer {
    let (chunks, block) = (Arc::new(Chunks::Each), Arc::new(Chunks::InOneBlock));
    let bench = Threads::Bench;
    let (fifo, lifo) = (Order::Fifo, Order::Lifo);
    let way = |name, threads, pools, chain: &Arc<Chunks>| -> Way<Chunks> { (name, threads, pools, Arc::clone(chain)) };
    let ways = [
        way("one pool, chunks, FIFO", bench(fifo), Pools::One, &chunks),
        way("one pool, one block, FIFO", bench(fifo), Pools::One, &block),
        way("one pool, chunks, LIFO", bench(lifo), Pools::One, &chunks),
        way("pools 2 + 1, chunks, FIFO", bench(fifo), Pools::TwoAndOne, &chunks),
        way("pools 2 + 1, one block, FIFO", bench(fifo), Pools::TwoAndOne, &block),
        way("pools 2 + 1, chunks, LIFO", bench(lifo), Pools::TwoAndOne, &chunks),
        way("Forebay's tasks, one pool", Threads::Forebay, Pools::One, &chunks),
        way("Forebay's tasks, pools 2 + 1", Threads::Forebay, Pools::TwoAndOne, &chunks),
    ];
    let times = size.of(20_000, 10);
    let chunk_ns = ns(|| (0..times).for_each(chunk)) / times as f64;
    let jobs = size.of(200_000, 20_000);
    let compared = compare(size, &format!("jobs, a chunk is {chunk_ns:.0} ns of SHA-1"), jobs, &ways);
    let [one, pools] = ["one pool, chunks, FIFO", "pools 2 + 1, chunks, FIFO"];
    let [our_one, our_pools] = ["Forebay's tasks, one pool", "Forebay's tasks, pools 2 + 1"];
    let verdict = format!(
        "Pools of 2 + 1 have {} times the p99.9 of one pool that steals, and {} times its p50; with our own tasks {} and {} \
         times. Our tasks take {} times the time of the bench's threads for all jobs in one pool.",
        compared.over(pools, one, P99_9),
        compared.over(pools, one, P50),
        compared.over(our_pools, our_one, P99_9),
        compared.over(our_pools, our_one, P50),
        compared.over(our_one, one, ALL),
    );
    Answer {
        table: compared.table,
        not_shown: "Workers that each have a processor: with fewer processors than threads a share of the tail is the kernel's \
            time slices. Load below capacity: the source always has the next job, so latency is mostly the length of the queue.",
        verdict,
        failure: None,
    }
}

/// How a heavy job runs after its first chunk.
enum Chunks {
    Each,
    InOneBlock,
}

impl Chain for Chunks {
    fn steps(&self, job: usize) -> usize {
        match (job % ONE_IN == ONE_IN / 2, self) {
            (false, _) => 1,
            (true, Chunks::Each) => HEAVY,
            (true, Chunks::InOneBlock) => 2,
        }
    }

    fn light_steps(&self) -> usize {
        // The first chunk shows that a job is heavy.
        1
    }

    fn run(&self, job: usize, step: usize) {
        let chunks = if step > 0 && matches!(self, Chunks::InOneBlock) { HEAVY - 1 } else { 1 };
        (0..chunks).for_each(|_| chunk(job));
    }
}

/// The digest of a short text, again and again for about half a microsecond.
fn chunk(number: usize) {
    let mut text = number.to_le_bytes();
    for _ in 0..15 {
        let digest = Sha1::digest(text);
        text.copy_from_slice(&digest[..8]);
    }
    black_box(text);
}
