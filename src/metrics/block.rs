//! One distribution as people and JSON see it: a count, six percentiles, the maximum, and which of the percentiles the
//! sample is large enough to bound.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The percentiles that every block carries. Their order is by rank; people read and write them as `p99.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Percentile {
    /// The median.
    P50,
    /// 9 of 10 are at or below.
    P90,
    /// 99 of 100.
    P99,
    /// 999 of 1,000.
    P99_9,
    /// 1,999 of 2,000.
    P99_95,
    /// 9,999 of 10,000.
    P99_99,
}

impl Percentile {
    /// Every percentile, lowest first.
    pub const ALL: [Percentile; 6] =
        [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P99_9, Percentile::P99_95, Percentile::P99_99];

    /// The key used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P99 => "p99",
            Percentile::P99_9 => "p99_9",
            Percentile::P99_95 => "p99_95",
            Percentile::P99_99 => "p99_99",
        }
    }

    /// The share of a sample at or below it, between 0 and 1.
    pub fn quantile(self) -> f64 {
        self.in_ten_thousand() as f64 / 1e4
    }

    /// Its nearest rank among `count` sorted values: 1 to `count`, and 1 for an empty sample.
    pub const fn rank(self, count: u64) -> u64 {
        // Whole numbers, because 0.9995 x 2,000 in floats may come out above 1,999 and skip a rank. The product fits:
        // 2^64 / 10^4 values are more than a century of any server.
        let rank = count.saturating_mul(self.in_ten_thousand()).div_ceil(10_000);
        if rank == 0 { 1 } else { rank }
    }

    /// How many values a sample needs to bound this percentile from above with 95 % confidence (one-sided,
    /// distribution-free): the smallest n with `quantile^n <= 0.05`, so that the maximum is such a bound.
    pub fn samples_needed(self) -> u64 {
        (0.05_f64.ln() / self.quantile().ln()).ceil() as u64
    }

    /// The highest percentile that a sample of `count` values can bound; `None` where it cannot even bound the median.
    pub fn highest_supported(count: u64) -> Option<Percentile> {
        Percentile::ALL.into_iter().rev().find(|percentile| count >= percentile.samples_needed())
    }

    const fn in_ten_thousand(self) -> u64 {
        match self {
            Percentile::P50 => 5_000,
            Percentile::P90 => 9_000,
            Percentile::P99 => 9_900,
            Percentile::P99_9 => 9_990,
            Percentile::P99_95 => 9_995,
            Percentile::P99_99 => 9_999,
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.in_ten_thousand() as f64 / 1e2)
    }
}

/// Why a text is no [`Percentile`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a percentile that is reported: write one of {all}",
    all = Percentile::ALL.map(|percentile| percentile.to_string()[1..].to_owned()).join(", ")
)]
pub struct PercentileError(String);

impl FromStr for Percentile {
    type Err = PercentileError;

    /// Reads `99.9`, or `p99.9`.
    fn from_str(text: &str) -> Result<Percentile, PercentileError> {
        let number = text.strip_prefix('p').unwrap_or(text);
        let same = |percentile: &Percentile| percentile.to_string()[1..] == *number;
        Percentile::ALL.into_iter().find(same).ok_or_else(|| PercentileError(text.to_owned()))
    }
}

/// The distribution of a latency in microseconds, or of a dimensionless slowdown. Percentiles are nearest ranks.
///
/// `None` is infinity (it prints as `null`), and only infinity is: the percentiles of an empty sample are 0, and it
/// supports `"none"` of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Block {
    /// How many finite values there are.
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
    /// The highest percentile that this sample can bound, counting infinite values; see
    /// [`Percentile::samples_needed`]. `None` prints as `"none"`.
    #[serde(serialize_with = "name_or_none")]
    pub supported: Option<Percentile>,
}

impl Block {
    /// The block of exact values in ascending order, `f64::INFINITY` for each that never came. The infinite ones count
    /// in every rank and in `supported`, not in `count`.
    ///
    /// # Panics
    /// In debug builds, when `sorted` is not in ascending order or holds a NaN.
    pub fn from_sorted(sorted: &[f64]) -> Block {
        debug_assert!(sorted.is_sorted(), "values in ascending order, none of them NaN");
        let total = sorted.len() as u64;
        let finite = sorted.partition_point(|value| value.is_finite()) as u64;
        Block::from_ranks(finite, total, |rank| sorted[rank as usize - 1])
    }

    /// The value of one percentile; `None` is infinity.
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

    /// Whether there are no values at all, infinite ones included.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.max.is_some()
    }

    /// Whether the sample is large enough to bound `percentile`.
    pub fn supports(&self, percentile: Percentile) -> bool {
        self.supported.is_some_and(|highest| percentile <= highest)
    }

    /// The block of `total` values, `finite` of them finite; `value` gives the one at a rank (1 to `total`) and is
    /// asked in ascending order.
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
        }
    }
}

impl Default for Block {
    /// The block of no values.
    fn default() -> Block {
        Block::from_sorted(&[])
    }
}

fn name_or_none<S: Serializer>(supported: &Option<Percentile>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(supported.map_or("none", Percentile::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the sample sizes those of CONTRACTS.md?
    #[test]
    fn a_percentile_needs_the_contracts_number_of_samples() {
        let needed = Percentile::ALL.map(Percentile::samples_needed);
        assert_eq!(needed, [5, 29, 299, 2_995, 5_990, 29_956]);
        assert_eq!(Percentile::highest_supported(4), None);
        assert_eq!(Percentile::highest_supported(5), Some(Percentile::P50));
        assert_eq!(Percentile::highest_supported(2_994), Some(Percentile::P99));
        assert_eq!(Percentile::highest_supported(2_995), Some(Percentile::P99_9));
        assert_eq!(Percentile::highest_supported(u64::MAX), Some(Percentile::P99_99));
    }

    /// Are percentiles nearest ranks? Of 1 to 10,000 they are known.
    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let block = Block::from_sorted(&values);
        let of_ten_thousand = Percentile::ALL.map(|percentile| block.percentile(percentile).expect("finite"));
        assert_eq!(of_ten_thousand, [5_000.0, 9_000.0, 9_900.0, 9_990.0, 9_995.0, 9_999.0]);
        assert_eq!((block.count, block.max, block.supported), (10_000, Some(10_000.0), Some(Percentile::P99_95)));
        assert_eq!(Percentile::P99_95.rank(2_000), 1_999, "no float rounding above the exact rank");
        assert_eq!(Percentile::P50.rank(3), 2);
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

    /// Is an empty block all zero, and can a reader tell that it supports nothing?
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

    /// Does each percentile read back as it is shown, and is nothing else read?
    #[test]
    fn percentiles_are_written_as_people_say_them() {
        let shown = Percentile::ALL.map(|percentile| percentile.to_string());
        assert_eq!(shown, ["p50", "p90", "p99", "p99.9", "p99.95", "p99.99"]);
        for percentile in Percentile::ALL {
            assert_eq!(percentile.to_string().parse(), Ok(percentile));
            assert_eq!(percentile.to_string()[1..].parse(), Ok(percentile));
        }
        for text in ["", "p", "100", "99.999", "pp99", "0.99", "p99_9"] {
            let error = text.parse::<Percentile>().expect_err(text).to_string();
            assert!(error.contains("write one of 50, 90, 99, 99.9, 99.95, 99.99"), "{error}");
        }
    }
}
