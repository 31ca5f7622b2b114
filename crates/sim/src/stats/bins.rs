//! Bins of values, and counts by bin.

use forebay_metrics::merge;

/// Counts by key, ascending, each key once.
pub(super) type Counts = Vec<(u32, u32)>;

/// This many bits of a value's mantissa are part of its bin: 128 bins for each power of two. So a
/// bin is less than 0.8 % wide.
const MANTISSA_BITS: u32 = 7;

/// The bin of infinity, above the bin of every finite value.
pub(super) const INFINITE: u32 = bin_of(f64::INFINITY);
/// The bin of `value`: the upper bits of its binary form. For positive numbers, these bits have the
/// order of the values.
pub(super) const fn bin_of(value: f64) -> u32 {
    if value > 0.0 { (value.to_bits() >> (52 - MANTISSA_BITS)) as u32 } else { 0 }
}

/// The smallest value of `bin`.
pub(super) fn lower_edge(bin: u32) -> f64 {
    f64::from_bits(u64::from(bin) << (52 - MANTISSA_BITS))
}

/// The smallest value above `bin`; infinite for the bin of infinity.
pub(super) fn upper_edge(bin: u32) -> f64 {
    if bin >= INFINITE { f64::INFINITY } else { lower_edge(bin + 1) }
}

/// Adds the counts of `other`.
pub(super) fn merge_into(counts: &mut Counts, other: &Counts) {
    counts.extend(other);
    merge(counts);
}
