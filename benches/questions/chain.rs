//! Chains of steps, one for each job, run in two ways: by a small pool of this bench, and by the tasks of the library.
//!
//! A thread puts jobs into a bounded queue as fast as there is room; a job's latency counts from then. With pools
//! every job begins in the pool of two threads. After the steps of a light job it goes on in the pool of one. The
//! small pool does no more than the comparison needs: idle threads yield.

use super::harness::{Arm, Draw, Figures, Size, interleaved, ns, on_threads, processors, text};
use super::page::{CROWDED, Table};
use crossbeam_deque::{Steal, Stealer, Worker as Deque};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use forebay::handler::{checkpoint, hop};
use forebay::runtime::AbortOnPanic;
use forebay::tasks::Runtime;
use forebay::time::{Nanos, clock};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The steps of jobs, which have a number each.
pub(crate) trait Chain: Send + Sync + 'static {
    fn steps(&self, job: usize) -> usize;
    /// Steps that a light job has; a heavy one hops after them.
    fn light_steps(&self) -> usize;
    fn run(&self, job: usize, step: usize);
}

#[derive(Clone, Copy)]
pub(crate) enum Order {
    Fifo,
    Lifo,
}

/// Whose threads run the jobs.
#[derive(Clone, Copy)]
pub(crate) enum Threads {
    /// This bench's.
    Bench(Order),
    /// The library's.
    Forebay,
}

/// One pool of three threads, or two and one.
#[derive(Clone, Copy)]
pub(crate) enum Pools {
    One,
    TwoAndOne,
}

impl Pools {
    fn sizes(self) -> &'static [usize] {
        match self {
            Pools::One => &[3],
            Pools::TwoAndOne => &[2, 1],
        }
    }
}

/// A row: its name, how it runs, and the chain.
pub(crate) type Way<C> = (&'static str, Threads, Pools, Arc<C>);

/// The median latency, p99, p99.9 and p99.95 in microseconds, and the milliseconds of all jobs.
pub(crate) const COLUMNS: [&str; 6] =
    ["3 workers and the source", ".5, us", ".99, us", ".999, us", ".9995, us", "all, ms"];
/// The quantities by their place.
pub(crate) const P50: usize = 0;
pub(crate) const P99: usize = 1;
pub(crate) const P99_9: usize = 2;
pub(crate) const ALL: usize = 4;

pub(crate) struct Compared {
    pub(crate) table: Table,
    rows: Vec<(&'static str, [Figures; 5])>,
}

/// Runs `jobs` in each way.
pub(crate) fn compare<C: Chain>(size: Size, title: &str, jobs: usize, ways: &[Way<C>]) -> Compared {
    let mark = if processors() < 4 { CROWDED } else { "" };
    let mut table = Table::new(format!("{jobs} {title}{mark}"), &COLUMNS);
    let arm = |(_, threads, pools, chain): &Way<C>| -> Arm<'static, 5> {
        let (threads, pools, chain) = (*threads, *pools, Arc::clone(chain));
        Box::new(move || measure(threads, pools, &chain, jobs))
    };
    let figures = interleaved(size, ways.iter().map(arm).collect());
    let rows: Vec<_> = ways.iter().map(|(name, ..)| *name).zip(figures).collect();
    for (name, figures) in &rows {
        table.row(*name, figures.iter().map(Figures::text));
    }
    Compared { table, rows }
}

impl Compared {
    /// How many times the figure of `other` the row `name` has.
    pub(crate) fn over(&self, name: &str, other: &str, quantity: usize) -> String {
        let row = |wanted| &self.rows.iter().find(|(name, _)| *name == wanted).expect("a row").1[quantity];
        text(row(name).over(row(other)).median())
    }
}

fn measure<C: Chain>(threads: Threads, pools: Pools, chain: &Arc<C>, jobs: usize) -> [f64; 5] {
    let latencies: Arc<[AtomicU64]> = (0..jobs).map(|_| AtomicU64::new(0)).collect();
    let job = |number| Job {
        number,
        step: 0,
        born: clock::now(),
        chain: Arc::clone(chain),
        latencies: Arc::clone(&latencies),
    };
    let ns = match threads {
        Threads::Bench(order) => small_pool(pools.sizes(), order, jobs, (0..jobs).map(job)),
        Threads::Forebay => library(pools, (0..jobs).map(job)),
    };
    let mut sorted: Vec<u64> = latencies.iter().map(|latency| latency.load(Ordering::Relaxed)).collect();
    sorted.sort_unstable();
    assert!(sorted[0] > 0, "every job ends");
    let quantile = |share: f64| sorted[((jobs as f64 * share).ceil() as usize).clamp(1, jobs) - 1] as f64 / 1e3;
    [quantile(0.5), quantile(0.99), quantile(0.999), quantile(0.9995), ns / 1e6]
}

struct Job<C> {
    number: usize,
    step: usize,
    born: Nanos,
    chain: Arc<C>,
    latencies: Arc<[AtomicU64]>,
}

/// What becomes of a job after a step.
enum Next {
    Done,
    Again,
    /// It goes on in the last pool.
    Hop,
}

impl<C: Chain> Job<C> {
    fn run_step(&mut self) -> Next {
        self.chain.run(self.number, self.step);
        self.step += 1;
        if self.step == self.chain.steps(self.number) {
            let latency = clock::now().minus(self.born).get().max(1);
            // Ordering: relaxed, the end of the run orders it.
            assert_eq!(self.latencies[self.number].swap(latency, Ordering::Relaxed), 0, "a job ends once");
            Next::Done
        } else if self.step == self.chain.light_steps() {
            Next::Hop
        } else {
            Next::Again
        }
    }
}

fn library<C: Chain>(pools: Pools, jobs: impl Iterator<Item = Job<C>>) -> f64 {
    let builder = Runtime::builder().slice(Nanos::ZERO);
    let named = ["front", "heavy"].into_iter().zip(pools.sizes());
    let runtime = named.fold(builder, |builder, (name, size)| builder.pool(name, *size)).build().expect("threads");
    let heavy = runtime.pool("heavy");
    ns(|| {
        for mut job in jobs {
            drop(runtime.spawn_future(async move {
                loop {
                    match (job.run_step(), heavy) {
                        (Next::Done, _) => break,
                        (Next::Hop, Some(heavy)) => hop(heavy).await,
                        (Next::Hop | Next::Again, _) => checkpoint().await,
                    }
                }
            }));
        }
        runtime.shutdown();
    })
}

/// Jobs that wait for the threads of a pool, at most: as many as the library queues.
const QUEUE: usize = 4_096;

struct Shared<C> {
    stealers: Vec<Stealer<Job<C>>>,
    /// The queue of each pool.
    queues: Vec<ArrayQueue<Job<C>>>,
    /// Jobs that each thread has done.
    done: Vec<CachePadded<AtomicUsize>>,
    all: usize,
}

/// Nanoseconds in which threads of `pools` run `all` of the `jobs`.
fn small_pool<C: Chain>(pools: &[usize], order: Order, all: usize, jobs: impl Iterator<Item = Job<C>> + Send) -> f64 {
    let threads: usize = pools.iter().sum();
    let deque = |_| match order {
        Order::Fifo => Deque::new_fifo(),
        Order::Lifo => Deque::new_lifo(),
    };
    let deques: Vec<Deque<Job<C>>> = (0..threads).map(deque).collect();
    let shared = Shared {
        stealers: deques.iter().map(Deque::stealer).collect(),
        queues: pools.iter().map(|_| ArrayQueue::new(QUEUE)).collect(),
        done: (0..threads).map(|_| CachePadded::default()).collect(),
        all,
    };
    let mut members = Vec::new();
    for (pool, size) in pools.iter().enumerate() {
        members.extend(std::iter::repeat_n((pool, members.len()..members.len() + size), *size));
    }
    let each = deques.into_iter().zip(members).enumerate().map(|(number, (deque, (pool, members)))| {
        Mutex::new(Some(Thread { number, pool, members, shared: &shared, deque, draw: Draw::new(number), searches: 0 }))
    });
    let each: Vec<_> = each.collect();
    let jobs = Mutex::new(Some(jobs));
    let ns = on_threads(threads + 1, |number| match each.get(number) {
        Some(thread) => thread.lock().unwrap().take().expect("each is taken once").work(),
        // One thread more is the source.
        None => shared.feed(jobs.lock().unwrap().take().expect("they are taken once")),
    });
    assert_eq!(shared.sum_done(), all, "every job is done once");
    ns
}

impl<C> Shared<C> {
    fn feed(&self, jobs: impl Iterator<Item = Job<C>>) {
        for mut job in jobs {
            while let Err(back) = self.queues[0].push(job) {
                job = back;
                thread::yield_now();
            }
        }
    }

    fn sum_done(&self) -> usize {
        self.done.iter().map(|done| done.load(Ordering::Acquire)).sum()
    }
}

/// One thread of a pool.
struct Thread<'a, C> {
    number: usize,
    pool: usize,
    /// All threads of the pool.
    members: Range<usize>,
    shared: &'a Shared<C>,
    deque: Deque<Job<C>>,
    draw: Draw,
    searches: usize,
}

