//! Counters with one writer each, and what a reader makes of them.
//!
//! Why `in_flight` is never negative. A worker adds to `received` before it passes a datagram on; the datagram reaches
//! the worker that ends it through a queue, whose push and pop synchronise; that worker then adds to the counter of its
//! fate. So the store to `received` happens before the store to the fate. A reader reads every fate of every worker
//! first (acquire) and `received` afterwards: whichever end it saw, it sees the matching arrival too. It may see
//! arrivals whose ends it missed; they count as in flight, as they were a moment before.

use super::{Failed, Fate, ReceiveError, Refused, Unsent};
use crate::time::{Nanos, clock};
use crate::wire::Malformed;
use std::sync::atomic::{AtomicU64, Ordering};

/// What came of looking for work at another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Steal {
    /// Jobs were taken from a deque.
    Found,
    /// The deque was empty.
    Empty,
    /// Another thief was at the deque.
    Contended,
    /// Datagrams were received from a busy victim's socket.
    SocketFound,
    /// A busy victim's socket was empty.
    SocketEmpty,
}

impl Steal {
    /// Every result, in the order of their numbers.
    pub const ALL: [Steal; 5] = [Steal::Found, Steal::Empty, Steal::Contended, Steal::SocketFound, Steal::SocketEmpty];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Steal::Found => "found",
            Steal::Empty => "empty",
            Steal::Contended => "contended",
            Steal::SocketFound => "socket_found",
            Steal::SocketEmpty => "socket_empty",
        }
    }
}

/// Why a request left its worker before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Continuation {
    /// The policy wanted the worker back at a checkpoint.
    Yield,
    /// The handler asked for another pool.
    Hop,
    /// It waited for a part of its own, which has ended.
    Join,
}

impl Continuation {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Continuation; 3] = [Continuation::Yield, Continuation::Hop, Continuation::Join];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Continuation::Yield => "yield",
            Continuation::Hop => "hop",
            Continuation::Join => "join",
        }
    }
}

/// A counter that one thread writes and any may read.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    /// Adds `amount`. Only the owner of the counter may call this: it is a load and a store, because a
    /// read-modify-write locks the cache line at five times the cost.
    pub(super) fn add(&self, amount: u64) {
        // Ordering: relaxed, the only writer reads its own last store.
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        // Ordering: release, pairs with the acquire in `read`: who sees this count also sees what its writer did and
        // learnt before. Without it a fate could be seen and its arrival not.
        self.0.store(sum, Ordering::Release);
    }

    /// The count, at most as stale as the reader's view of that cache line.
    pub(super) fn read(&self) -> u64 {
        // Ordering: acquire, pairs with the release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// The counters of one worker, written by it alone.
#[derive(Debug, Default)]
pub(super) struct WorkerCounters {
    pub(super) received: Tally,
    /// By `Fate as usize`; those of `Malformed`, `Refused` and `Failed` stay 0, their reasons stand below.
    pub(super) ended: [Tally; Fate::ALL.len()],
    pub(super) malformed: [Tally; Malformed::ALL.len()],
    pub(super) refused: [Tally; Refused::ALL.len()],
    pub(super) failed: [Tally; Failed::ALL.len()],
    pub(super) unsent: [Tally; Unsent::ALL.len()],
    pub(super) receive_errors: [Tally; ReceiveError::ALL.len()],
    pub(super) steals: [Tally; Steal::ALL.len()],
    pub(super) continuations: [Tally; Continuation::ALL.len()],
    pub(super) busy_ns: Tally,
    /// When the present slice began; 0 between slices.
    running_since: AtomicU64,
    /// The largest busy time that a reader was given.
    busy_shown: AtomicU64,
    /// Turns of the worker's loop and slices of its jobs: stands still while the worker does.
    pub(super) moves: Tally,
    pub(super) slept_ns: Tally,
    pub(super) late_ns: Tally,
    /// Entries made in ledgers: tells the control thread whether there is anything to ask for.
    pub(super) recorded: Tally,
}

impl WorkerCounters {
    /// A slice begins at `now`.
    pub(super) fn begin(&self, now: Nanos) {
        // Ordering: relaxed, a reader that sees it late shows less time for a moment.
        self.running_since.store(now.get().max(1), Ordering::Relaxed);
    }

    /// The slice is over, after `ran`.
    pub(super) fn end(&self, ran: Nanos) {
        // Ordering: relaxed, the release in `add` orders it before the sum: whoever reads a sum with this slice in it does
        // not read its beginning afterwards.
        self.running_since.store(0, Ordering::Relaxed);
        self.busy_ns.add(ran.get());
    }

    /// When the present slice began, if the worker is in one.
    pub(super) fn running_since(&self) -> Option<Nanos> {
        // Ordering: relaxed, a hint of a moment ago.
        let since = self.running_since.load(Ordering::Relaxed);
        (since != 0).then(|| Nanos::new(since))
    }

    /// Time spent on requests up to `now`, which was read before, with what the present slice has run for.
    ///
    /// The sum is read before the beginning of the slice. A slice that is in the sum is then never counted again; one that
    /// ends in between is missed, and the largest value that was ever given stands in for it, so that it never falls.
    pub(super) fn busy(&self, now: Nanos) -> Nanos {
        let ended = Nanos::new(self.busy_ns.read());
        let busy = ended.plus(self.running_since().map_or(Nanos::ZERO, |since| now.minus(since)));
        // Ordering: relaxed, one value among readers.
        let shown = self.busy_shown.fetch_max(busy.get(), Ordering::Relaxed);
        busy.max(Nanos::new(shown))
    }
}

/// What one reading of every worker's counters gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Datagrams received.
    pub(crate) received: u64,
    /// By `Fate as usize`.
    pub(crate) ended: [u64; Fate::ALL.len()],
    /// By `Malformed as usize`; their sum is the fate's count.
    pub(crate) malformed: [u64; Malformed::ALL.len()],
    /// By `Refused as usize`; their sum is the fate's count.
    pub(crate) refused: [u64; Refused::ALL.len()],
    /// By `Failed as usize`; their sum is the fate's count.
    pub(crate) failed: [u64; Failed::ALL.len()],
    /// Messages that the kernel did not take, by `Unsent as usize`; those that refuse a request are among them, so their
    /// sum may be more than the fate's count.
    pub(crate) unsent: [u64; Unsent::ALL.len()],
    /// Calls to receive that failed, by `ReceiveError as usize`.
    pub(crate) receive_errors: [u64; ReceiveError::ALL.len()],
    /// By `Steal as usize`.
    pub(crate) steals: [u64; Steal::ALL.len()],
    /// By `Continuation as usize`.
    pub(crate) continuations: [u64; Continuation::ALL.len()],
    /// By worker.
    pub(crate) busy: Vec<Nanos>,
    /// Slept in place of working, by emulated cores.
    pub(crate) slept: Nanos,
    /// Slept longer than asked, by emulated cores.
    pub(crate) late: Nanos,
}

