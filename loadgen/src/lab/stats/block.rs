//! The percentiles of a run for tables and JSON. Each has an interval in which the long-run value
//! lies.

use forebay::metrics::{self, Percentile};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;

/// Percentiles, with intervals if the order of the values is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Block {
    #[serde(flatten)]
    values: metrics::Block,
    /// The 95 % intervals of the percentiles. Their widths decide which percentiles are known. The
    /// number of values would be a criterion only for independent values. They print with `known`,
    /// the list of percentiles that [`Block::supports`].
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

impl Block {
    /// See [`metrics::Block::from_sorted`].
    pub fn from_sorted(sorted: &[f64]) -> Block {
        Block { values: metrics::Block::from_sorted(sorted), bounds: None }
    }

    /// See [`metrics::Block::from_ranks`].
    pub fn from_ranks(finite: u64, total: u64, value: impl FnMut(u64) -> f64) -> Block {
        Block { values: metrics::Block::from_ranks(finite, total, value), bounds: None }
    }

    /// This block with intervals.
    pub fn bounded(self, bounds: Bounds) -> Block {
        let mut values = self.values;
        values.supported = bounds.highest_supported();
        Block { values, bounds: Some(bounds) }
    }

    /// Whether `percentile` is known: its interval is narrow enough.
    pub fn supports(&self, percentile: Percentile) -> bool {
        self.bounds.map_or_else(|| self.values.supports(percentile), |bounds| bounds.supports(percentile))
    }
}

impl Deref for Block {
    type Target = metrics::Block;

    fn deref(&self) -> &metrics::Block {
        &self.values
    }
}

impl JsonSchema for Block {
    fn schema_name() -> Cow<'static, str> {
        "Block".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let figure = |name: &'static str| (name, json!({"type": ["number", "null"]}));
        let figures: BTreeMap<_, _> =
            Percentile::ALL.map(Percentile::name).into_iter().chain(["max"]).map(figure).collect();
        let mut block = json_schema!({
            "description": "Percentiles over everything sent: null is infinity, what is not answered. `known` names those \
                whose 95 % interval, in `bounds`, is within a factor of 2; `supported` is the highest known.",
            "type": "object",
            "properties": figures,
            "required": figures.keys().chain(&["count", "supported"]).collect::<Vec<_>>(),
        });
        let properties = block.get_mut("properties").expect("it is there");
        properties["count"] = json!({"type": "integer"});
        properties["supported"] = json!({"type": "string"});
        properties["known"] = json!({"type": "array", "items": {"type": "string"}});
        properties["bounds"] = json!({"type": "object", "additionalProperties": {"type": "array"}});
        block
    }
}

/// A 95 % interval of a positive figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end; 0 if the run is too short to give one.
    pub low: f64,
    /// The upper end; infinite if the run is too short to give one, or if the figure is infinite.
    pub high: f64,
}

impl Interval {
    /// The interval of a run that is too short to tell anything.
    pub const UNKNOWN: Interval = Interval { low: 0.0, high: f64::INFINITY };
}

/// A figure counts as known if the upper end is at most this many times the lower end.
pub const PRECISION: f64 = 2.0;

/// The 95 % interval of each percentile.
///
/// Serialized as `"known":["p50",..],"bounds":{"p50":[low,high],..}`, where `null` is infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    intervals: [Interval; Percentile::ALL.len()],
}

impl Bounds {
    /// The intervals of percentiles.
    pub fn new(interval: impl Fn(Percentile) -> Interval) -> Bounds {
        Bounds { intervals: Percentile::ALL.map(interval) }
    }

    /// The interval of `percentile`.
    pub fn interval(&self, percentile: Percentile) -> Interval {
        self.intervals[percentile as usize]
    }

    /// Whether the interval of `percentile` is within [`PRECISION`], or both of its ends are
    /// infinite.
    pub fn supports(&self, percentile: Percentile) -> bool {
        let Interval { low, high } = self.interval(percentile);
        low == high || low > 0.0 && high <= PRECISION * low
    }

    /// The highest percentile whose interval is narrow enough. Those of lower ones may be wider:
    /// near the median of two unlike kinds of requests.
    pub fn highest_supported(&self) -> Option<Percentile> {
        Percentile::ALL.into_iter().rfind(|percentile| self.supports(*percentile))
    }
}

impl Serialize for Bounds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ends = |percentile: Percentile| {
            let Interval { low, high } = self.interval(percentile);
            (percentile.name(), [low, high].map(|end| Some(end).filter(|end| end.is_finite())))
        };
        let known = Percentile::ALL.into_iter().filter(|percentile| self.supports(*percentile));
        let mut fields = serializer.serialize_map(Some(2))?;
        fields.serialize_entry("known", &known.map(Percentile::name).collect::<Vec<_>>())?;
        fields.serialize_entry("bounds", &BTreeMap::from(Percentile::ALL.map(ends)))?;
        fields.end()
    }
}
