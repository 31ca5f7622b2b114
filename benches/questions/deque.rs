//! What do deques cost, fresh or used before, alone or with thieves, and do lock-free ones beat deques behind locks?

use super::harness::{Arm, Draw, Size, ns, on_threads, text, threads};
use super::page::{Answer, Grid, Table};
use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

pub(crate) const QUESTION: &str = "What do deques cost, fresh or used before, alone or with thieves, and do lock-free ones beat \
    deques behind locks?";

const KINDS: [&str; 3] = ["crossbeam", "mutex", "ArrayQueue"];

pub(crate) fn ask(size: Size) -> Answer {
    let (push_pop, thieves, races) = (push_pop(size), under_thieves(size), races(size));
    let fresh = push_pop.at("64, fresh", "crossbeam").over(push_pop.at("64, steady", "crossbeam"));
    let eight = |kind| thieves.at("8 thieves", kind).over(thieves.at("0 thieves", kind)).median();
    let locks = races.at("2 threads", "mutex, random").over(races.at("2 threads", "crossbeam, random"));
    let verdict = format!(
        "A fresh deque of 64 costs {} times a used one; eight thieves cost the owner of a lock-free deque {} times the time \
         without, behind a mutex {} times; sharing out a backlog from behind locks takes {} times the time of crossbeam's.",
        text(fresh.median()),
        text(eight("crossbeam")),
        text(eight("mutex")),
        text(locks.median())
    );
    Answer {
        tables: vec![push_pop.table, thieves.table, theft(size), races.table],
        not_shown: "Thieves that really run at once beyond the number of processors; jobs larger than a pointer; deques that \
            grow while thieves read them.",
        verdict,
        failure: None,
    }
}

/// A deque with an owner, and thieves that take single jobs.
trait Deque: Send + Sync + 'static {
    type Owner: 'static;
    fn new(places: usize) -> (Self::Owner, Self);
    fn push(owner: &Self::Owner, deque: &Self, job: usize);
    fn pop(owner: &Self::Owner, deque: &Self) -> Option<usize>;
    fn steal(&self) -> Option<usize>;
}

impl Deque for Stealer<usize> {
    type Owner = Worker<usize>;

    fn new(_: usize) -> (Worker<usize>, Stealer<usize>) {
        let owner = Worker::new_fifo();
        let stealer = owner.stealer();
        (owner, stealer)
    }

    fn push(owner: &Worker<usize>, _: &Self, job: usize) {
        owner.push(job);
    }

    fn pop(owner: &Worker<usize>, _: &Self) -> Option<usize> {
        owner.pop()
    }

    fn steal(&self) -> Option<usize> {
        Stealer::steal(self).success()
    }
}

impl Deque for Mutex<VecDeque<usize>> {
    type Owner = ();

    fn new(_: usize) -> ((), Self) {
        ((), Mutex::default())
    }

    fn push((): &(), deque: &Self, job: usize) {
        deque.lock().unwrap().push_back(job);
    }

    fn pop((): &(), deque: &Self) -> Option<usize> {
        deque.lock().unwrap().pop_front()
    }

    fn steal(&self) -> Option<usize> {
        self.try_lock().ok()?.pop_front()
    }
}

impl Deque for ArrayQueue<usize> {
    type Owner = ();

    fn new(places: usize) -> ((), Self) {
        ((), ArrayQueue::new(places))
    }

    fn push((): &(), deque: &Self, job: usize) {
        // A thief that was interrupted in the middle of a job keeps its place from being filled again.
        while ArrayQueue::push(deque, job).is_err() {
            thread::yield_now();
        }
    }

    fn pop((): &(), deque: &Self) -> Option<usize> {
        ArrayQueue::pop(deque)
    }

    fn steal(&self) -> Option<usize> {
        ArrayQueue::pop(self)
    }
}

fn push_pop(size: Size) -> Grid {
    let mut grid = Grid::new("Push and pop of N jobs, ns for all", &[&["N"], &KINDS[..]].concat());
    for (jobs, fresh, steady) in [(64, "1,486", "878"), (512, "7,117", "7,111"), (4_096, "58,225", "57,561")] {
        for (name, published, fresh) in [("fresh", fresh, true), ("steady", steady, false)] {
            let arms: Vec<Arm<'_>> = vec![
                through::<Stealer<usize>>(size, jobs, fresh),
                through::<Mutex<VecDeque<usize>>>(size, jobs, fresh),
                through::<ArrayQueue<usize>>(size, jobs, fresh),
            ];
            grid.case(size, format!("{jobs}, {name}"), published, arms);
        }
    }
    grid
}

