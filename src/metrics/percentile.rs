//! The reported percentiles, and the sample size that each of them needs.

use crate::fate::labels;
use std::fmt;
use std::str::FromStr;

labels! {
    /// The percentiles in every block, ordered by rank; written as `p99.9`, and in JSON by name.
    #[derive(PartialOrd, Ord)]
    Percentile {
        /// The median.
        P50 = "p50",
        /// 9 of 10 values are at or below this percentile.
        P90 = "p90",
        /// 99 of 100 values are at or below this percentile.
        P99 = "p99",
        /// 999 of 1,000 values are at or below this percentile.
        P99_9 = "p99_9",
        /// 1,999 of 2,000 values are at or below this percentile.
        P99_95 = "p99_95",
        /// 9,999 of 10,000 values are at or below this percentile.
        P99_99 = "p99_99",
    }
}

/// How many of 10,000 values are at or below each percentile.
const IN_TEN_THOUSAND: [u64; Percentile::ALL.len()] = [5_000, 9_000, 9_900, 9_990, 9_995, 9_999];

impl Percentile {
    /// The share of a sample at or below this percentile, between 0 and 1.
    pub fn quantile(self) -> f64 {
        self.in_ten_thousand() as f64 / 1e4
    }

    /// The nearest rank of this percentile among `count` sorted values: 1 to `count`, and 1 for an empty sample.
    pub const fn rank(self, count: u64) -> u64 {
        // Whole numbers, because 0.9995 x 2,000 in floats may come out above 1,999 and skip a rank. The product fits:
        // 2^64 / 10^4 values are more than a century of any server.
        let rank = count.saturating_mul(self.in_ten_thousand()).div_ceil(10_000);
        if rank == 0 { 1 } else { rank }
    }

    /// The sample size that bounds this percentile from above with 95 % confidence (one-sided, distribution-free). It is the
    /// smallest n with `quantile^n <= 0.05`, so that the maximum is a bound.
    pub fn samples_needed(self) -> u64 {
        (0.05_f64.ln() / self.quantile().ln()).ceil() as u64
    }

    /// The highest percentile that a sample of `count` values can bound; `None` if it cannot even bound the median.
    pub fn highest_supported(count: u64) -> Option<Percentile> {
        Percentile::ALL.into_iter().rev().find(|percentile| count >= percentile.samples_needed())
    }

    const fn in_ten_thousand(self) -> u64 {
        IN_TEN_THOUSAND[self as usize]
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.in_ten_thousand() as f64 / 1e2)
    }
}

/// The error for a text that is not a [`Percentile`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a percentile that is reported: write one of {all}",
    all = Percentile::ALL.map(|percentile| percentile.to_string()[1..].to_owned()).join(", ")
)]
pub struct PercentileError(String);

crate::time::show_as_text!(PercentileError);

impl FromStr for Percentile {
    type Err = PercentileError;

    /// Reads `99.9`, or `p99.9`.
    fn from_str(text: &str) -> Result<Percentile, PercentileError> {
        let number = text.strip_prefix('p').unwrap_or(text);
        let same = |percentile: &Percentile| percentile.to_string()[1..] == *number;
        Percentile::ALL.into_iter().find(same).ok_or_else(|| PercentileError(text.to_owned()))
    }
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

    /// Are ranks nearest ranks, and exact where floats would not be?
    #[test]
    fn ranks_are_exact() {
        assert_eq!(Percentile::P99_95.rank(2_000), 1_999, "no float rounding above the exact rank");
        assert_eq!(Percentile::P50.rank(3), 2);
    }

    /// Does each percentile parse back from its text, and does no other text parse?
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
