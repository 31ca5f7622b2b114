//! How far the percentiles of a block may be from those of a run without end.

use super::Percentile;
use crate::stats::Interval;
#[cfg(feature = "cli")]
use crate::stats::{Memory, PRECISION, Sample};
#[cfg(feature = "admin")]
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The 95 % interval of each percentile, and how wide one may be.
///
/// Serialized as `{"p50":[low,high],..}`, where `null` is infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    intervals: [Interval; Percentile::ALL.len()],
    precision: f64,
}

impl Bounds {
    /// The bounds of `sample`, from a queue with `memory`. Percentiles count as known with an upper end of at most
    /// [`PRECISION`] times the lower one.
    #[cfg(feature = "cli")]
    #[cfg_attr(doc, doc(hidden))]
    pub fn of(sample: &Sample, memory: Memory) -> Bounds {
        let interval = |percentile: Percentile| sample.interval(percentile.quantile(), memory);
        Bounds { intervals: Percentile::ALL.map(interval), precision: PRECISION }
    }

    /// The same bounds, with percentiles known up to an upper end of `precision` times the lower one.
    pub fn with_precision(self, precision: f64) -> Bounds {
        Bounds { precision, ..self }
    }

    /// The widest interval, upper over lower end, of a percentile that counts as known.
    pub fn precision(&self) -> f64 {
        self.precision
    }

    /// The interval of `percentile`.
    pub fn interval(&self, percentile: Percentile) -> Interval {
        self.intervals[percentile as usize]
    }

    /// Whether the interval of `percentile` is narrow enough.
    pub fn supports(&self, percentile: Percentile) -> bool {
        self.interval(percentile).is_within(self.precision)
    }

    /// The highest percentile with an interval that is narrow enough.
    pub fn highest_supported(&self) -> Option<Percentile> {
        Percentile::ALL.into_iter().rev().find(|percentile| self.supports(*percentile))
    }
}

#[cfg(feature = "admin")]
impl Serialize for Bounds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Percentile::ALL.len()))?;
        for percentile in Percentile::ALL {
            let Interval { low, high } = self.interval(percentile);
            map.serialize_entry(percentile.name(), &[low, high].map(|end| Some(end).filter(|end| end.is_finite())))?;
        }
        map.end()
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::metrics::Block;
    use crate::stats::Batches;

    /// Does the width of intervals decide, never the number of values? The same 40,000 values in two orders.
    #[test]
    fn the_width_decides_and_not_the_count() {
        let mixed: Vec<f64> = (0..40_000_u32).map(|number| f64::from(number * 7_919 % 1_000 + 1_000)).collect();
        let mut clustered = mixed.clone();
        // Rare slow episodes: the highest values stand together, in four stretches.
        let mut slow = clustered.iter_mut().enumerate().filter(|(place, _)| place % 10_000 < 200);
        slow.by_ref().for_each(|(_, value)| *value *= 50.0);
        let supported = |values: &[f64]| {
            let mut batches = Batches::default();
            values.iter().for_each(|value| batches.record(0, *value));
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            Block::from_sorted(&sorted).bounded(Bounds::of(&batches.sample(None), Memory::UNKNOWN))
        };
        let (mixed, clustered) = (supported(&mixed), supported(&clustered));
        assert_eq!((mixed.count, mixed.supported), (clustered.count, Some(Percentile::P99_95)));
        assert!(!clustered.supports(Percentile::P99) && clustered.supports(Percentile::P50), "{clustered:?}");
        let wide = Bounds { precision: f64::INFINITY, ..mixed.bounds.expect("bounds") };
        assert!(wide.supports(Percentile::P99_99) || wide.interval(Percentile::P99_99).low == 0.0);
        let text = serde_json::to_string(&mixed).expect("serializes");
        assert!(text.contains(r#""bounds":{"p50":[14"#) && text.contains(r#","supported":"p99_95"#), "{text}");
    }
}
