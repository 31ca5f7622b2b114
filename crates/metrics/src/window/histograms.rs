//! The histograms of each worker. Counts only grow, and the reader subtracts the counts of its last
//! reading. So no thread waits for another.

use crate::counters::{Late, Tally};
use crate::fate::{CLASSES, labels};
use crate::time::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

labels! {
    /// A part of the time from the kernel's receive timestamp until the kernel has the reply, or
    /// the whole time.
    #[non_exhaustive]
    Stage {
        /// Latency: all the time from arrival to reply.
        Total = "total",
        /// Time that the request waited in the socket.
        Kernel = "kernel",
        /// Time that the request waited in the server's queues.
        Queue = "queue",
        /// Time in which workers ran the handler.
        Service = "service",
        /// Time in which the request waited for its work aside: for a helper, and while a helper
        /// did the work.
        Aside = "aside",
        /// Time from the end of the handler until the kernel has the reply: batching and the system
        /// call.
        Send = "send",
    }
}

/// How long one answered request spent in each stage. The total is the sum of the other stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The request's class; numbers from [`CLASSES`](crate::fate::CLASSES) on count as the last
    /// one.
    pub class: u8,
    /// Time from the kernel's receive stamp until the server received the request.
    pub kernel: Nanos,
    /// Time from the receive until the end of the handler, without `service` and `aside`.
    pub queue: Nanos,
    /// Time in which workers ran the handler.
    pub service: Nanos,
    /// Time in which the request waited for its work aside, done by a helper.
    pub aside: Nanos,
    /// Time from the end of the handler until the kernel has the reply.
    pub send: Nanos,
    /// Why the reply is too late; `None` if it is in time.
    pub late: Option<Late>,
}

impl Sample {
    /// Time from the kernel's receive stamp until the kernel has the reply.
    pub const fn total(&self) -> Nanos {
        self.kernel.plus(self.queue).plus(self.service).plus(self.aside).plus(self.send)
    }

    /// The slowdown (total time over service time) in thousandths. A service time of 0 counts as 1
    /// ns.
    const fn slowdown_thousandths(&self) -> u64 {
        let service = self.service.get();
        self.total().times(SLOWDOWN_ONE).get() / if service > 0 { service } else { 1 }
    }
}

/// A slowdown of 1 in the unit of the histograms, thousandths.
pub(crate) const SLOWDOWN_ONE: u64 = 1_000;

/// The number of one measured distribution. It combines a class and a kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series(pub(super) usize);

/// Rows of the histograms: one per class, and one for emulated cores.
pub(super) const ROWS: usize = CLASSES + 1;
/// Columns of the histograms: one for each stage, then these.
pub(super) const SLOWDOWN: usize = Stage::ALL.len();
pub(super) const UNANSWERED: usize = SLOWDOWN + 1;
pub(super) const COLUMNS: usize = UNANSWERED + 1;
/// Number of bins of a series.
pub(super) const BINS: usize = 27 << 10;
/// Width of the narrowest bin, in nanoseconds.
pub(crate) const SHORTEST: u64 = 16;

impl Series {
    /// How much longer emulated cores slept than asked, in nanoseconds.
    pub(crate) const OVERSHOOT: Series = Series::at(CLASSES, 0);

    /// The column of which workers record no zeros: few requests have work aside. The reader adds a
    /// zero for each request of the column of totals that is missing. Workers record a request here
    /// before they record its total, so the reader does not count it as a zero.
    pub(super) const WITHOUT_ZEROS: usize = Stage::Aside as usize;

    /// Times of requests of `class` in `stage`, in nanoseconds.
    pub(crate) const fn stage(class: usize, stage: Stage) -> Series {
        Series::at(class, stage as usize)
    }

    /// Slowdowns of requests of `class`, in thousandths.
    pub(crate) const fn slowdown(class: usize) -> Series {
        Series::at(class, SLOWDOWN)
    }

    /// CPU times of requests of `class` that were not answered, in nanoseconds.
    pub(crate) const fn unanswered(class: usize) -> Series {
        Series::at(class, UNANSWERED)
    }

    pub(super) const fn at(row: usize, column: usize) -> Series {
        Series(row * COLUMNS + column)
    }

    /// The bin of this value.
    pub(super) const fn bin(self, value: u64) -> usize {
        bin(self.0 % COLUMNS, value)
    }

    /// The highest value of a bin.
    pub(super) fn highest(self, bin: usize) -> u64 {
        let shift = (bin >> 10).saturating_sub(1);
        (((bin - (shift << 10) + 1) as u64) << shift << unit_bits(self.0 % COLUMNS)) - 1
    }

    /// The key of the bin whose highest value is `highest`. Keys sort bins by series, then by
    /// value.
    pub(super) const fn key(self, highest: u64) -> u64 {
        (self.0 as u64) << VALUE_BITS | highest
    }
}

/// The number of the bin of `value` in `column`. The narrowest bins have a width of a thousandth
/// (slowdowns) or 16 ns (times), less than a clock reading takes (20 ns). From 2,048 widths on,
/// each factor of two has 1,024 bins. So a value is at most 0.1 % below the highest value of its
/// bin. All times above 18 minutes share the last bin.
#[inline]
const fn bin(column: usize, value: u64) -> usize {
    let (value, most) = (value >> unit_bits(column), (1 << 36) - 1);
    let value = if value < most { value } else { most };
    // Values below 2,048 are not shifted.
    let shift = (value | 0x7FF).ilog2() - 10;
    ((shift as usize) << 10) + (value >> shift) as usize
}

