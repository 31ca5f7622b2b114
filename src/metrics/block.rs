//! One distribution as tables and JSON show it: a count, six percentiles, the maximum, and which of the percentiles are
//! known.

use super::{Bounds, Percentile};

/// The distribution of a latency in microseconds, or of a dimensionless slowdown. Percentiles are nearest ranks.
///
/// `None` means infinity and prints as `null`. An empty sample has percentiles of 0 and `supported` = `"none"`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Block {
    /// The number of finite values.
    pub count: u64,
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p99_9: Option<f64>,
    /// The 99.95th percentile.
    pub p99_95: Option<f64>,
    /// The 99.99th percentile.
    pub p99_99: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
    /// The highest percentile that the sample bounds. With `bounds`, the width of its interval decides. Otherwise the number
    /// of values does, infinite ones included, which holds for independent values only (see [`Percentile::samples_needed`]).
    /// `None` prints as `"none"`.
    #[cfg_attr(feature = "admin", serde(serialize_with = "name_or_none"))]
    pub supported: Option<Percentile>,
    /// The 95 % intervals of the percentiles, where the order of the values was known.
    #[cfg_attr(feature = "admin", serde(skip_serializing_if = "Option::is_none"))]
    pub bounds: Option<Bounds>,
}

impl Block {
    /// The block of exact values in ascending order, with `f64::INFINITY` for each value that never came. Infinite
    /// values count in every rank and in `supported`, not in `count`.
    ///
    /// # Panics
    /// In debug builds, when `sorted` is not in ascending order or holds a NaN.
    pub fn from_sorted(sorted: &[f64]) -> Block {
        debug_assert!(sorted.is_sorted(), "values in ascending order, none of them NaN");
        let total = sorted.len() as u64;
        let finite = sorted.partition_point(|value| value.is_finite()) as u64;
        Block::from_ranks(finite, total, |rank| sorted[rank as usize - 1])
    }

    /// The value of `percentile`; `None` is infinity.
    pub const fn percentile(&self, percentile: Percentile) -> Option<f64> {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P90 => self.p90,
            Percentile::P99 => self.p99,
            Percentile::P99_9 => self.p99_9,
            Percentile::P99_95 => self.p99_95,
            Percentile::P99_99 => self.p99_99,
        }
    }

    /// True if there are no values at all, infinite ones included.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.max.is_some()
    }

    /// This block with intervals.
    pub fn bounded(self, bounds: Bounds) -> Block {
        Block { supported: bounds.highest_supported(), bounds: Some(bounds), ..self }
    }

    /// True if the sample bounds `percentile`.
    pub fn supports(&self, percentile: Percentile) -> bool {
        let by_count = || self.supported.is_some_and(|highest| percentile <= highest);
        self.bounds.map_or_else(by_count, |bounds| bounds.supports(percentile))
    }

    /// The block of `total` values, `finite` of them finite; `value` returns the value at a rank (1 to `total`) and is
    /// called with ascending ranks.
    pub(crate) fn from_ranks(finite: u64, total: u64, mut value: impl FnMut(u64) -> f64) -> Block {
        let mut at = |rank| {
            if total == 0 {
                return Some(0.0);
            }
            Some(value(rank)).filter(|value| value.is_finite())
        };
        Block {
            count: finite,
            p50: at(Percentile::P50.rank(total)),
            p90: at(Percentile::P90.rank(total)),
            p99: at(Percentile::P99.rank(total)),
            p99_9: at(Percentile::P99_9.rank(total)),
            p99_95: at(Percentile::P99_95.rank(total)),
            p99_99: at(Percentile::P99_99.rank(total)),
            max: at(total),
            supported: Percentile::highest_supported(total),
            bounds: None,
        }
    }
}

impl Default for Block {
    /// The block of an empty sample.
    fn default() -> Block {
        Block::from_sorted(&[])
    }
}

#[cfg(feature = "admin")]
fn name_or_none<S: serde::Serializer>(supported: &Option<Percentile>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(supported.map_or("none", Percentile::name))
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use super::*;

    /// Are percentiles nearest ranks? The values 1 to 10,000 have known percentiles.
    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let block = Block::from_sorted(&values);
        let of_ten_thousand = Percentile::ALL.map(|percentile| block.percentile(percentile).expect("finite"));
        assert_eq!(of_ten_thousand, [5_000.0, 9_000.0, 9_900.0, 9_990.0, 9_995.0, 9_999.0]);
        assert_eq!((block.count, block.max, block.supported), (10_000, Some(10_000.0), Some(Percentile::P99_95)));
    }

    /// Do values that never came count in the ranks and print as null?
    #[test]
    fn an_infinite_value_is_null_and_not_counted() {
        let mut values = vec![1.0; 98];
        values.extend([f64::INFINITY; 2]);
        let block = Block::from_sorted(&values);
        assert_eq!(
            serde_json::to_string(&block).expect("serializes"),
            r#"{"count":98,"p50":1.0,"p90":1.0,"p99":null,"p99_9":null,"p99_95":null,"p99_99":null,"max":null,"supported":"p90"}"#
        );
    }

    /// Is an empty block all zero, and does it show that it supports no percentile?
    #[test]
    fn an_empty_block_is_zero() {
        let empty = Block::from_sorted(&[]);
        assert_eq!(
            serde_json::to_string(&empty).expect("serializes"),
            r#"{"count":0,"p50":0.0,"p90":0.0,"p99":0.0,"p99_9":0.0,"p99_95":0.0,"p99_99":0.0,"max":0.0,"supported":"none"}"#
        );
        assert!(empty.is_empty() && !empty.supports(Percentile::P50));
        assert!(!Block::from_sorted(&[f64::INFINITY]).is_empty(), "what never came is a value");
    }
}
