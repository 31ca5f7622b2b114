//! The percentiles of a run as JSON, and their schema.

use super::{Block, Bounds, Interval};
use forebay_metrics::Percentile;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;

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
