//! One value per class of request, and the values of a stream with their [`Block`].

use forebay::lab::stats::{Batches, Memory, Sample};
use forebay::metrics::Block;
use serde::ser::{Serialize, Serializer};

/// One value for all requests together and one per class, in the order of reports: `all`, then by class number.
#[derive(Clone, Debug, PartialEq)]
pub struct ByClass<T>(pub(crate) Vec<(&'static str, T)>);

impl<T> ByClass<T> {
    /// The value for all requests together.
    pub fn all(&self) -> &T {
        &self.0[0].1
    }

    /// The value of the class `name`, or of `all`.
    pub fn of(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(class, _)| *class == name).map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for ByClass<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(class, value)| (class, value)))
    }
}

/// The values of a stream, `f64::INFINITY` for each that never came.
#[derive(Clone, Debug, Default)]
pub struct Values {
    values: Vec<f64>,
    batches: Batches,
}

impl Values {
    /// Adds the next value.
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
        self.batches.record(0, value);
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values in batches.
    pub fn sample(&self) -> Sample {
        self.batches.sample(None)
    }

    /// The exact block, with the intervals of a queue with `memory`.
    pub fn into_block(self, memory: Memory, precision: f64) -> Block {
        let bounds = self.sample().bounds(memory, precision);
        block_of(self.values).bounded(bounds)
    }
}

/// The exact block of `values` in any order, with `f64::INFINITY` for each value that never came.
pub fn block_of(mut values: Vec<f64>) -> Block {
    values.sort_unstable_by(f64::total_cmp);
    Block::from_sorted(&values)
}
