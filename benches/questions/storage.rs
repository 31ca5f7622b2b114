//! Where does a job live while it waits: on the heap, in a shared ring, in a ring of its thread, or in a box that returns
//! home?

use super::harness::{Arm, Size, on_threads, text, threads};
use super::page::{Answer, Grid, Table};
use crossbeam_deque::{Stealer, Worker};
use forebay::queue::{ObjectPool, Pooled};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) const QUESTION: &str = "Where does a job live while it waits: on the heap, in a shared ring, in a ring of its thread, \
    or in a box that returns home?";

const COLUMNS: [&str; 6] =
    ["", "heap", "shared ring", "ring of the thread", "box, shared home", "box, home with the thread"];

/// Slots of a ring, and boxes of a home that all share.
const SLOTS: usize = 4_096;
/// Jobs that wait at a time.
const WAITING: usize = 32;

pub(crate) fn ask(size: Size) -> Answer {
    let jobs = size.of(200_000, 640);
    let title = "Single jobs of 64 bytes: stored, queued, taken and run, 200,000 by each thread, ms";
    let mut single = Grid::new(title, &COLUMNS);
    let lapped = Cell::new(0);
    for (count, published) in [(1, "heap 18.5 / ring of the thread 9.9"), (2, "-")] {
        let arms: Vec<Arm<'_>> = vec![
            Box::new(move || intact(stored(count, jobs, &|_| Heap))),
            Box::new(|| {
                let ring = Ring::new();
                let (time, wrong) = stored(count, jobs, &|_| Shared(&ring));
                lapped.set(lapped.get() + wrong);
                [time]
            }),
            Box::new(move || intact(stored(count, jobs, &|_| Ring::new()))),
            Box::new(move || {
                let pool = ObjectPool::new(SLOTS, || [0; 8]);
                intact(stored(count, jobs, &|_| &pool))
            }),
            Box::new(move || intact(stored(count, jobs, &|_| Home::new()))),
        ];
        single.case(size, threads(count, "thread"), published, arms);
    }
    let title = "A parallel loop over 1 M numbers in halves down to 256, each half a stored job, two threads, ms";
    let mut parallel = Grid::new(title, &COLUMNS);
    let numbers = size.of(1 << 20, 1 << 12);
    let arms: Vec<Arm<'_>> = vec![
        Box::new(move || [halved(numbers, &|_| Heap)]),
        Box::new(move || {
            let ring = Ring::new();
            [halved(numbers, &|_| Shared(&ring))]
        }),
        Box::new(move || {
            let rings = [Ring::new(), Ring::new()];
            [halved(numbers, &|thread| Own { rings: &rings, thread })]
        }),
        Box::new(move || {
            let pool = ObjectPool::new(SLOTS, || [0; 8]);
            [halved(numbers, &|_| &pool)]
        }),
        Box::new(move || [halved(numbers, &|_| Home::new())]),
    ];
    parallel.case(size, "parallel loop", "heap 5.3 / ring of the thread 1.35", arms);

    let ring = "ring of the thread";
    let over = |grid: &Grid, case, column| text(grid.at(case, column).over(grid.at(case, ring)).median());
    let verdict = format!(
        "A box that returns to its thread takes {} times the ring of the thread for single jobs and {} times in the parallel \
         loop (goal: 1.2), and needs no proof that a slot is free: it is owned; one that returns to a home which all share \
         takes {} and {} times, the heap {} and {} times; the shared ring has overwritten {} jobs of a thread that was interrupted \
         while the other went round it, the boxes none.",
        over(&single, "1 thread", COLUMNS[5]),
        over(&parallel, "parallel loop", COLUMNS[5]),
        over(&single, "1 thread", COLUMNS[4]),
        over(&parallel, "parallel loop", COLUMNS[4]),
        over(&single, "1 thread", COLUMNS[1]),
        over(&parallel, "parallel loop", COLUMNS[1]),
        lapped.get(),
    );
    Answer {
        tables: vec![single.table, parallel.table, lap()],
        not_shown: "Slots here are atomic words, copied in and out, because a ring that overwrites cannot be written without \
            `unsafe` otherwise. Packets and slots of the server are boxes with a shared home, one of each for a request with \
            3 us of kernel time; tasks of the library are on the heap, because a task lives as long as its handle.",
        verdict,
        failure: None,
    }
}