fn through<D: Deque>(size: Size, jobs: usize, fresh: bool) -> Arm<'static> {
    let turns = size.of(100_000 / jobs, 2);
    let once = move |owner: &D::Owner, deque: &D| {
        (0..jobs).for_each(|job| D::push(owner, deque, black_box(job)));
        let sum: usize = std::iter::from_fn(|| D::pop(owner, deque)).sum();
        assert_eq!(sum, jobs * (jobs - 1) / 2);
    };
    let (owner, used) = D::new(jobs);
    once(&owner, &used);
    Box::new(move || {
        let all = ns(|| {
            for _ in 0..turns {
                if fresh {
                    let (owner, deque) = D::new(jobs);
                    once(&owner, &deque);
                } else {
                    once(&owner, &used);
                }
            }
        });
        [all / turns as f64]
    })
}

fn under_thieves(size: Size) -> Grid {
    let columns = [&["thieves"], &KINDS[..]].concat();
    let mut grid = Grid::new("512 pushes and 512 pops of the owner, ns", &columns);
    for (thieves, published) in [(0, "7,350"), (1, "32,749"), (4, "88,932"), (8, "203,791")] {
        let arms: Vec<Arm<'_>> = vec![
            with_thieves::<Stealer<usize>>(size, thieves),
            with_thieves::<Mutex<VecDeque<usize>>>(size, thieves),
            with_thieves::<ArrayQueue<usize>>(size, thieves),
        ];
        // The owner is a thread too.
        let mark = if thieves + 1 > super::harness::processors() { super::page::CROWDED } else { "" };
        let ending = if thieves == 1 { "f" } else { "ves" };
        grid.case(size, format!("{thieves} thie{ending}{mark}"), published, arms);
    }
    grid
}

