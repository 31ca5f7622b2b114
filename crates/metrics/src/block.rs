//! One distribution as tables and JSON show it: a count, six percentiles and the maximum. It also
//! says for which percentiles the sample is large enough.

use crate::fate::labels;
use std::fmt;
use std::str::FromStr;

/// A distribution of latencies in microseconds, or of slowdowns, which have no unit. Percentiles
/// are values of the sample (nearest rank), not interpolated.
///
/// `None` stands for infinity and prints as `null`. An empty sample has percentiles of 0, and
/// `supported` prints as `"none"`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Block {
    /// Number of finite values in the sample.
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
    /// The highest percentile for which the sample is large enough, infinite values included. It
    /// supports all lower percentiles too. This assumes independent values (see
    /// [`Percentile::samples_needed`]). `None` prints as `"none"`.
    #[cfg_attr(feature = "admin", serde(serialize_with = "name_or_none"))]
    pub supported: Option<Percentile>,
}

impl Block {
    /// The block of `sorted` values, which are in ascending order. `f64::INFINITY` stands for a
    /// value that never came, such as the latency of a lost request. Infinite values count for
    /// ranks and for `supported`, but not for `count`.
    ///
    /// # Panics
    /// In debug builds, when `sorted` is not in ascending order or holds a NaN.
    pub fn from_sorted(sorted: &[f64]) -> Block {
        debug_assert!(sorted.is_sorted(), "values in ascending order, none of them NaN");
        let total = sorted.len() as u64;
        let finite = sorted.partition_point(|value| value.is_finite()) as u64;
        Block::from_ranks(finite, total, |rank| sorted[rank as usize - 1])
    }

    /// The value of `percentile`; `None` = infinity.
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

    /// Whether the sample has no values, not even infinite ones.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.max.is_some()
    }

    /// Whether the sample is large enough for `percentile`.
    pub fn supports(&self, percentile: Percentile) -> bool {
        self.supported.is_some_and(|highest| percentile <= highest)
    }

    /// Makes a block of `total` values, of which `finite` are finite. `value` returns the value at
    /// a rank from 1 to `total`; it is called with ascending ranks.
    #[cfg_attr(doc, doc(hidden))]
    pub fn from_ranks(finite: u64, total: u64, mut value: impl FnMut(u64) -> f64) -> Block {
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
    /// The block of an empty sample: all zero.
    fn default() -> Block {
        Block::from_sorted(&[])
    }
}

#[cfg(feature = "admin")]
fn name_or_none<S: serde::Serializer>(supported: &Option<Percentile>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(supported.map_or("none", Percentile::name))
}

labels! {
    /// The percentiles in every block, ascending. Shown as `p99.9`; the name is for JSON.
    #[derive(PartialOrd, Ord)]
    #[non_exhaustive]
    Percentile {
        /// The median.
        P50 = "p50",
        /// The 90th percentile: at least 9 of 10 values are no higher.
        P90 = "p90",
        /// The 99th percentile: at least 99 of 100 values are no higher.
        P99 = "p99",
        /// The 99.9th percentile: at least 999 of 1,000 values are no higher.
        P99_9 = "p99_9",
        /// The 99.95th percentile: at least 1,999 of 2,000 values are no higher.
        P99_95 = "p99_95",
        /// The 99.99th percentile: at least 9,999 of 10,000 values are no higher.
        P99_99 = "p99_99",
    }
}

/// Of 10,000 values, how many are at or below each percentile.
const IN_TEN_THOUSAND: [u64; Percentile::ALL.len()] = [5_000, 9_000, 9_900, 9_990, 9_995, 9_999];

impl Percentile {
    /// The share of a sample at or below this percentile, from 0 to 1.
    pub fn quantile(self) -> f64 {
        IN_TEN_THOUSAND[self as usize] as f64 / 1e4
    }

    /// The nearest rank of this percentile in `count` sorted values: from 1 to `count`; 1 for an
    /// empty sample.
    pub const fn rank(self, count: u64) -> u64 {
        // Computed in integers, because as floats 0.9995 x 2,000 may exceed 1,999 and skip a rank.
        // The product does not overflow: a server needs more than a century for 2^64 / 10^4 values.
        let rank = count.saturating_mul(IN_TEN_THOUSAND[self as usize]).div_ceil(10_000);
        if rank == 0 { 1 } else { rank }
    }

    /// Least number of values that a sample needs to support this percentile: the smallest n with
    /// `quantile^n <= 0.05`. With so many independent values, the maximum is an upper bound of the
    /// percentile with 95 % confidence, whatever the distribution.
    pub fn samples_needed(self) -> u64 {
        (0.05_f64.ln() / self.quantile().ln()).ceil() as u64
    }

    /// The highest percentile for which `count` values are enough; `None` if they are too few even
    /// for the median.
    pub fn highest_supported(count: u64) -> Option<Percentile> {
        Percentile::ALL.into_iter().rev().find(|percentile| count >= percentile.samples_needed())
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", IN_TEN_THOUSAND[*self as usize] as f64 / 1e2)
    }
}

impl FromStr for Percentile {
    type Err = String;

    /// Reads `99.9` or `p99.9`. The error lists what is allowed.
    fn from_str(text: &str) -> Result<Percentile, String> {
        let numbers = Percentile::ALL.map(|percentile| percentile.to_string()[1..].to_owned());
        let place = numbers.iter().position(|number| number == text.strip_prefix('p').unwrap_or(text));
        let allowed = || format!("`{text}` is not a percentile that is reported: write one of {}", numbers.join(", "));
        place.map(|place| Percentile::ALL[place]).ok_or_else(allowed)
    }
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use super::*;

    /// Are percentiles nearest ranks? The percentiles of 1 to 10,000 are known.
    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let block = Block::from_sorted(&values);
        let of_ten_thousand = Percentile::ALL.map(|percentile| block.percentile(percentile).expect("finite"));
        assert_eq!(of_ten_thousand, [5_000.0, 9_000.0, 9_900.0, 9_990.0, 9_995.0, 9_999.0]);
        assert_eq!((block.count, block.max, block.supported), (10_000, Some(10_000.0), Some(Percentile::P99_95)));
    }

    /// Do infinite values count for ranks and print as null?
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

    /// Is an empty block all zero, with no supported percentile?
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

#[cfg(test)]
mod percentile_tests {
    use super::*;

    /// Does each percentile need the number of samples that its documentation names?
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

    /// Are ranks nearest ranks, also where floats would be off?
    #[test]
    fn ranks_are_exact() {
        assert_eq!(Percentile::P99_95.rank(2_000), 1_999, "no float rounding above the exact rank");
        assert_eq!(Percentile::P50.rank(3), 2);
    }

    /// Does each percentile read back from its text? Is any other text refused?
    #[test]
    fn percentiles_are_written_as_people_say_them() {
        let shown = Percentile::ALL.map(|percentile| percentile.to_string());
        assert_eq!(shown, ["p50", "p90", "p99", "p99.9", "p99.95", "p99.99"]);
        for percentile in Percentile::ALL {
            assert_eq!(percentile.to_string().parse(), Ok(percentile));
            assert_eq!(percentile.to_string()[1..].parse(), Ok(percentile));
        }
        for text in ["", "p", "100", "99.999", "pp99", "0.99", "p99_9"] {
            let error = text.parse::<Percentile>().expect_err(text);
            assert!(error.contains("write one of 50, 90, 99, 99.9, 99.95, 99.99"), "{error}");
        }
    }
}
