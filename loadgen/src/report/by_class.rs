//! One value for each class of requests; and a stream of values, with its [`Block`].

use crate::lab::stats::{Batches, Block, Bounds, Interval, Memory, Sample};
use crate::report::histogram::Packed;
use forebay::metrics::{ALL_CLASSES, Percentile};
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

    /// Adds the next value, which this host may have disturbed.
    pub(crate) fn add(&mut self, class: u8, value: f64, is_disturbed: bool) {
        self.of_request(class)
            .for_each(|values| if is_disturbed { values.add_disturbed(value) } else { values.add(value) });
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
    /// The same, but what this host disturbed is zero. `None` before it disturbed a value.
    least: Option<Batches>,
    /// Disturbed values that never came.
    unjudged: usize,
}

impl Values {
    /// Adds the next value.
    pub(crate) fn add(&mut self, value: f64) {
        self.values.push(value);
        self.batches.record(0, value);
        self.least.iter_mut().for_each(|least| least.record(0, value));
    }

    /// Adds the next value, which this host disturbed: it is too high, or never came.
    fn add_disturbed(&mut self, value: f64) {
        self.least.get_or_insert_with(|| self.batches.clone()).record(0, 0.0);
        self.values.push(value);
        self.batches.record(0, value);
        self.unjudged += usize::from(value.is_infinite());
    }

    /// The values as a histogram.
    pub(crate) fn packed(&self) -> Packed {
        Packed::of(&self.values)
    }

    /// The values in batches.
    pub(crate) fn sample(&self) -> Sample {
        self.batches.sample(None)
    }

    /// The values in batches, but what this host disturbed is zero.
    pub(crate) fn least(&self) -> Sample {
        self.least.as_ref().unwrap_or(&self.batches).sample(None)
    }

    /// The exact percentiles, with intervals for a queue with this `memory`. A percentile that is
    /// infinite, but would not be without the disturbed values that never came, is not known.
    pub(crate) fn into_block(self, memory: Memory) -> Block {
        let bounds = self.sample().bounds(memory);
        let (all, finite) = (self.values.len(), self.values.iter().filter(|value| value.is_finite()).count());
        let is_endless = |of: usize, percentile: Percentile| (of as f64 * percentile.quantile()).ceil() > finite as f64;
        let is_ours = |percentile| is_endless(all, percentile) && !is_endless(all - self.unjudged, percentile);
        let interval = |percentile| if is_ours(percentile) { Interval::UNKNOWN } else { bounds.interval(percentile) };
        block_of(self.values).bounded(Bounds::new(interval))
    }
}

/// The exact percentiles of `values` in any order. A value that never came is `f64::INFINITY`.
pub(crate) fn block_of(mut values: Vec<f64>) -> Block {
    values.sort_unstable_by(f64::total_cmp);
    Block::from_sorted(&values)
}
