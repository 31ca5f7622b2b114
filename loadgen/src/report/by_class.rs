//! One value for each class of requests; and a stream of values, with its [`Block`].

use crate::lab::stats::{Batches, Block, Memory, Sample};
use crate::report::histogram::Packed;
use forebay::metrics::ALL_CLASSES;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One value for all requests together and one per class, in the order of reports: `all`, then by
/// class number.
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

    /// Each class and its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(class, value)| (*class, value))
    }

    /// Whether there is no value, also none for all requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values that a request of `class` changes: that of all requests and that of its class.
    pub(crate) fn of_request(&mut self, class: u8) -> impl Iterator<Item = &mut T> {
        let own = 1 + usize::from(class);
        self.0.iter_mut().enumerate().filter(move |(at, _)| [0, own].contains(at)).map(|(_, (_, value))| value)
    }

    /// Applies `make` to each value.
    pub(crate) fn map<U>(&self, make: impl Fn(&T) -> U) -> ByClass<U> {
        ByClass(self.0.iter().map(|(class, value)| (*class, make(value))).collect())
    }
}

impl ByClass<Values> {
    /// No values yet, of these classes.
    pub(crate) fn empty(classes: &[&'static str]) -> ByClass<Values> {
        let names = classes.iter().copied();
        ByClass(std::iter::once(ALL_CLASSES).chain(names).map(|name| (name, Values::default())).collect())
    }

    pub(crate) fn add(&mut self, class: u8, value: f64) {
        self.of_request(class).for_each(|values| values.add(value));
    }

    /// The exact percentiles of each class, with intervals for a queue with this `memory`.
    pub(crate) fn into_blocks(self, memory: Memory) -> ByClass<Block> {
        let count = self.0.first().map_or(1, |(_, all)| all.values.len().max(1)) as f64;
        let block = |(class, values): (_, Values)| {
            let share = values.values.len() as f64 / count;
            (class, values.into_block(memory.of_share(share)))
        };
        ByClass(self.0.into_iter().map(block).collect())
    }
}

impl<T: JsonSchema> JsonSchema for ByClass<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

impl<T: Serialize> Serialize for ByClass<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(class, value)| (class, value)))
    }
}

/// The values of a stream. A value that never came is `f64::INFINITY`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    values: Vec<f64>,
    batches: Batches,
}

impl Values {
    /// Adds the next value.
    pub(crate) fn add(&mut self, value: f64) {
        self.values.push(value);
        self.batches.record(0, value);
    }

    /// The values as a histogram.
    pub(crate) fn packed(&self) -> Packed {
        Packed::of(&self.values)
    }

    /// The values in batches.
    pub(crate) fn sample(&self) -> Sample {
        self.batches.sample(None)
    }

    /// The exact percentiles, with intervals for a queue with this `memory`.
    pub(crate) fn into_block(self, memory: Memory) -> Block {
        let bounds = self.sample().bounds(memory);
        block_of(self.values).bounded(bounds)
    }
}

/// The exact percentiles of `values` in any order. A value that never came is `f64::INFINITY`.
pub(crate) fn block_of(mut values: Vec<f64>) -> Block {
    values.sort_unstable_by(f64::total_cmp);
    Block::from_sorted(&values)
}
