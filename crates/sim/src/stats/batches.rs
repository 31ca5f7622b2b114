//! A stream of values in a bounded number of consecutive batches of equal length.

use super::bins::{Counts, bin_of, merge_into};
use super::sample::Sample;
use forebay_metrics::merge;

/// The most batches. At this number, neighbouring batches are merged in pairs, and later batches
/// are twice as long. So there are 64 to 128 batches, enough to estimate variances over groups of
/// many sizes. A run of 10^7 values needs about 1 MB.
const BATCHES_MAX: usize = 128;
/// Values in each of the first batches.
const LENGTH_MIN: u64 = 16;
/// How many values are sorted together. With fewer, they would be merged into a batch too often.
const PENDING_MAX: usize = 1_024;
/// In a key, the class is above this bit, and the bin is below it.
const CLASS_SHIFT: u32 = 20;

/// A stream of values of several classes, in consecutive batches. Batches of all classes end at the
/// same places, so batch n of each class covers the same part of the stream.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    /// The full batches.
    full: Vec<Counts>,
    /// The batch that is being filled, without the pending keys.
    open: Counts,
    /// Keys of the open batch that are not yet counted.
    pending: Vec<u32>,
    /// Values in the open batch, pending ones included.
    filled: u64,
    /// How often the batch length has doubled.
    doublings: u32,
}

impl Batches {
    /// Adds the next value of the stream; `f64::INFINITY` for an unanswered request. Negative
    /// values and NaN count as zero. `class` is below 16.
    pub fn record(&mut self, class: u8, value: f64) {
        debug_assert!(class < 16, "class {class} does not fit");
        self.pending.push((u32::from(class) << CLASS_SHIFT) | bin_of(value));
        self.filled += 1;
        if self.filled == self.length() {
            self.close();
        } else if self.pending.len() == PENDING_MAX {
            self.count_pending();
        }
    }

    /// The values of one class, or of all.
    pub fn sample(&self, class: Option<u8>) -> Sample {
        let mut last = self.open.clone();
        merge_into(&mut last, &counted(&mut self.pending.clone()));
        // An unfinished batch is added to the one before it, so that all batches have about the
        // same length.
        let mut batches = self.full.clone();
        match batches.last_mut() {
            Some(before) => merge_into(before, &last),
            None => batches.push(last),
        }
        Sample::new(batches.iter().map(|batch| bins_of(batch, class)).collect())
    }

    fn length(&self) -> u64 {
        LENGTH_MIN << self.doublings
    }

    fn count_pending(&mut self) {
        merge_into(&mut self.open, &counted(&mut self.pending));
        self.pending.clear();
    }

    fn close(&mut self) {
        self.count_pending();
        self.full.push(std::mem::take(&mut self.open));
        self.filled = 0;
        if self.full.len() == BATCHES_MAX {
            let mut halves = std::mem::take(&mut self.full).into_iter();
            while let (Some(mut first), Some(second)) = (halves.next(), halves.next()) {
                merge_into(&mut first, &second);
                self.full.push(first);
            }
            self.doublings += 1;
        }
    }
}

fn counted(keys: &mut [u32]) -> Counts {
    keys.sort_unstable();
    keys.chunk_by(|one, next| one == next).map(|same| (same[0], same.len() as u32)).collect()
}

/// The bins of `class`, or of all classes together.
fn bins_of(batch: &Counts, class: Option<u8>) -> Counts {
    let mut bins: Counts = batch
        .iter()
        .filter(|(key, _)| class.is_none_or(|class| key >> CLASS_SHIFT == u32::from(class)))
        .map(|(key, count)| (key & ((1 << CLASS_SHIFT) - 1), *count))
        .collect();
    merge(&mut bins);
    bins
}
