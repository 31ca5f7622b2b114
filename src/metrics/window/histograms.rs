//! Histograms of one worker since it was last asked: touched only by their owner.

use super::distribution::{Bins, COLUMNS, ROWS, SLOWDOWN, Series, UNANSWERED};
use crate::fate::{CLASSES, labels};
use crate::time::Nanos;
use hdrhistogram::{Counter, Histogram};

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

/// Significant digits of a histogram: a percentile is at most 0.1 % above the exact one.
const DIGITS: u8 = 3;
/// The same of unanswered requests: 6 %, for the decisions that rest on them.
const UNANSWERED_DIGITS: u8 = 1;
/// Times from 16 ns (one clock read takes 20) to 1,000 s, far beyond any cost cap. A longer time counts as 1,000 s.
pub(super) const TIME_NS: (u64, u64) = (16, 1_000_000_000_000);
/// Slowdowns from a thousandth to a million. A larger one counts as a million.
const SLOWDOWN_THOUSANDTHS: (u64, u64) = (1, 1_000_000 * SLOWDOWN_ONE);

/// The set of histograms that a worker fills. It is handed over by swap, so that no worker ever locks, shares or merges
/// histograms.
///
/// The histograms of a class exist from its first sample on. A class takes 640 KB, and a server holds two sets per worker,
/// while most workloads have two classes. After the first sample of every class the size is constant.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    rows: [Row; ROWS],
}

/// The histograms of one class, or of the emulated cores.
#[derive(Debug, Default)]
struct Row {
    /// One for each column, made at its first value. 32 bits suffice for about a second.
    columns: Vec<Histogram<u32>>,
    /// Exact sums of the values of each column, saturating.
    sums: [u64; COLUMNS],
    records: u64,
}

impl Histograms {
    /// Records an answered request.
    pub(crate) fn record(&mut self, sample: &Sample) {
        let Sample { class, kernel, queue, service, send } = *sample;
        let times = [sample.total(), kernel, queue, service, send].map(Nanos::get);
        let [total, kernel, queue, service, send] = times;
        let slowdown = sample.slowdown_thousandths();
        self.row(class).record(0, &[total, kernel, queue, service, send, slowdown]);
    }

    /// Records the CPU time of a request that was not answered.
    pub(crate) fn record_unanswered(&mut self, class: u8, spent: Nanos) {
        self.row(class).record(UNANSWERED, &[spent.get()]);
    }

    /// Records by how much an emulated core overslept.
    pub(crate) fn record_overshoot(&mut self, late: Nanos) {
        self.rows[CLASSES].record(0, &[late.get()]);
    }

    fn row(&mut self, class: u8) -> &mut Row {
        &mut self.rows[usize::from(class).min(CLASSES - 1)]
    }

    /// True if nothing has been recorded since the start or since the samples were last moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.records == 0)
    }

    /// Moves all samples to `sum`; the memory stays.
    pub(crate) fn move_to(&mut self, sum: &mut Histograms) {
        for (mine, sum) in self.rows.iter_mut().zip(&mut sum.rows).filter(|(mine, _)| mine.records > 0) {
            sum.make(mine.columns.len());
            for (sum, mine) in sum.columns.iter_mut().zip(&mine.columns) {
                sum.add(mine).expect("both have the same bounds");
            }
            sum.sums.iter_mut().zip(mine.sums).for_each(|(sum, mine)| *sum = sum.saturating_add(mine));
            sum.records += mine.records;
            mine.clear();
        }
    }

    /// Takes all samples as sorted bins; the memory stays.
    pub(crate) fn take(&mut self) -> Bins {
        let mut bins = Bins::default();
        for (number, row) in self.rows.iter_mut().enumerate().filter(|(_, row)| row.records > 0) {
            for (column, histogram) in row.columns.iter().enumerate() {
                let series = Series::at(number, column);
                let counts = histogram.iter_recorded();
                bins.counts
                    .extend(counts.map(|bin| (series.key(bin.value_iterated_to()), bin.count_at_value().into())));
            }
            bins.sums[number] = row.sums;
            row.clear();
        }
        bins
    }
}