fn with_thieves<D: Deque>(size: Size, thieves: usize) -> Arm<'static> {
    const JOBS: usize = 512;
    let turns = size.of(400, 2);
    Box::new(move || {
        let (owner, deque) = D::new(JOBS);
        let (over, stolen, start) = (AtomicBool::new(false), AtomicUsize::new(0), Barrier::new(thieves + 1));
        let (mut own, mut time) = (0, 0.0);
        thread::scope(|scope| {
            for _ in 0..thieves {
                scope.spawn(|| {
                    start.wait();
                    while !over.load(Ordering::Acquire) {
                        if deque.steal().is_some() {
                            stolen.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            start.wait();
            time = ns(|| {
                for _ in 0..turns {
                    (0..JOBS).for_each(|job| D::push(&owner, &deque, job));
                    (0..JOBS).for_each(|_| own += usize::from(D::pop(&owner, &deque).is_some()));
                }
            });
            over.store(true, Ordering::Release);
        });
        let left = std::iter::from_fn(|| D::pop(&owner, &deque)).count();
        assert_eq!(own + left + stolen.into_inner(), turns * JOBS, "every job is taken once");
        [time / turns as f64]
    })
}

/// One thief takes all of 32 jobs.
fn theft(size: Size) -> Table {
    let mut grid = Grid::new("One thief takes 32 jobs out of crossbeam's deque, ns", &["", "one by one", "by halves"]);
    let arms: Vec<Arm<'_>> = [1, 31].map(|limit| -> Arm<'_> { Box::new(move || [theft_of(size, limit)]) }).into();
    grid.case(size, "32 jobs", "-", arms);
    grid.table
}

/// The time to take 32 jobs, at most `limit` at a time and at most half of what is left.
fn theft_of(size: Size, limit: usize) -> f64 {
    let turns = size.of(1_000, 2);
    let (victim, thief, mut time) = (Worker::new_fifo(), Worker::new_fifo(), 0.0);
    let stealer = victim.stealer();
    let steal = || if limit == 1 { stealer.steal() } else { stealer.steal_batch_with_limit_and_pop(&thief, limit) };
    for _ in 0..turns {
        (0..32).for_each(|job| victim.push(job));
        let mut sum = 0;
        time += ns(|| {
            loop {
                match thief.pop().map_or_else(steal, Steal::Success) {
                    Steal::Success(job) => sum += job,
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        });
        assert_eq!(sum, 32 * 31 / 2);
    }
    time / f64::from(turns)
}

/// Which victim a thief asks.
#[derive(Clone, Copy)]
enum Victim {
    Random,
    RoundRobin,
}

/// All jobs lie with the first of some threads; a thread that has none steals.
fn races(size: Size) -> Grid {
    let columns = ["threads", "mutex, random", "mutex, round-robin", "ArrayQueue, random", "crossbeam, random"];
    let mut grid = Grid::new("100,000 jobs of 0.2 us on one of the threads, ms until all are done", &columns);
    let jobs = size.of(100_000, 1_000);
    for count in [2, 8] {
        let arms: Vec<Arm<'_>> = vec![
            Box::new(move || [behind_locks(count, jobs, Victim::Random)]),
            Box::new(move || [behind_locks(count, jobs, Victim::RoundRobin)]),
            Box::new(move || [one_by_one(count, jobs)]),
            Box::new(move || [lock_free(count, jobs)]),
        ];
        grid.case(size, threads(count, "thread"), "-", arms);
    }
    grid
}

fn job(done: &AtomicUsize) {
    black_box(super::harness::operations(150));
    done.fetch_add(1, Ordering::Relaxed);
}

/// Milliseconds in which `turn`, called again and again on each thread with its number and a victim's, does all jobs.
fn race(threads: usize, jobs: usize, victim: Victim, turn: impl Fn(usize, usize, &AtomicUsize) + Sync) -> f64 {
    let done = AtomicUsize::new(0);
    let time = on_threads(threads, |number| {
        let (mut draw, mut count) = (Draw::new(number), 0);
        while done.load(Ordering::Relaxed) < jobs {
            count += 1;
            let step = match victim {
                Victim::Random => draw.below(threads - 1),
                Victim::RoundRobin => count % (threads - 1),
            };
            turn(number, (number + 1 + step) % threads, &done);
        }
    });
    assert_eq!(done.into_inner(), jobs, "every job runs once");
    time / 1e6
}

fn behind_locks(threads: usize, jobs: usize, victim: Victim) -> f64 {
    let deques: Vec<Mutex<VecDeque<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
    deques[0].lock().unwrap().extend(0..jobs);
    race(threads, jobs, victim, |number, victim, done| {
        let own = deques[number].lock().unwrap().pop_front();
        if own.is_some() {
            return job(done);
        }
        let Ok(mut victim) = deques[victim].try_lock() else { return };
        let half = victim.len().div_ceil(2);
        let stolen: Vec<usize> = victim.drain(..half).collect();
        drop(victim);
        deques[number].lock().unwrap().extend(stolen);
    })
}

fn one_by_one(threads: usize, jobs: usize) -> f64 {
    let queues: Vec<ArrayQueue<usize>> = (0..threads).map(|_| ArrayQueue::new(jobs)).collect();
    (0..jobs).for_each(|job| queues[0].push(job).expect("room for all"));
    race(threads, jobs, Victim::Random, |number, victim, done| {
        if queues[number].pop().or_else(|| queues[victim].pop()).is_some() {
            job(done);
        }
    })
}

fn lock_free(threads: usize, jobs: usize) -> f64 {
    let owners: Vec<Worker<usize>> = (0..threads).map(|_| Worker::new_fifo()).collect();
    (0..jobs).for_each(|job| owners[0].push(job));
    let stealers: Vec<Stealer<usize>> = owners.iter().map(Worker::stealer).collect();
    let owners: Vec<Mutex<Worker<usize>>> = owners.into_iter().map(Mutex::new).collect();
    race(threads, jobs, Victim::Random, |number, victim, done| {
        // Only its own thread ever locks it: the price of a shared closure, paid on both sides.
        let own = owners[number].lock().unwrap();
        let found = own.pop().map_or_else(|| stealers[victim].steal_batch_and_pop(&own), Steal::Success);
        drop(own);
        if found.is_success() {
            job(done);
        }
    })
}
