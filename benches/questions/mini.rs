//! A small pool of threads for ideas that our runtime does not have: last in, first out; work shedding; split deques. Jobs
//! run in parts, and may spawn others and go to another pool. It does no more than the comparisons need: idle threads yield.

use super::harness::{Draw, on_threads};
use crossbeam_deque::{Steal, Stealer, Worker as Deque};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use forebay::runtime::AbortOnPanic;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// How the threads of a pool order and share jobs.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Threads of each pool.
    pub(crate) pools: &'static [usize],
    pub(crate) order: Order,
    pub(crate) victim: Victim,
    pub(crate) sharing: Sharing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Fifo,
    Lifo,
}

/// The victim that a thief asks first; then it asks all others.
#[derive(Clone, Copy)]
pub(crate) enum Victim {
    Random,
    /// The next thread.
    Neighbour,
}

/// How jobs come from a thread that has many to one that has none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The idle thread takes half of them.
    Steal,
    /// The loaded thread puts one at a time into the inbox of an idle thread; no thread steals.
    Shed,
    /// The loaded thread publishes half of them when it sees that none is public; the idle thread steals from these.
    Split,
}

pub(crate) trait Job: Send + Sized {
    /// Runs a part of the job; what it puts into `spawned` becomes jobs of the same thread.
    fn part(&mut self, spawned: &mut Vec<Self>) -> Next;
}

/// What becomes of a job after a part.
pub(crate) enum Next {
    Done,
    Again,
    /// It goes on in the last pool.
    Hop,
}

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) ns: f64,
    pub(crate) failed_steals: usize,
}

/// Jobs that wait for the threads of a pool, at most: as many as our runtime queues.
const QUEUE: usize = 4_096;
/// A thread with more jobs than this sheds.
const SHED_FROM: usize = 8;
const INBOX: usize = 64;

struct Shared<J> {
    rules: Rules,
    stealers: Vec<Stealer<J>>,
    /// The queue of each pool.
    queues: Vec<ArrayQueue<J>>,
    inboxes: Vec<ArrayQueue<J>>,
    idle: Vec<CachePadded<AtomicBool>>,
    /// Jobs that each thread has done.
    done: Vec<CachePadded<AtomicUsize>>,
    all: usize,
    failed_steals: AtomicUsize,
}

/// Runs `all` jobs: those that each thread begins with, in `seeds`; those that come into the queue of the first pool, from
/// `outside`; and what these spawn.
pub(crate) fn run<J: Job>(
    rules: Rules,
    all: usize,
    seeds: Vec<Vec<J>>,
    outside: impl Iterator<Item = J> + Send,
) -> Ran {
    let threads = rules.pools.iter().sum();
    let mut seeds = seeds;
    seeds.resize_with(threads, Vec::new);
    let deques: Vec<Deque<J>> = seeds.iter().map(|_| rules.order.deque()).collect();
    let shared = Shared {
        rules,
        stealers: deques.iter().map(Deque::stealer).collect(),
        queues: rules.pools.iter().map(|_| ArrayQueue::new(QUEUE)).collect(),
        inboxes: (0..threads).map(|_| ArrayQueue::new(INBOX)).collect(),
        idle: (0..threads).map(|_| CachePadded::default()).collect(),
        done: (0..threads).map(|_| CachePadded::default()).collect(),
        all,
        failed_steals: AtomicUsize::new(0),
    };
    let of_thread = |(number, (deque, seeds)): (usize, (Deque<J>, Vec<J>))| {
        let mut thread = Thread::new(number, &shared, deque);
        seeds.into_iter().for_each(|job| thread.push(job));
        Mutex::new(Some(thread))
    };
    let each: Vec<_> = deques.into_iter().zip(seeds).enumerate().map(of_thread).collect();
    let outside = Mutex::new(Some(outside));
    let ns = on_threads(threads + 1, |number| match each.get(number) {
        Some(thread) => thread.lock().unwrap().take().expect("each is taken once").work(),
        // One thread more brings what comes from outside.
        None => shared.feed(outside.lock().unwrap().take().expect("it is taken once")),
    });
    assert_eq!(shared.sum_done(), all, "every job is done once");
    drop(each);
    Ran { ns, failed_steals: shared.failed_steals.into_inner() }
}

