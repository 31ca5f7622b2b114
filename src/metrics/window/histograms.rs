//! Histograms of one worker since it was last asked: touched only by their owner.

use super::bins::{Bins, COLUMNS, ROWS, Scale, key};
use crate::fate::CLASSES;
use crate::metrics::sample::Sample;
use crate::time::Nanos;

/// The set of histograms that a worker fills. It is handed over by swap, so that no worker ever locks, shares or merges
/// histograms.
///
/// The histograms of a class exist from its first sample on: a class takes 640 KB, and a server holds two sets per
/// worker, while most workloads have two classes. After the first sample of every class the size is constant.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    rows: [Row; ROWS],
}

/// The histograms of one class, or of the emulated cores.
#[derive(Debug, Default)]
struct Row {
    /// Counts by column and bin; empty until the first value. 32 bits suffice for about a second.
    counts: Box<[u32]>,
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
        self.rows[usize::from(class).min(CLASSES - 1)].record([total, kernel, queue, service, send, slowdown]);
    }

    /// Records by how much an emulated core overslept.
    pub(crate) fn record_overshoot(&mut self, late: Nanos) {
        self.rows[CLASSES].record([late.get()]);
    }

    /// True if nothing has been recorded since the start or since the samples were last moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.records == 0)
    }

    /// Moves all samples to `sum`; the memory stays.
    pub(crate) fn move_to(&mut self, sum: &mut Histograms) {
        for (mine, sum) in self.rows.iter_mut().zip(&mut sum.rows).filter(|(mine, _)| mine.records > 0) {
            if sum.counts.is_empty() {
                sum.counts = vec![0; mine.counts.len()].into();
            }
            for (first, block) in occupied(&mine.counts) {
                sum.counts[first..].iter_mut().zip(block).for_each(|(sum, mine)| *sum = sum.saturating_add(*mine));
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
            let columns = (0..COLUMNS).take_while(|column| Scale::bins_before(*column) < row.counts.len());
            for column in columns {
                let counts = &row.counts[Scale::bins_before(column)..Scale::bins_before(column + 1)];
                for (first, block) in occupied(counts) {
                    let counts = (first..).zip(block).filter(|(_, count)| **count > 0);
                    bins.counts.extend(counts.map(|(place, count)| (key(number, column, place), u64::from(*count))));
                }
            }
            bins.sums[number] = row.sums;
            row.clear();
        }
        bins
    }
}

impl Row {
    #[inline]
    fn record<const N: usize>(&mut self, values: [u64; N]) {
        if self.counts.is_empty() {
            self.counts = vec![0; Scale::bins_before(N)].into();
        }
        for (column, value) in values.into_iter().enumerate() {
            self.counts[Scale::bins_before(column) + Scale::of(column).place(value)] += 1;
            self.sums[column] = self.sums[column].saturating_add(value);
        }
        self.records += 1;
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        (self.sums, self.records) = ([0; COLUMNS], 0);
    }
}

/// The blocks of `counts` that are not all zero, which few are, each with the place of its first count.
fn occupied(counts: &[u32]) -> impl Iterator<Item = (usize, &[u32])> {
    const BLOCK: usize = 64;
    let blocks = counts.chunks(BLOCK).enumerate().filter(|(_, block)| **block != [0; BLOCK]);
    blocks.map(|(number, block)| (number * BLOCK, block))
}

/// Bytes of one class in one set of histograms.
pub(crate) const fn class_bytes() -> usize {
    Scale::bins_before(COLUMNS) * size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Stage;
    use crate::metrics::sample::SLOWDOWN_ONE;
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
        assert_eq!(of(1, Stage::Service).sum(), 10_000);
        let last = of(CLASSES - 1, Stage::Total);
        assert_eq!(last.count(), 1, "an unknown class counts as the last");
        assert!(last.block(1.0).max >= Some(1e12));
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
        assert_eq!((of(Series::slowdown(0)).count(), of(Series::slowdown(0)).sum()), (1, 4 * SLOWDOWN_ONE));
        assert_eq!((of(Series::OVERSHOOT).count(), of(Series::OVERSHOOT).sum()), (1, 60_000));
        assert!(sum.is_empty() && sum.take().counts.is_empty());
    }
}