impl Row {
    // For all kinds of values, so that `saturating_record` has one caller, into which it is inlined.
    fn record(&mut self, first: usize, values: &[u64]) {
        let columns = first + values.len();
        if self.columns.len() < columns {
            self.make(columns);
        }
        let columns = self.columns.iter_mut().zip(&mut self.sums).skip(first);
        for ((histogram, sum), value) in columns.zip(values) {
            histogram.saturating_record(*value);
            *sum = sum.saturating_add(*value);
        }
        self.records += 1;
    }

    /// Makes the histograms of the first `columns`, if they are not there.
    #[cold]
    fn make(&mut self, columns: usize) {
        self.columns.extend((self.columns.len()..columns).map(histogram));
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Histogram::reset);
        (self.sums, self.records) = ([0; COLUMNS], 0);
    }
}

/// The empty histogram of a column.
pub(in crate::metrics) fn histogram<C: Counter>(column: usize) -> Histogram<C> {
    let ((low, high), digits) = match column {
        SLOWDOWN => (SLOWDOWN_THOUSANDTHS, DIGITS),
        UNANSWERED => (TIME_NS, UNANSWERED_DIGITS),
        _ => (TIME_NS, DIGITS),
    };
    Histogram::new_with_bounds(low, high, digits).expect("both pairs of bounds are valid")
}

/// Bytes of one class in one set of histograms.
pub(crate) fn class_bytes() -> usize {
    (0..COLUMNS).map(|column| histogram::<u32>(column).distinct_values() * size_of::<u32>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::window::{Distribution, Series};

    /// Does recording keep every sample, in its class and stage, even out of range?
    #[test]
    fn every_sample_is_kept() {
        let mut histograms = Histograms::default();
        assert!(histograms.is_empty());
        histograms.record(&Sample { class: 1, service: Nanos::from_micros(10), ..Sample::default() });
        histograms.record(&Sample { class: 200, queue: Nanos::MAX, service: Nanos::new(1), ..Sample::default() });
        let bins = histograms.take();
        let of = |class, stage| Distribution::of([&bins], &[Series::stage(class, stage)]);
        assert!(!bins.has(Series::slowdown(0)));
        assert_eq!(of(1, Stage::Service).sum, 10_000);
        let last = of(CLASSES - 1, Stage::Total);
        assert_eq!(last.count, 1, "an unknown class counts as the last");
        assert!(last.block(1.0).max >= Some(1e12));
    }

    /// Is an unanswered request counted under its class, and its time to 7 %, exactly in the sum?
    #[test]
    fn what_was_spent_is_counted_by_class() {
        for ns in [1, 700, 1_000_000, 900_000_000] {
            let mut histograms = Histograms::default();
            histograms.record_unanswered(3, Nanos::new(ns));
            let bins = histograms.take();
            let spent = Distribution::of([&bins], &[Series::unanswered(3)]);
            let (highest, exact) = (spent.values().next().expect("a bin").0 as f64, ns as f64);
            assert!((exact..=exact * 1.07 + 16.0).contains(&highest), "{ns} ns counts as {highest}");
            assert_eq!((spent.count, spent.sum), (1, ns));
        }
        let mut histograms = Histograms::default();
        histograms.record_unanswered(200, Nanos::ZERO);
        histograms.record(&Sample::default());
        let bins = histograms.take();
        assert!(bins.has(Series::unanswered(CLASSES - 1)), "what took no time was asked too");
        assert!(bins.has(Series::slowdown(0)) && !bins.has(Series::unanswered(0)));
    }

    /// Are moved samples gone where they were, and are all of them where they went?
    #[test]
    fn samples_are_moved_once() {
        let sample =
            Sample { class: 0, queue: Nanos::from_micros(3), service: Nanos::from_micros(1), ..Sample::default() };
        let (mut sum, mut part) = (Histograms::default(), Histograms::default());
        part.record(&sample);
        part.record_overshoot(Nanos::from_micros(60));
        part.move_to(&mut sum);
        assert!(part.is_empty() && part.take().counts.is_empty());
        part.move_to(&mut sum);
        let bins = sum.take();
        let of = |series| Distribution::of([&bins], &[series]);
        assert_eq!((of(Series::slowdown(0)).count, of(Series::slowdown(0)).sum), (1, 4 * SLOWDOWN_ONE));
        assert_eq!((of(Series::OVERSHOOT).count, of(Series::OVERSHOOT).sum), (1, 60_000));
        assert!(sum.is_empty() && sum.take().counts.is_empty());
    }
}
