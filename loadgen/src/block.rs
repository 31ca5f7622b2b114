//! Distributions as the reports show them: a [`Block`] of percentiles for each class.

use crate::percentile::Percentile;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A sample in the making: what was measured, and how often the answer is "never".
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    finite: Vec<f64>,
    infinite: usize,
}

impl Samples {
    /// Adds a measured value.
    pub(crate) fn add(&mut self, value: f64) {
        self.finite.push(value);
    }

    /// Adds an infinite value: a request without an answer.
    pub(crate) fn add_infinite(&mut self) {
        self.infinite += 1;
    }

    /// All of them together.
    pub(crate) fn union(parts: &[Samples]) -> Samples {
        let finite = parts.iter().flat_map(|part| part.finite.iter().copied()).collect();
        Samples { finite, infinite: parts.iter().map(|part| part.infinite).sum() }
    }

    /// Exact percentiles, by nearest rank over all samples, the infinite ones last.
    pub(crate) fn into_block(mut self) -> Block {
        self.finite.sort_unstable_by(f64::total_cmp);
        let samples = self.finite.len() + self.infinite;
        let at_rank = |rank: usize| if rank == 0 { Some(0.0) } else { self.finite.get(rank - 1).copied() };
        let supported = Percentile::REPORTED.into_iter().rfind(|percentile| percentile.is_supported_by(samples));
        Block {
            count: self.finite.len(),
            samples,
            percentiles: Percentile::REPORTED.map(|percentile| at_rank(percentile.rank(samples))),
            max: at_rank(samples),
            supported,
        }
    }
}

/// Percentiles of one distribution, in the unit of its samples. `None` is infinity; everything is 0 when there were no
/// samples at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// Finite samples.
    pub(crate) count: usize,
    /// All samples, the infinite ones included: what percentiles are taken over.
    pub(crate) samples: usize,
    percentiles: [Option<f64>; Percentile::REPORTED.len()],
    /// The largest sample.
    pub(crate) max: Option<f64>,
    /// The highest reported percentile that a sample of this size bounds.
    pub(crate) supported: Option<Percentile>,
}

const KEYS: [&str; Percentile::REPORTED.len()] = ["p50", "p90", "p99", "p99_9", "p99_95", "p99_99"];

impl Block {
    /// The percentile of that JSON key, infinite if `None`.
    ///
    /// # Panics
    /// If there is no such key.
    pub(crate) fn percentile(&self, key: &str) -> Option<f64> {
        self.percentiles[place_of(key)]
    }

    /// Whether the sample is large enough to bound the percentile of that JSON key.
    ///
    /// # Panics
    /// If there is no such key.
    pub(crate) fn supports(&self, key: &str) -> bool {
        self.supported.is_some_and(|supported| Percentile::REPORTED[place_of(key)] <= supported)
    }
}

fn place_of(key: &str) -> usize {
    KEYS.iter().position(|name| *name == key).expect("a percentile's JSON key")
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(KEYS.len() + 3))?;
        map.serialize_entry("count", &self.count)?;
        for (key, value) in KEYS.iter().zip(self.percentiles) {
            map.serialize_entry(key, &value)?;
        }
        map.serialize_entry("max", &self.max)?;
        let supported = self.supported.map_or_else(|| "none".to_owned(), |percentile| percentile.to_string());
        map.serialize_entry("supported", &supported)?;
        map.end()
    }
}

/// One value for all requests together and one per class, in the order of reports: `all`, then by class number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByClass<T>(pub(crate) Vec<(&'static str, T)>);

impl<T> ByClass<T> {
    /// The value for all requests together.
    pub(crate) fn all(&self) -> &T {
        &self.0[0].1
    }

    /// The value of that class, or of `all`.
    pub(crate) fn of(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(class, _)| *class == name).map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for ByClass<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(class, value)| (class, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(finite: usize, infinite: usize) -> Block {
        let mut samples = Samples::default();
        (1..=finite).rev().for_each(|value| samples.add(value as f64));
        (0..infinite).for_each(|_| samples.add_infinite());
        samples.into_block()
    }

    #[test]
    fn percentiles_are_exact_and_supported_as_far_as_the_sample_goes() {
        let block = block(3_000, 0);
        assert_eq!(block.percentile("p50"), Some(1_500.0));
        assert_eq!(block.percentile("p99_9"), Some(2_997.0));
        assert_eq!(block.max, Some(3_000.0));
        assert!(block.supports("p99_9") && !block.supports("p99_95"));
    }

    #[test]
    fn what_is_unanswered_is_infinite_and_null() {
        let block = block(98, 2);
        assert_eq!(block.percentile("p90"), Some(90.0));
        assert_eq!(block.percentile("p99"), None);
        let json = serde_json::to_value(&block).expect("a map");
        assert_eq!(json["count"], 98);
        assert!(json["p99"].is_null() && json["max"].is_null());
        assert_eq!(json["supported"], "p90");
    }

    #[test]
    fn an_empty_sample_has_no_infinity_in_it() {
        let json = serde_json::to_value(block(0, 0)).expect("a map");
        assert_eq!((&json["count"], &json["p99_99"]), (&0.into(), &0.0.into()));
        assert_eq!(json["supported"], "none");
    }
}