/// A job: what it works on, and room for what a closure captures.
type Job = [u64; 8];

/// A place where jobs wait.
trait Storage {
    type Ticket: Send;
    fn store(&self, job: Job) -> Self::Ticket;
    fn take(&self, ticket: Self::Ticket) -> Job;
}

struct Heap;

impl Storage for Heap {
    type Ticket = Box<Job>;

    fn store(&self, job: Job) -> Box<Job> {
        Box::new(job)
    }

    fn take(&self, ticket: Box<Job>) -> Job {
        *ticket
    }
}

/// Slots that are filled in turn, whether or not what they held has been taken.
struct Ring {
    slots: Box<[[AtomicU64; 8]]>,
    next: AtomicUsize,
}

impl Ring {
    fn new() -> Ring {
        Ring { slots: (0..SLOTS).map(|_| Default::default()).collect(), next: AtomicUsize::new(0) }
    }

    fn put(&self, slot: usize, job: Job) -> usize {
        // Ordering: relaxed, the deque that the number travels through orders the job.
        self.slots[slot % SLOTS].iter().zip(job).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        slot % SLOTS
    }

    fn get(&self, slot: usize) -> Job {
        std::array::from_fn(|word| self.slots[slot][word].load(Ordering::Relaxed))
    }
}

/// The ring that all threads share: each slot is drawn by an addition that all contend for.
struct Shared<'a>(&'a Ring);

impl Storage for Shared<'_> {
    type Ticket = usize;

    fn store(&self, job: Job) -> usize {
        self.0.put(self.0.next.fetch_add(1, Ordering::Relaxed), job)
    }

    fn take(&self, slot: usize) -> Job {
        self.0.get(slot)
    }
}

impl Ring {
    /// The next slot, for the one thread that fills this ring.
    fn next_alone(&self) -> usize {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(next.wrapping_add(1), Ordering::Relaxed);
        next
    }
}

/// The ring of one thread, whose jobs no other takes.
impl Storage for Ring {
    type Ticket = usize;

    fn store(&self, job: Job) -> usize {
        self.put(self.next_alone(), job)
    }

    fn take(&self, slot: usize) -> Job {
        self.get(slot)
    }
}

/// The ring of each thread, out of which others may take.
struct Own<'a> {
    rings: &'a [Ring; 2],
    thread: usize,
}

impl Storage for Own<'_> {
    type Ticket = usize;

    fn store(&self, job: Job) -> usize {
        let ring = &self.rings[self.thread];
        self.thread * SLOTS + ring.put(ring.next_alone(), job)
    }

    fn take(&self, slot: usize) -> Job {
        self.rings[slot / SLOTS].get(slot % SLOTS)
    }
}

impl<'p> Storage for &'p ObjectPool<Job> {
    type Ticket = Pooled<'p, Job>;

    fn store(&self, job: Job) -> Pooled<'p, Job> {
        let mut stored = self.acquire().expect("more boxes than jobs at a time");
        *stored = job;
        stored
    }

    fn take(&self, ticket: Pooled<'p, Job>) -> Job {
        *ticket
    }
}

/// Boxes that stay with the thread that has emptied them.
#[expect(clippy::vec_box, reason = "the box travels as it is")]
struct Home(RefCell<Vec<Box<Job>>>);

impl Home {
    fn new() -> Home {
        Home(RefCell::new((0..WAITING).map(|_| Box::new([0; 8])).collect()))
    }
}

impl Storage for Home {
    type Ticket = Box<Job>;

    fn store(&self, job: Job) -> Box<Job> {
        // A thread that others take more from than it takes from them makes new ones: those of the others pile up there.
        let mut stored = self.0.borrow_mut().pop().unwrap_or_default();
        *stored = job;
        stored
    }

    fn take(&self, ticket: Box<Job>) -> Job {
        let job = *ticket;
        self.0.borrow_mut().push(ticket);
        job
    }
}

