//! What workers write: counters that anyone may read at any time, and histograms that change hands.
//!
//! # Hand-over
//!
//! Each worker fills a ledger of its own. The control thread lays an empty ledger into the worker's mailbox and raises
//! `asked`; the worker looks at that flag once per turn of its loop and before it sleeps, exchanges its ledger for the
//! empty one and lays the full one out. A worker in a long job is late, and nobody waits for it: its ledger is picked
//! up next time. A ledger is always in exactly one place (worker, mailbox, control thread), and moves by value, so
//! nothing can be lost or counted twice. At most two full ledgers lie in a mailbox: the answer to the one outstanding
//! question, and the last one, which the worker leaves when it stops.

use super::counters::{Counter, Counts, WorkerCounters};
use super::ledger::{Ledger, Sample};
use crate::fate::{Fate, ReceiveError, Unsent};
use crate::time::Nanos;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, Ordering};

/// The measurements of one server: made once, shared by reference, lock-free for the workers.
#[derive(Debug)]
pub struct Board {
    workers: Box<[Worker]>,
}

impl Board {
    /// A board for `workers` workers, numbered from 0, and for the thread that stops them: at a stop it ends requests
    /// too, and counts as number `workers`.
    pub fn new(workers: usize) -> Board {
        Board { workers: (0..=workers).map(|_| Worker::new()).collect() }
    }

    /// How many workers it was made for.
    pub fn workers(&self) -> usize {
        self.workers.len() - 1
    }

    /// How many recorders there can be.
    pub(super) fn recorders(&self) -> usize {
        self.workers.len()
    }

    /// Datagrams that were received and have not ended; exact when nothing moves.
    pub fn in_flight(&self) -> u64 {
        let counts = self.counts();
        counts.received - counts.ended.iter().sum::<u64>()
    }

    /// Datagrams that were received, and how many met each fate.
    #[cfg(test)]
    pub(crate) fn ends(&self) -> (u64, [u64; Fate::ALL.len()]) {
        let counts = self.counts();
        (counts.received, counts.ended)
    }

    /// Failed calls so far.
    pub fn failures(&self) -> Failures {
        let counts = self.counts();
        Failures { receiving: counts.counted.receive_errors, sending: counts.counted.unsent }
    }

    /// The handle of worker number `worker` (or of the stopping thread, see [`Board::new`]), the only one there will ever be: its counters have one writer.
    ///
    /// # Panics
    /// When there is no such worker, or its recorder was taken before.
    pub fn recorder(&self, worker: usize) -> Recorder<'_> {
        let worker = &self.workers[worker];
        // Ordering: relaxed, only the exchange itself matters; the counters start at zero before the board is shared.
        let taken = worker.mailbox.taken.swap(true, Ordering::Relaxed);
        assert!(!taken, "a worker has one recorder");
        Recorder { counters: &worker.counters, mailbox: &worker.mailbox, ledger: Box::default() }
    }

    /// Every counter, now.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::read(self.workers.iter().map(|worker| &*worker.counters));
        // The stopping thread is no worker.
        counts.busy.truncate(self.workers());
        counts
    }

    /// When the present slice of `worker` began; `None` while it is in no job.
    pub fn running_since(&self, worker: usize) -> Option<Nanos> {
        self.workers[worker].counters.running_since()
    }

    /// A count that grows with every turn of the loop of `worker` and every slice of its jobs.
    pub fn moves(&self, worker: usize) -> u64 {
        self.workers[worker].counters.moves.read()
    }

    /// How many entries a worker has made in its ledgers, ever.
    pub(super) fn recorded(&self, worker: usize) -> u64 {
        self.workers[worker].counters.recorded.read()
    }

    /// The control thread's side of a worker's mailbox.
    pub(super) fn mailbox(&self, worker: usize) -> &Mailbox {
        &self.workers[worker].mailbox
    }
}

/// What the kernel refused to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Calls to receive, in the order of [`ReceiveError::ALL`].
    pub receiving: [u64; ReceiveError::ALL.len()],
    /// Messages that it did not take, in the order of [`Unsent::ALL`].
    pub sending: [u64; Unsent::ALL.len()],
}

