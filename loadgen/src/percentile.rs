//! Percentiles, and how large a sample must be before one means anything.

use std::fmt;
use std::str::FromStr;

/// A percentile below 100, to a ten-thousandth of a percent: an exact number, so that ranks are exact as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Percentile {
    per_million: u32,
}

impl Percentile {
    /// Those that every report shows, lowest first.
    pub(crate) const REPORTED: [Percentile; 6] = [
        Percentile { per_million: 500_000 },
        Percentile { per_million: 900_000 },
        Percentile { per_million: 990_000 },
        Percentile { per_million: 999_000 },
        Percentile { per_million: 999_500 },
        Percentile { per_million: 999_900 },
    ];

    /// The nearest rank in a sorted sample of `samples`: the smallest number of samples that is at least the
    /// percentile's share of them, counted from 1. Zero only for no samples.
    pub(crate) fn rank(self, samples: usize) -> usize {
        let rank = (samples as u128 * u128::from(self.per_million)).div_ceil(1_000_000);
        usize::try_from(rank).expect("a rank is at most the number of samples")
    }

    /// The smallest sample whose maximum bounds the percentile from above with 95 % confidence: of `n` independent
    /// samples all lie below the percentile `q` with probability `q^n`.
    pub(crate) fn samples_needed(self) -> u64 {
        let share = f64::from(self.per_million) / 1e6;
        (0.05_f64.ln() / share.ln()).ceil() as u64
    }

    /// Whether `samples` are enough to bound it.
    pub(crate) fn is_supported_by(self, samples: usize) -> bool {
        samples as u64 >= self.samples_needed()
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.per_million) / 10_000.0)
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentile, String> {
        let percent: Option<f64> = text.parse().ok();
        let per_million = percent.map(|percent| percent * 10_000.0).unwrap_or(f64::NAN);
        if !(1.0..=999_999.0).contains(&per_million) || (per_million - per_million.round()).abs() > 1e-3 {
            return Err("write a percentile above 0 and below 100, with at most four decimals, like 99.9".to_owned());
        }
        Ok(Percentile { per_million: per_million.round() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(text: &str) -> Percentile {
        text.parse().expect(text)
    }

    #[test]
    fn the_sample_sizes_are_those_of_the_contract() {
        let needed = ["99.9", "99.95", "99.99"].map(|text| percentile(text).samples_needed());
        assert_eq!(needed, [2_995, 5_990, 29_956]);
    }

    #[test]
    fn ranks_are_nearest_ranks_and_exact() {
        assert_eq!(percentile("50").rank(0), 0);
        assert_eq!(percentile("50").rank(1), 1);
        assert_eq!(percentile("50").rank(4), 2);
        assert_eq!(percentile("50").rank(5), 3);
        assert_eq!(percentile("99.9").rank(1_000), 999);
        assert_eq!(percentile("99.9").rank(1_001), 1_000);
        assert_eq!(percentile("99.95").rank(2_000), 1_999);
    }

    #[test]
    fn text_and_percentile_are_inverses() {
        for text in ["50", "99", "99.9", "99.95", "99.9999"] {
            assert_eq!(percentile(text).to_string(), format!("p{text}"));
        }
        for text in ["0", "100", "-1", "99.99999", "p99", "", "nan", "inf"] {
            assert!(text.parse::<Percentile>().is_err(), "{text:?} was read");
        }
    }
}