/// Milliseconds in which each thread has stored, queued, taken and run its jobs; and the jobs that were not what they had been
/// when they were stored.
fn stored<S: Storage>(threads: usize, jobs: usize, storage: &(impl Fn(usize) -> S + Sync)) -> (f64, usize) {
    let overwritten = AtomicUsize::new(0);
    let time = on_threads(threads, |thread| {
        let (storage, deque) = (storage(thread), Worker::new_fifo());
        let mut wrong = 0;
        for first in (0..jobs).step_by(WAITING) {
            let stored = (first..first + WAITING).map(|job| [(job * threads + thread) as u64; 8]);
            stored.clone().for_each(|job| deque.push(storage.store(job)));
            wrong += stored.filter(|job| storage.take(deque.pop().expect("each is there")) != *job).count();
        }
        assert!(deque.is_empty());
        overwritten.fetch_add(wrong, Ordering::Relaxed);
    });
    (time / 1e6, overwritten.into_inner())
}

/// Milliseconds, where no job may have been overwritten.
fn intact((time, overwritten): (f64, usize)) -> [f64; 1] {
    assert_eq!(overwritten, 0, "every job is what it was");
    [time]
}

/// Milliseconds in which two threads have summed up numbers: a job is a range, and puts half of itself aside while it is
/// long.
fn halved<S: Storage>(numbers: usize, storage: &(impl Fn(usize) -> S + Sync)) -> f64 {
    const GRAIN: u64 = 256;
    // The whole loop stores no more jobs than a ring has slots: none is overwritten, which would end it never.
    assert!(numbers as u64 / GRAIN <= SLOTS as u64);
    let deques: [Worker<S::Ticket>; 2] = [Worker::new_lifo(), Worker::new_lifo()];
    let stealers = deques.each_ref().map(Worker::stealer);
    let deques = deques.map(|deque| Mutex::new(Some(deque)));
    let (done, sum) = (AtomicUsize::new(0), AtomicU64::new(0));
    let time = on_threads(2, |thread| {
        let deque = deques[thread].lock().unwrap().take().expect("each is taken once");
        let (storage, other): (S, &Stealer<S::Ticket>) = (storage(thread), &stealers[1 - thread]);
        if thread == 0 {
            deque.push(storage.store([0, numbers as u64, 0, 0, 0, 0, 0, 0]));
        }
        while done.load(Ordering::Relaxed) < numbers {
            let Some(ticket) = deque.pop().or_else(|| other.steal().success()) else { continue };
            let [start, mut end, ..] = storage.take(ticket);
            while end - start > GRAIN {
                let middle = start.midpoint(end);
                deque.push(storage.store([middle, end, 0, 0, 0, 0, 0, 0]));
                end = middle;
            }
            sum.fetch_add((start..end).map(black_box).sum(), Ordering::Relaxed);
            done.fetch_add((end - start) as usize, Ordering::Relaxed);
        }
    });
    let numbers = numbers as u64;
    assert_eq!(sum.into_inner(), numbers * (numbers - 1) / 2, "every number is added once");
    time / 1e6
}

/// What becomes of jobs when more wait than there are slots.
fn lap() -> Table {
    const JOBS: usize = SLOTS + SLOTS / 2;
    let ring = Ring::new();
    let slots: Vec<usize> = (0..JOBS).map(|job| ring.store([job as u64; 8])).collect();
    let overwritten = slots.iter().enumerate().filter(|(job, slot)| ring.take(**slot)[0] != *job as u64).count();
    let pool: ObjectPool<Job> = ObjectPool::new(SLOTS, || [0; 8]);
    let boxes: Vec<_> = (0..JOBS).map_while(|_| pool.acquire()).collect();
    let refused = JOBS - boxes.len();
    let mut table = Table::new(format!("{JOBS} jobs wait, {SLOTS} slots"), &["storage", "overwritten", "refused"]);
    table.row(vec!["ring".to_owned(), overwritten.to_string(), "0".to_owned()]);
    table.row(vec!["boxes (`ObjectPool`)".to_owned(), "0".to_owned(), refused.to_string()]);
    assert_eq!(overwritten, JOBS - SLOTS, "a lap overwrites");
    table
}
