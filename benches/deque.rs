//! What do the deques, and the boxes that jobs travel in, cost: fresh or used before, alone or with thieves, against
//! deques behind locks, and against a heap allocation for each job? `stealing.md` has the figures beside the published ones
//! of the ancestors, taken on other machines: compare shapes and ratios.
//!
//! Each figure is the median of eleven, and least to largest; what stands in one table took turns. Every run checks that
//! it saw all its jobs. `cargo bench --bench deque`.

#![allow(clippy::print_stdout, reason = "a bench tells people")]

use crossbeam_deque::{Steal, Stealer, Worker};
use forebay::queue::ObjectPool;
use forebay::time::clock;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

/// Odd, so that the median is one of them.
const REPETITIONS: usize = 11;

fn main() {
    // `cargo test --benches` runs this too: to see that it works, and not to measure.
    let repetitions = if std::env::args().any(|argument| argument == "--bench") { REPETITIONS } else { 1 };
    let table = |title: &str, rows: Vec<Row>| print(title, rows, repetitions);
    table("push and pop, ns for all", [64, 512, 4_096].into_iter().flat_map(push_pop).collect());
    table("512 pushes and 512 pops of the owner, ns", [0, 1, 4, 8].map(under_thieves).into());
    table("one thief takes 32 jobs, ns", vec![theft("one by one", 1), theft("by halves", 31)]);
    table("100,000 jobs on one of the threads, ms", [2, 8].into_iter().flat_map(locks).collect());
    table("200,000 jobs stored, queued and run by each thread, ms", [1, 2].into_iter().flat_map(storage).collect());
}

/// A row of a table: what is measured, what others published, and one measurement.
struct Row {
    name: String,
    published: &'static str,
    measure: Box<dyn Fn() -> f64>,
}

fn row(name: impl Into<String>, published: &'static str, measure: impl Fn() -> f64 + 'static) -> Row {
    Row { name: name.into(), published, measure: Box::new(measure) }
}

fn print(title: &str, rows: Vec<Row>, repetitions: usize) {
    println!("\n| {title} | here | published |\n|---|---|---|");
    let mut values = vec![Vec::new(); rows.len()];
    for repetition in 0..repetitions {
        for turn in 0..rows.len() {
            let number = (turn + repetition) % rows.len();
            values[number].push((rows[number].measure)());
        }
    }
    for (Row { name, published, .. }, mut values) in rows.into_iter().zip(values) {
        values.sort_by(f64::total_cmp);
        let [median, least, most] = [repetitions / 2, 0, repetitions - 1].map(|at| values[at]);
        let digits = if most < 100.0 { 2 } else { 0 };
        println!("| {name} | {median:.digits$} ({least:.digits$}-{most:.digits$}) | {published} |");
    }
}

/// Nanoseconds that `action` takes.
fn time(action: impl FnOnce()) -> f64 {
    let start = clock::now();
    action();
    clock::now().minus(start).get() as f64
}

fn push_pop(jobs: usize) -> [Row; 2] {
    const TURNS: usize = 200;
    let [fresh, steady] = match jobs {
        64 => ["1,486", "878"],
        512 => ["7,117", "7,111"],
        _ => ["58,225", "57,561"],
    };
    let through = move |deque: &Worker<usize>| {
        (0..jobs).for_each(|job| deque.push(job));
        let sum: usize = std::iter::from_fn(|| deque.pop()).sum();
        assert_eq!(sum, jobs * (jobs - 1) / 2);
    };
    let of = move |turn: &dyn Fn()| time(|| (0..TURNS).for_each(|_| turn())) / TURNS as f64;
    [
        row(format!("{jobs}, fresh"), fresh, move || of(&|| through(&Worker::new_fifo()))),
        row(format!("{jobs}, steady"), steady, move || {
            let deque = Worker::new_fifo();
            through(&deque);
            of(&|| through(&deque))
        }),
    ]
}