impl<C: Chain> Thread<'_, C> {
    fn work(mut self) {
        // The others would wait for ever for the job that a panic leaves undone.
        let _guard = AbortOnPanic;
        let mut vain = 0_u32;
        loop {
            if let Some(job) = self.next() {
                self.run(job);
                vain = 0;
                continue;
            }
            if self.shared.sum_done() == self.shared.all {
                break;
            }
            vain += 1;
            if vain.is_multiple_of(16) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    fn run(&mut self, mut job: Job<C>) {
        match job.run_step() {
            Next::Done => {
                let done = &self.shared.done[self.number];
                done.store(done.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            Next::Again => self.deque.push(job),
            Next::Hop => {
                if let Err(job) = self.shared.queues[self.shared.queues.len() - 1].push(job) {
                    self.deque.push(job);
                }
            }
        }
    }

    /// Every other search begins with the queue, so that a job that comes back again and again keeps none waiting there.
    fn next(&mut self) -> Option<Job<C>> {
        let queue = &self.shared.queues[self.pool];
        self.searches += 1;
        if self.searches.is_multiple_of(2) {
            queue.pop().or_else(|| self.deque.pop())
        } else {
            self.deque.pop().or_else(|| queue.pop())
        }
        .or_else(|| self.steal())
    }

    fn steal(&mut self) -> Option<Job<C>> {
        let others = self.members.len() - 1;
        let first = if others == 0 { 0 } else { self.draw.below(others) };
        (0..others).find_map(|offset| {
            let step = 1 + (first + offset) % others;
            let victim = self.members.start + (self.number - self.members.start + step) % self.members.len();
            match self.shared.stealers[victim].steal_batch_and_pop(&self.deque) {
                Steal::Success(job) => Some(job),
                Steal::Empty | Steal::Retry => None,
            }
        })
    }
}