const fn unit_bits(column: usize) -> u32 {
    if column == SLOWDOWN { 0 } else { SHORTEST.ilog2() }
}

/// Bits of a key for the highest value of a bin: enough for 78 hours in nanoseconds. The higher
/// bits are the number of the series.
pub(super) const VALUE_BITS: u32 = 48;

/// The histograms of one worker since the start. The worker alone writes them; the control thread
/// may read them at any time.
///
/// A class's bins are allocated at its first sample; after that the size is constant.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    pub(super) columns: [[Column; COLUMNS]; ROWS],
    /// Number of entries. By it, the reader sees whether there are new ones.
    entries: Tally,
}

/// The histogram of one [`Series`].
#[derive(Debug, Default)]
pub(super) struct Column {
    /// Counts by bin, modulo 2^32. That suffices, because the reader uses only differences over
    /// about a second.
    // Ordering: relaxed. A reader first reads `entries`, which orders the values of all entries in
    // it. Of an entry in progress it may see a part.
    pub(super) counts: OnceLock<Box<[AtomicU32; BINS]>>,
    /// The exact sum of the values.
    pub(super) sum: Tally,
}

impl Histograms {
    /// Number of recorded requests and sleeps so far.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.read()
    }

    /// Records an answered request. Only the worker may call this and the other record methods.
    #[inline]
    pub(crate) fn record(&self, sample: &Sample) {
        let Sample { class, kernel, queue, service, aside, send, .. } = *sample;
        let row = &self.columns[known(class)];
        // Before the total: see `Series::WITHOUT_ZEROS`.
        if aside > Nanos::ZERO {
            row[Series::WITHOUT_ZEROS].add(Series::WITHOUT_ZEROS, aside.get());
        }
        let recorded = [Stage::Total, Stage::Kernel, Stage::Queue, Stage::Service, Stage::Send];
        for (stage, time) in recorded.into_iter().zip([sample.total(), kernel, queue, service, send]) {
            row[stage as usize].add(stage as usize, time.get());
        }
        row[SLOWDOWN].add(SLOWDOWN, sample.slowdown_thousandths());
        self.entries.add(1);
    }

    /// Records the CPU time of a request that was not answered.
    pub(crate) fn record_unanswered(&self, class: u8, spent: Nanos) {
        self.columns[known(class)][UNANSWERED].add(UNANSWERED, spent.get());
        self.entries.add(1);
    }

    /// Records how much longer than asked an emulated core slept.
    pub(crate) fn record_overshoot(&self, late: Nanos) {
        self.columns.as_flattened()[Series::OVERSHOOT.0].add(0, late.get());
        self.entries.add(1);
    }
}

impl Column {
    /// Adds a value; `number` is the number of this column.
    // Inlined, because with a `number` that is known at compile time, the bin takes half the
    // instructions.
    #[inline(always)]
    fn add(&self, number: usize, value: u64) {
        let count = &self.counts.get_or_init(empty)[bin(number, value)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum.add(value);
    }
}

/// The number of a class; numbers out of range count as the last class.
fn known(class: u8) -> usize {
    usize::from(class).min(CLASSES - 1)
}

#[cold]
fn empty() -> Box<[AtomicU32; BINS]> {
    let counts: Vec<_> = (0..BINS).map(|_| AtomicU32::new(0)).collect();
    let counts: Box<[AtomicU32; BINS]> = counts.try_into().expect("so many were made");
    // A write to each page lets the kernel provide the memory now, so that no later request waits
    // for it.
    counts.iter().for_each(|count| count.store(0, Relaxed));
    counts
}

/// Memory of one class of one worker, in bytes, once all of its series are in use, without that of
/// work aside.
pub const CLASS_BYTES: usize = (COLUMNS - 1) * BINS * size_of::<AtomicU32>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Bins, Distribution, Series, news};

    /// Is every sample kept, in its class and stage, even out of range?
    #[test]
    fn every_sample_is_kept() {
        let histograms = Histograms::default();
        histograms.record(&Sample { class: 1, service: Nanos::from_micros(10), ..Sample::default() });
        histograms.record(&Sample { class: 200, queue: Nanos::MAX, service: Nanos::new(1), ..Sample::default() });
        histograms.record(&Sample { class: 2, aside: Nanos::from_micros(10), ..Sample::default() });
        let bins = histograms.bins();
        let of = |class, stage| Distribution::of([&bins], &[Series::stage(class, stage)]);
        assert!(!bins.has(Series::slowdown(0)));
        assert_eq!(of(1, Stage::Service).sum, 10_000);
        let aside = [1, 2].map(|class| of(class, Stage::Aside));
        assert_eq!(aside.map(|aside| (aside.count, aside.sum)), [(1, 0), (1, 10_000)], "with the zeros");
        let last = of(CLASSES - 1, Stage::Total);
        assert_eq!(last.count, 1, "an unknown class counts as the last");
        assert!(last.block(1.0).max >= Some(1e12));
    }

    /// Does an unanswered request count in its class, accurate to 0.1 %, with an exact sum?
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

    /// Are values of one reading absent from the next? Are several workers added up?
    #[test]
    fn news_are_told_once() {
        let sample =
            Sample { class: 0, queue: Nanos::from_micros(3), service: Nanos::from_micros(1), ..Sample::default() };
        let (workers, mut known) = ([Histograms::default(), Histograms::default()], Bins::default());
        let mut news = || {
            let bins = news(&workers.each_ref(), &known);
            known.add(&bins);
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