/// Counters and mailbox lie on cache lines of their own: the worker writes the one for every datagram and reads the
/// other in every turn, and neither may wait for a neighbour's line.
#[derive(Debug)]
struct Worker {
    counters: CachePadded<WorkerCounters>,
    mailbox: CachePadded<Mailbox>,
}

impl Worker {
    fn new() -> Worker {
        let mailbox = Mailbox {
            asked: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            empty: ArrayQueue::new(1),
            full: ArrayQueue::new(2),
        };
        Worker { counters: CachePadded::default(), mailbox: CachePadded::new(mailbox) }
    }
}

/// Where ledgers change hands; the protocol stands at the top of this file.
#[derive(Debug)]
pub(super) struct Mailbox {
    asked: AtomicBool,
    taken: AtomicBool,
    gone: AtomicBool,
    empty: ArrayQueue<Box<Ledger>>,
    full: ArrayQueue<Box<Ledger>>,
}

impl Mailbox {
    /// Asks the worker for its ledger in exchange for `empty`. Not while a question is outstanding.
    pub(super) fn ask(&self, empty: Box<Ledger>) {
        debug_assert!(empty.is_empty(), "what a worker is given must not be counted again");
        let accepted = self.empty.push(empty);
        debug_assert!(accepted.is_ok(), "one question at a time");
        // Ordering: release, pairs with the acquire in `Recorder::hand_over`: who sees the flag finds the ledger.
        self.asked.store(true, Ordering::Release);
    }

    /// A ledger that the worker has laid out.
    pub(super) fn pick_up(&self) -> Option<Box<Ledger>> {
        self.full.pop()
    }

    /// Takes a question back that the worker will never answer.
    pub(super) fn take_back(&self) -> Option<Box<Ledger>> {
        self.empty.pop()
    }

    /// True once the worker has stopped; everything it measured is laid out by then.
    pub(super) fn is_gone(&self) -> bool {
        // Ordering: acquire, pairs with the release in `Recorder::drop`: the last ledger is seen to be laid out.
        self.gone.load(Ordering::Acquire)
    }
}

/// A worker's own handle to the board. Dropped, it leaves the worker's last ledger for the control thread.
#[derive(Debug)]
pub struct Recorder<'b> {
    counters: &'b WorkerCounters,
    mailbox: &'b Mailbox,
    ledger: Box<Ledger>,
}