impl<J> Shared<J> {
    fn feed(&self, jobs: impl Iterator<Item = J>) {
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
struct Thread<'a, J> {
    number: usize,
    pool: usize,
    /// All threads of the pool.
    members: Range<usize>,
    shared: &'a Shared<J>,
    /// What thieves may take from.
    public: Deque<J>,
    /// What they may not, of a split deque.
    private: VecDeque<J>,
    draw: Draw,
    searches: usize,
    failed_steals: usize,
    spawned: Vec<J>,
}

impl<'a, J: Job> Thread<'a, J> {
    fn new(number: usize, shared: &'a Shared<J>, public: Deque<J>) -> Thread<'a, J> {
        let mut first = 0;
        let of_pool = |(pool, size): (usize, &usize)| {
            let members = first..first + size;
            first += size;
            (pool, members)
        };
        let pools: Vec<_> = shared.rules.pools.iter().enumerate().map(of_pool).collect();
        let (pool, members) = pools.into_iter().find(|(_, members)| members.contains(&number)).expect("it has a pool");
        Thread {
            number,
            pool,
            members,
            shared,
            public,
            private: VecDeque::new(),
            draw: Draw::new(number),
            searches: 0,
            failed_steals: 0,
            spawned: Vec::new(),
        }
    }

    fn work(mut self) {
        // The others would wait for ever for what a job that panics leaves undone.
        let _guard = AbortOnPanic;
        let mut vain = 0;
        loop {
            if let Some(job) = self.next() {
                if vain > 0 {
                    self.shared.idle[self.number].store(false, Ordering::Relaxed);
                    vain = 0;
                }
                self.run(job);
                self.share();
                continue;
            }
            vain += 1;
            if vain == 1 {
                self.shared.idle[self.number].store(true, Ordering::Relaxed);
            }
            if self.shared.sum_done() == self.shared.all {
                break;
            }
            if vain % 16 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
        }
        self.shared.failed_steals.fetch_add(self.failed_steals, Ordering::Relaxed);
    }

    fn run(&mut self, mut job: J) {
        let mut spawned = std::mem::take(&mut self.spawned);
        let next = job.part(&mut spawned);
        spawned.drain(..).for_each(|job| self.push(job));
        self.spawned = spawned;
        match next {
            Next::Done => {
                let done = &self.shared.done[self.number];
                done.store(done.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            Next::Again => self.push(job),
            Next::Hop => {
                let queue = self.shared.queues.last().expect("a pool");
                if let Err(job) = queue.push(job) {
                    self.push(job);
                }
            }
        }
    }

    fn push(&mut self, job: J) {
        match self.shared.rules.sharing {
            Sharing::Split => self.private.push_back(job),
            Sharing::Steal | Sharing::Shed => self.public.push(job),
        }
    }

    /// Every other search begins with the queue, so that a job that comes back again and again keeps none waiting there.
    fn next(&mut self) -> Option<J> {
        self.searches += 1;
        if self.searches.is_multiple_of(2) {
            self.shared.queues[self.pool].pop().or_else(|| self.own())
        } else {
            self.own().or_else(|| self.shared.queues[self.pool].pop())
        }
        .or_else(|| self.steal())
    }

    fn own(&mut self) -> Option<J> {
        let private = match self.shared.rules.order {
            Order::Fifo => self.private.pop_front(),
            Order::Lifo => self.private.pop_back(),
        };
        private.or_else(|| self.public.pop()).or_else(|| self.shared.inboxes[self.number].pop())
    }

    fn steal(&mut self) -> Option<J> {
        let others = self.members.len() - 1;
        if others == 0 || self.shared.rules.sharing == Sharing::Shed {
            return None;
        }
        let first = match self.shared.rules.victim {
            Victim::Random => self.draw.below(others),
            Victim::Neighbour => 0,
        };
        for offset in 0..others {
            let step = 1 + (first + offset) % others;
            let victim = self.members.start + (self.number - self.members.start + step) % self.members.len();
            match self.shared.stealers[victim].steal_batch_and_pop(&self.public) {
                Steal::Success(job) => {
                    return Some(job);
                }
                Steal::Empty | Steal::Retry => self.failed_steals += 1,
            }
        }
        None
    }

    /// Gives others what they cannot take.
    fn share(&mut self) {
        match self.shared.rules.sharing {
            Sharing::Steal => {}
            Sharing::Shed => {
                if self.public.len() > SHED_FROM
                    && let Some(idle) =
                        self.members.clone().find(|other| self.shared.idle[*other].load(Ordering::Relaxed))
                    && let Some(job) = self.public.pop()
                    && let Err(job) = self.shared.inboxes[idle].push(job)
                {
                    self.public.push(job);
                }
            }
            Sharing::Split => {
                if self.private.len() > 1 && self.public.is_empty() {
                    let half = self.private.len() / 2;
                    self.private.drain(..half).for_each(|job| self.public.push(job));
                }
            }
        }
    }
}

impl Order {
    fn deque<J>(self) -> Deque<J> {
        match self {
            Order::Fifo => Deque::new_fifo(),
            Order::Lifo => Deque::new_lifo(),
        }
    }
}
