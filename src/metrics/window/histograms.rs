//! What each worker records of its requests, and how the control thread reads what is new.
//!
//! Counts only grow. So no thread hands anything over or waits for another: the reader adds up the workers and subtracts what it
//! saw before.

use super::distribution::{BINS, Bins, COLUMNS, ROWS, Series};
use crate::fate::{CLASSES, labels};
use crate::metrics::counters::Tally;
use crate::time::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

labels! {
    /// A part of the time between the kernel's receive stamp and the reply in the kernel's hands, or all of it.
    Stage {
        /// The whole time in the server.
        Total = "total",
        /// Waiting in the socket.
        Kernel = "kernel",
        /// Waiting in the server's queues.
        Queue = "queue",
        /// Running in the handler.
        Service = "service",
        /// From the finish until the kernel has the reply: batching and the system call.
        Send = "send",
    }
}

/// Where the time of one answered request went. The total is the sum of the four stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The class of the request; numbers from [`CLASSES`](crate::fate::CLASSES) on count as the last class.
    pub class: u8,
    /// Time from the kernel's receive stamp to the batch that received the request.
    pub kernel: Nanos,
    /// Time from the receiving batch to the finish, less the service time.
    pub queue: Nanos,
    /// Time in the handler.
    pub service: Nanos,
    /// Time from the finish until the kernel has the reply.
    pub send: Nanos,
}

impl Sample {
    /// Time from the kernel's receive stamp until the kernel has the reply.
    pub const fn total(&self) -> Nanos {
        self.kernel.plus(self.queue).plus(self.service).plus(self.send)
    }

    /// Slowdown (total time over service time) in thousandths; a service time too short for the clock counts as one
    /// nanosecond.
    const fn slowdown_thousandths(&self) -> u64 {
        let service = self.service.get();
        self.total().times(SLOWDOWN_ONE).get() / if service > 0 { service } else { 1 }
    }
}

/// A slowdown of 1 as stored in histograms: thousandths keep three digits at the low end.
pub(in crate::metrics) const SLOWDOWN_ONE: u64 = 1_000;

/// What one worker has recorded since the start, by bin. The worker alone writes it, and the control thread reads it at any
/// time.
///
/// The bins of a class exist from its first sample on. After the first sample of every class the size is constant.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    columns: [[Column; COLUMNS]; ROWS],
    /// Entries: shows the reader whether there is anything new.
    entries: Tally,
}

/// What is recorded of one [`Series`].
#[derive(Debug, Default)]
struct Column {
    /// Values by bin, modulo 2^32: the reader takes differences over about a second.
    // Ordering: relaxed. Those of the entries that a reader has counted are ordered by `entries`; it may see more of an entry
    // under way.
    counts: OnceLock<Box<[AtomicU32]>>,
    /// The exact sum of the values.
    sum: Tally,
}

impl Histograms {
    /// Records an answered request. For the worker alone, as all that records.
    pub(crate) fn record(&self, sample: &Sample) {
        let Sample { class, kernel, queue, service, send } = *sample;
        for (stage, time) in Stage::ALL.into_iter().zip([sample.total(), kernel, queue, service, send]) {
            self.add(Series::stage(known(class), stage), time.get());
        }
        self.add(Series::slowdown(known(class)), sample.slowdown_thousandths());
        self.entries.add(1);
    }

    /// Records the CPU time of a request that was not answered.
    pub(crate) fn record_unanswered(&self, class: u8, spent: Nanos) {
        self.add(Series::unanswered(known(class)), spent.get());
        self.entries.add(1);
    }

    /// Records by how much an emulated core overslept.
    pub(crate) fn record_overshoot(&self, late: Nanos) {
        self.add(Series::OVERSHOOT, late.get());
        self.entries.add(1);
    }

    #[inline]
    fn add(&self, series: Series, value: u64) {
        let Column { counts, sum } = &self.columns.as_flattened()[series.0];
        let count = &counts.get_or_init(empty)[series.bin(value)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        sum.add(value);
    }

    /// What was recorded since the start.
    #[cfg(test)]
    pub(crate) fn bins(&self) -> Bins {
        Gathered::default().news(&[self])
    }
}

/// The number of a class, or of the last one for what is none.
fn known(class: u8) -> usize {
    usize::from(class).min(CLASSES - 1)
}

#[cold]
fn empty() -> Box<[AtomicU32]> {
    let counts: Box<[AtomicU32]> = (0..BINS).map(|_| AtomicU32::new(0)).collect();
    // Each page is written to, so that no later request waits for the kernel to supply one.
    counts.iter().for_each(|count| count.store(0, Relaxed));
    counts
}

/// What all workers together had recorded at the last reading.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    entries: u64,
    /// By series, the count of each bin and the sum of all values; empty for one of which nothing was recorded.
    seen: Vec<(Vec<u32>, u64)>,
}