fn under_thieves(thieves: usize) -> Row {
    const TURNS: usize = 2_000;
    const JOBS: usize = 512;
    let published = ["7,350", "32,749", "88,932", "203,791"][[0, 1, 4, 8].iter().position(|n| *n == thieves).unwrap()];
    row(format!("thieves: {thieves}"), published, move || {
        let (deque, over, stolen) = (Worker::new_fifo(), AtomicBool::new(false), AtomicUsize::new(0));
        let start = Barrier::new(thieves + 1);
        let mut own = 0;
        let mut ns = 0.0;
        thread::scope(|scope| {
            for _ in 0..thieves {
                let (stealer, over, stolen, start) = (deque.stealer(), &over, &stolen, &start);
                scope.spawn(move || {
                    start.wait();
                    while !over.load(Ordering::Acquire) {
                        if stealer.steal().is_success() {
                            stolen.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            start.wait();
            ns = time(|| {
                for _ in 0..TURNS {
                    (0..JOBS).for_each(|job| deque.push(job));
                    (0..JOBS).for_each(|_| own += usize::from(deque.pop().is_some()));
                }
            });
            over.store(true, Ordering::Release);
        });
        let left = std::iter::from_fn(|| deque.pop()).count();
        assert_eq!(own + left + stolen.into_inner(), TURNS * JOBS);
        ns / TURNS as f64
    })
}

/// Takes all of 32 jobs, at most `limit` at a time and at most half.
fn theft(name: &str, limit: usize) -> Row {
    const TURNS: usize = 1_000;
    row(name, "-", move || {
        let (victim, thief, mut ns) = (Worker::new_fifo(), Worker::new_fifo(), 0.0);
        let stealer = victim.stealer();
        for _ in 0..TURNS {
            (0..32).for_each(|job| victim.push(job));
            let mut sum = 0;
            ns += time(|| {
                loop {
                    match thief.pop().map_or_else(|| steal(&stealer, &thief, limit), Steal::Success) {
                        Steal::Success(job) => sum += job,
                        Steal::Empty => break,
                        Steal::Retry => {}
                    }
                }
            });
            assert_eq!(sum, 32 * 31 / 2);
        }
        ns / TURNS as f64
    })
}

fn steal<T>(victim: &Stealer<T>, thief: &Worker<T>, limit: usize) -> Steal<T> {
    if limit == 1 { victim.steal() } else { victim.steal_batch_with_limit_and_pop(thief, limit) }
}

/// All jobs lie with the first of some threads; whoever has none steals half from a victim drawn at random.
fn locks(threads: usize) -> [Row; 2] {
    [
        row(format!("{threads} threads, behind locks"), "-", move || behind_locks(threads)),
        row(format!("{threads} threads, crossbeam"), "-", move || lock_free(threads)),
    ]
}

const JOBS: usize = 100_000;

/// Some hundred nanoseconds.
fn job(done: &AtomicUsize) {
    (0..200_u64).for_each(|round| {
        black_box(round);
    });
    done.fetch_add(1, Ordering::Relaxed);
}

/// Runs `worker` on each thread until all jobs are done; it is given its number, and what draws a victim at random.
fn race(threads: usize, worker: impl Fn(usize, &mut dyn FnMut() -> usize, &AtomicUsize) + Sync) -> f64 {
    let (start, done) = (Barrier::new(threads + 1), AtomicUsize::new(0));
    let mut ns = 0.0;
    thread::scope(|scope| {
        for number in 0..threads {
            let (start, done, worker) = (&start, &done, &worker);
            scope.spawn(move || {
                let mut state = number as u64 + 1;
                let mut draw = move || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (number + 1 + (state >> 33) as usize % (threads - 1)) % threads
                };
                start.wait();
                while done.load(Ordering::Relaxed) < JOBS {
                    worker(number, &mut draw, done);
                }
            });
        }
        // All wait for this thread, so that none can begin before the clock is read.
        ns = time(|| {
            start.wait();
            while done.load(Ordering::Relaxed) < JOBS {
                thread::sleep(std::time::Duration::from_micros(100));
            }
        });
    });
    assert_eq!(done.into_inner(), JOBS, "every job runs once");
    ns / 1e6
}

fn behind_locks(threads: usize) -> f64 {
    let deques: Vec<Mutex<VecDeque<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
    deques[0].lock().unwrap().extend(0..JOBS);
    race(threads, |number, draw, done| {
        let mut own = deques[number].lock().unwrap();
        if own.pop_front().is_some() {
            drop(own);
            return job(done);
        }
        drop(own);
        let Ok(mut victim) = deques[draw()].try_lock() else { return };
        let half = victim.len().div_ceil(2);
        let stolen: Vec<usize> = victim.drain(..half).collect();
        drop(victim);
        deques[number].lock().unwrap().extend(stolen);
    })
}

fn lock_free(threads: usize) -> f64 {
    let owners: Vec<Worker<usize>> = (0..threads).map(|_| Worker::new_fifo()).collect();
    (0..JOBS).for_each(|job| owners[0].push(job));
    let stealers: Vec<Stealer<usize>> = owners.iter().map(Worker::stealer).collect();
    let owners: Vec<Mutex<Worker<usize>>> = owners.into_iter().map(Mutex::new).collect();
    race(threads, |number, draw, done| {
        // Only its own thread ever locks it: the price of a shared closure, paid on both sides.
        let own = owners[number].lock().unwrap();
        let found = own.pop().map_or_else(|| stealers[draw()].steal_batch_and_pop(&own), Steal::Success);
        drop(own);
        if found.is_success() {
            job(done);
        }
    })
}

/// A job of 64 bytes.
type Stored = [u64; 8];

const STORED: usize = 200_000;

fn storage(threads: usize) -> [Row; 3] {
    let name = |how: &str| format!("{how}, {}", if threads == 1 { "one thread" } else { "two threads" });
    let [heap, ring] = if threads == 1 { ["18.5", "9.9"] } else { ["5.3 (parallel-for)", "1.35 (parallel-for)"] };
    [
        row(name("heap"), heap, move || {
            stored(threads, |_| {
                let deque = Worker::new_fifo();
                through(&deque, |job| Box::new([job; 8]), |stored| stored[0]);
            })
        }),
        row(name("boxes that return to a shared ring"), "-", move || {
            let pool: ObjectPool<Stored> = ObjectPool::new(4_096, || [0; 8]);
            stored(threads, |_| {
                let deque = Worker::new_fifo();
                let lend = |job| {
                    let mut stored = pool.acquire().expect("more boxes than jobs at a time");
                    *stored = [job; 8];
                    stored
                };
                through(&deque, lend, |stored| stored[0]);
            })
        }),
        row(name("boxes that return to their thread"), ring, move || {
            stored(threads, |_| {
                let deque = Worker::new_fifo();
                let home = std::cell::RefCell::new((0..64).map(|_| Box::new([0; 8])).collect::<Vec<Box<Stored>>>());
                let lend = |job| {
                    let mut stored = home.borrow_mut().pop().expect("more boxes than jobs at a time");
                    *stored = [job; 8];
                    stored
                };
                through(&deque, lend, |stored| {
                    let first = stored[0];
                    home.borrow_mut().push(stored);
                    first
                });
            })
        }),
    ]
}

/// Stores, queues and runs its share of jobs, 32 at a time.
fn through<T>(deque: &Worker<T>, store: impl Fn(u64) -> T, run: impl Fn(T) -> u64) {
    let mut sum = 0;
    for _ in 0..STORED / 32 {
        (0..32).for_each(|job| deque.push(store(job)));
        sum += std::iter::from_fn(|| deque.pop()).map(&run).sum::<u64>();
    }
    assert_eq!(black_box(sum), (STORED / 32) as u64 * 31 * 16);
}

/// Milliseconds in which every thread does its jobs.
fn stored(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Barrier::new(threads + 1);
    let mut ns = 0.0;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number);
                })
            })
            .collect();
        ns = time(|| {
            start.wait();
            workers.into_iter().for_each(|worker| worker.join().expect("no job is lost"));
        });
    });
    ns / 1e6
}
