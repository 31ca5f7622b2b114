//! How far the percentiles of a block may be from those of a run without end.

use super::Percentile;
#[cfg(feature = "admin")]
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A 95 % interval of a positive figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end; 0 where the run is too short to tell.
    pub low: f64,
    /// The upper end; infinite where the run is too short to tell, or where the figure itself is infinite.
    pub high: f64,
}

impl Interval {
    /// The interval of a run that is too short to tell anything.
    pub const UNKNOWN: Interval = Interval { low: 0.0, high: f64::INFINITY };

    /// Whether the upper end is at most `precision` times the lower one, or both are infinite.
    pub fn is_within(self, precision: f64) -> bool {
        self.low == self.high || self.low > 0.0 && self.high <= precision * self.low
    }

    /// Whether `value` is in the interval.
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The 95 % interval of each percentile, and how wide one may be.
///
/// Serialized as `{"p50":[low,high],..}`, where `null` is infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    intervals: [Interval; Percentile::ALL.len()],
    precision: f64,
}

impl Bounds {
    /// The intervals of percentiles, each known up to an upper end of `precision` times the lower one.
    #[cfg_attr(doc, doc(hidden))]
    pub fn new(interval: impl Fn(Percentile) -> Interval, precision: f64) -> Bounds {
        Bounds { intervals: Percentile::ALL.map(interval), precision }
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