impl Gathered {
    /// What the `workers` have recorded since the last reading. An entry under way may be in it in part; the rest comes next
    /// time.
    pub(crate) fn news(&mut self, workers: &[&Histograms]) -> Bins {
        let mut bins = Bins::default();
        let entries = workers.iter().map(|worker| worker.entries.read()).sum();
        if entries == std::mem::replace(&mut self.entries, entries) {
            return bins;
        }
        self.seen.resize_with(ROWS * COLUMNS, Default::default);
        for (number, (seen, seen_sum)) in self.seen.iter_mut().enumerate() {
            let (mut counts, mut sum) = (Vec::new(), 0_u64);
            for column in workers.iter().map(|worker| &worker.columns.as_flattened()[number]) {
                let Some(more) = column.counts.get() else { continue };
                counts.resize(BINS, 0_u32);
                for (sum, count) in counts.iter_mut().zip(more) {
                    *sum = sum.wrapping_add(count.load(Relaxed));
                }
                sum = sum.wrapping_add(column.sum.read());
            }
            seen.resize(counts.len(), 0);
            let series = Series(number);
            for (bin, (count, seen)) in counts.iter().zip(&*seen).enumerate().filter(|(_, (count, seen))| count != seen)
            {
                bins.counts.push((series.key(series.highest(bin)), count.wrapping_sub(*seen).into()));
            }
            bins.sums.as_flattened_mut()[number] = sum.wrapping_sub(*seen_sum);
            (*seen, *seen_sum) = (counts, sum);
        }
        bins
    }
}

/// Bytes of one class of one worker, if all that is recorded of it occurs.
pub(crate) const CLASS_BYTES: usize = COLUMNS * BINS * size_of::<AtomicU32>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::window::{Distribution, Series};

    /// Does recording keep every sample, in its class and stage, even out of range?
    #[test]
    fn every_sample_is_kept() {
        let histograms = Histograms::default();
        histograms.record(&Sample { class: 1, service: Nanos::from_micros(10), ..Sample::default() });
        histograms.record(&Sample { class: 200, queue: Nanos::MAX, service: Nanos::new(1), ..Sample::default() });
        let bins = histograms.bins();
        let of = |class, stage| Distribution::of([&bins], &[Series::stage(class, stage)]);
        assert!(!bins.has(Series::slowdown(0)));
        assert_eq!(of(1, Stage::Service).sum, 10_000);
        let last = of(CLASSES - 1, Stage::Total);
        assert_eq!(last.count, 1, "an unknown class counts as the last");
        assert!(last.block(1.0).max >= Some(1e12));
    }

    /// Is an unanswered request counted under its class, and its time to 0.1 %, exactly in the sum?
    #[test]
    fn what_was_spent_is_counted_by_class() {
        for ns in [1, 700, 1_000_000, 900_000_000] {
            let histograms = Histograms::default();
            histograms.record_unanswered(3, Nanos::new(ns));
            let bins = histograms.bins();
            let spent = Distribution::of([&bins], &[Series::unanswered(3)]);
            let (highest, exact) = (spent.values().next().expect("a bin").0 as f64, ns as f64);
            assert!((exact..=exact * 1.001 + 16.0).contains(&highest), "{ns} ns counts as {highest}");
            assert_eq!((spent.count, spent.sum), (1, ns));
        }
        let histograms = Histograms::default();
        histograms.record_unanswered(200, Nanos::ZERO);
        histograms.record(&Sample::default());
        let bins = histograms.bins();
        assert!(bins.has(Series::unanswered(CLASSES - 1)), "what took no time was asked too");
        assert!(bins.has(Series::slowdown(0)) && !bins.has(Series::unanswered(0)));
    }

    /// Is what a reading has seen not in the next one, and is what several workers record added up?
    #[test]
    fn news_are_told_once() {
        let sample =
            Sample { class: 0, queue: Nanos::from_micros(3), service: Nanos::from_micros(1), ..Sample::default() };
        let (workers, mut gathered) = ([Histograms::default(), Histograms::default()], Gathered::default());
        let mut news = || {
            let bins = gathered.news(&workers.each_ref());
            [Series::slowdown(0), Series::OVERSHOOT].map(|series| {
                let news = Distribution::of([&bins], &[series]);
                (news.count, news.sum)
            })
        };
        assert_eq!(news(), [(0, 0); 2]);
        workers.iter().for_each(|worker| worker.record(&sample));
        assert_eq!(news(), [(2, 8 * SLOWDOWN_ONE), (0, 0)]);
        assert_eq!(news(), [(0, 0); 2]);
        workers[1].record_overshoot(Nanos::from_micros(60));
        assert_eq!(news(), [(0, 0), (1, 60_000)]);
    }
}
