//! The percentiles of a run. Each has an interval in which the long-run value
//! lies.

use forebay_metrics::Percentile;
use std::ops::Deref;

/// Percentiles, with intervals if the order of the values is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "json", derive(serde::Serialize))]
pub struct Block {
    #[cfg_attr(feature = "json", serde(flatten))]
    values: forebay_metrics::Block,
    /// The 95 % intervals of the percentiles. Their widths decide which percentiles are known. The
    /// number of values would be a criterion only for independent values. They print with `known`,
    /// the list of percentiles that [`Block::supports`].
    #[cfg_attr(feature = "json", serde(flatten, skip_serializing_if = "Option::is_none"))]
    pub bounds: Option<Bounds>,
}

impl Block {
    /// See [`forebay_metrics::Block::from_sorted`].
    pub fn from_sorted(sorted: &[f64]) -> Block {
        Block { values: forebay_metrics::Block::from_sorted(sorted), bounds: None }
    }

    /// See [`forebay_metrics::Block::from_ranks`].
    pub fn from_ranks(finite: u64, total: u64, value: impl FnMut(u64) -> f64) -> Block {
        Block { values: forebay_metrics::Block::from_ranks(finite, total, value), bounds: None }
    }

    /// This block with intervals.
    pub fn bounded(self, bounds: Bounds) -> Block {
        let mut values = self.values;
        values.supported = bounds.highest_supported();
        Block { values, bounds: Some(bounds) }
    }

    /// Whether `percentile` is known: its interval is narrow enough.
    pub fn supports(&self, percentile: Percentile) -> bool {
        self.bounds.map_or_else(|| self.values.supports(percentile), |bounds| bounds.supports(percentile))
    }
}

impl Deref for Block {
    type Target = forebay_metrics::Block;

    fn deref(&self) -> &forebay_metrics::Block {
        &self.values
    }
}

/// A 95 % interval of a positive figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end; 0 if the run is too short to give one.
    pub low: f64,
    /// The upper end; infinite if the run is too short to give one, or if the figure is infinite.
    pub high: f64,
}

impl Interval {
    /// The interval of a run that is too short to tell anything.
    pub const UNKNOWN: Interval = Interval { low: 0.0, high: f64::INFINITY };
}

/// A figure counts as known if the upper end is at most this many times the lower end.
pub const PRECISION: f64 = 2.0;

/// The 95 % interval of each percentile.
///
/// Serialized as `"known":["p50",..],"bounds":{"p50":[low,high],..}`, where `null` is infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    intervals: [Interval; Percentile::ALL.len()],
}

impl Bounds {
    /// The intervals of percentiles.
    pub fn new(interval: impl Fn(Percentile) -> Interval) -> Bounds {
        Bounds { intervals: Percentile::ALL.map(interval) }
    }

    /// The interval of `percentile`.
    pub fn interval(&self, percentile: Percentile) -> Interval {
        self.intervals[percentile as usize]
    }

    /// Whether the interval of `percentile` is within [`PRECISION`], or both of its ends are
    /// infinite.
    pub fn supports(&self, percentile: Percentile) -> bool {
        let Interval { low, high } = self.interval(percentile);
        low == high || low > 0.0 && high <= PRECISION * low
    }

    /// The highest percentile whose interval is narrow enough. Those of lower ones may be wider:
    /// near the median of two unlike kinds of requests.
    pub fn highest_supported(&self) -> Option<Percentile> {
        Percentile::ALL.into_iter().rfind(|percentile| self.supports(*percentile))
    }
}