impl Counts {
    /// Reads the counters of all workers, every fate before any `received` (see the top of this file).
    pub(super) fn read<'a>(workers: impl Iterator<Item = &'a WorkerCounters> + Clone) -> Counts {
        let mut counts = Counts::default();
        for worker in workers.clone() {
            sum_up(&mut counts.ended, &worker.ended);
            sum_up(&mut counts.malformed, &worker.malformed);
            sum_up(&mut counts.refused, &worker.refused);
            sum_up(&mut counts.failed, &worker.failed);
        }
        let now = clock::now();
        counts.ended[Fate::Malformed as usize] = counts.malformed.iter().sum();
        counts.ended[Fate::Refused as usize] = counts.refused.iter().sum();
        counts.ended[Fate::Failed as usize] = counts.failed.iter().sum();
        for worker in workers {
            counts.received += worker.received.read();
            sum_up(&mut counts.unsent, &worker.unsent);
            sum_up(&mut counts.receive_errors, &worker.receive_errors);
            sum_up(&mut counts.steals, &worker.steals);
            sum_up(&mut counts.continuations, &worker.continuations);
            counts.busy.push(worker.busy(now));
            counts.slept = counts.slept.plus(Nanos::new(worker.slept_ns.read()));
            counts.late = counts.late.plus(Nanos::new(worker.late_ns.read()));
        }
        counts
    }
}

fn sum_up<const N: usize>(sums: &mut [u64; N], tallies: &[Tally; N]) {
    for (sum, tally) in sums.iter_mut().zip(tallies) {
        *sum += tally.read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the time of a slice that has not ended count, once, and does the sum never fall?
    #[test]
    fn a_slice_counts_while_it_runs() {
        let us = Nanos::from_micros;
        let worker = WorkerCounters::default();
        assert_eq!((worker.busy(us(5)), worker.running_since()), (Nanos::ZERO, None));
        worker.begin(us(10));
        assert_eq!((worker.busy(us(17)), worker.running_since()), (us(7), Some(us(10))));
        worker.end(us(8));
        assert_eq!((worker.busy(us(40)), worker.running_since()), (us(8), None));
        worker.begin(us(50));
        assert_eq!(worker.busy(us(45)), us(8), "it began after the clock was read");
        assert_eq!(worker.busy(us(60)), us(18));
        // An emulated core ends a slice by its own clock, before its thread wakes.
        worker.end(us(9));
        assert_eq!(worker.busy(us(70)), us(18), "it never falls");
    }
}