impl Recorder<'_> {
    /// `datagrams` were received. To be called before any of them can end, here or elsewhere.
    pub fn received(&mut self, datagrams: u64) {
        self.counters.received.add(datagrams);
    }

    /// A datagram ended, wherever it was received. [`Fate::Answered`] here is one whose handler chose not to reply
    /// (no sample); a fate with reasons gets the one for which none is told ([`Recorder::count`] tells others).
    pub fn ended(&mut self, fate: Fate) {
        match Counter::of_fate(fate) {
            Some(counter) => self.count(counter),
            None => self.counters.ended[fate as usize].add(1),
        }
    }

    /// One more of `counter`. One that is a reason of a fate ends a datagram.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.counters.count(counter);
    }

    /// A datagram ended as [`Fate::Answered`], and this is where its time went. Allocates at the first sample of a
    /// class, and never again.
    pub fn answered(&mut self, sample: &Sample) {
        self.ledger.record(sample);
        self.counters.recorded.add(1);
        self.counters.ended[Fate::Answered as usize].add(1);
    }

    /// The worker begins a slice of a job at `now`: until [`Recorder::end_slice`] the time counts as busy.
    pub fn begin_slice(&mut self, now: Nanos) {
        self.counters.begin(now);
    }

    /// The slice is over, and this is the time that it took.
    pub fn end_slice(&mut self, time: Nanos) {
        self.counters.end(time);
    }

    /// An emulated core slept for `slept` and woke `late` after its deadline.
    pub fn overshoot(&mut self, slept: Nanos, late: Nanos) {
        self.ledger.record_overshoot(late);
        self.counters.recorded.add(1);
        self.counters.slept_ns.add(slept.get());
        self.counters.late_ns.add(late.get());
    }

    /// Hands the ledger over if the control thread asked: once per turn of the worker's loop, between two slices, and
    /// before it sleeps. Nearly always nobody asked; then all it does is to count that the worker moves.
    #[inline]
    pub fn hand_over(&mut self) {
        self.counters.moves.add(1);
        // Ordering: acquire, pairs with the release in `Mailbox::ask`.
        if self.mailbox.asked.load(Ordering::Acquire) {
            self.exchange();
        }
    }

    #[cold]
    fn exchange(&mut self) {
        // Ordering: relaxed, the control thread does not ask again before it has picked up the ledger pushed below,
        // and that push and pop order this store before its next one.
        self.mailbox.asked.store(false, Ordering::Relaxed);
        if let Some(empty) = self.mailbox.empty.pop() {
            self.lay_out(empty);
        }
    }

    fn lay_out(&mut self, next: Box<Ledger>) {
        let full = std::mem::replace(&mut self.ledger, next);
        let accepted = self.mailbox.full.push(full);
        debug_assert!(accepted.is_ok(), "at most two full ledgers lie in a mailbox");
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.lay_out(Box::default());
        // Ordering: release, pairs with the acquire in `Mailbox::is_gone`.
        self.mailbox.gone.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::{Failed, Malformed, Refused};
    use std::sync::mpsc;

    /// Is `received >= sum of fates` in every reading, while one thread receives and another ends what it received?
    /// Method: a channel between the two plays the queue; a third thread reads until both are through.
    #[test]
    fn no_reading_ever_sees_more_ends_than_arrivals() {
        const DATAGRAMS: u64 = 30_000;
        let board = Board::new(2);
        let (queue, jobs) = mpsc::sync_channel(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut recorder, queue) = (board.recorder(0), queue);
                for job in 0..DATAGRAMS {
                    recorder.received(1);
                    queue.send(job).expect("the other thread receives to the end");
                }
            });
            scope.spawn(|| {
                let mut recorder = board.recorder(1);
                for job in jobs {
                    match job % 3 {
                        0 => recorder.answered(&Sample::default()),
                        1 => recorder.count(Counter::Refused(Refused::CostCap)),
                        _ => recorder.ended(Fate::ShedExpired),
                    }
                }
            });
            loop {
                let counts = board.counts();
                let ended: u64 = counts.ended.iter().sum();
                assert!(ended <= counts.received, "{ended} ended, {} received", counts.received);
                if ended == DATAGRAMS {
                    break;
                }
            }
        });
        let counts = board.counts();
        assert_eq!((counts.received, counts.ended[Fate::Refused as usize]), (DATAGRAMS, DATAGRAMS / 3));
    }

    /// Does each reason count once, under its fate?
    #[test]
    fn reasons_sum_to_their_fate() {
        let board = Board::new(1);
        let mut recorder = board.recorder(0);
        recorder.count(Counter::Malformed(Malformed::Magic));
        recorder.ended(Fate::Malformed);
        recorder.count(Counter::Refused(Refused::UnknownClass));
        recorder.count(Counter::Failed(Failed::Overflow));
        recorder.ended(Fate::Failed);
        let counts = board.counts();
        assert_eq!(counts.ended[Fate::Malformed as usize], 2);
        assert_eq!(counts.counted.malformed[Malformed::Magic as usize], 1);
        assert_eq!(counts.counted.malformed[Malformed::Other as usize], 1);
        assert_eq!(counts.ended[Fate::Refused as usize], 1);
        assert_eq!(counts.ended[Fate::Failed as usize], 2);
        assert_eq!(
            (counts.counted.failed[Failed::Overflow as usize], counts.counted.failed[Failed::Panic as usize]),
            (1, 1)
        );
    }

    /// Is a second writer of the same counters impossible?
    #[test]
    #[should_panic(expected = "a worker has one recorder")]
    fn a_worker_has_one_recorder() {
        let board = Board::new(1);
        let _first = board.recorder(0);
        let _second = board.recorder(0);
    }
}
