//! The results as JSON, schema `forebay-simulate/1`.

use super::result::Results;
use super::run::{Outcome, Scene};
use crate::metrics::Block;
use crate::sim::FATES;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The document, indented, with a final newline.
pub(super) fn render(scene: &Scene<'_>, results: &Results) -> String {
    format!("{:#}\n", value(scene, results))
}

/// The document.
pub(super) fn value(scene: &Scene<'_>, results: &Results) -> Value {
    let items: Vec<Value> = match results {
        Results::Outcomes(outcomes) => outcomes.iter().map(|outcome| item(scene, outcome)).collect(),
        Results::Sustained(goal, searches) => {
            let one = |search: &super::search::Sustained| {
                let mut item = search
                    .at
                    .as_ref()
                    .map_or_else(|| named(scene, &search.contender.to_string()), |at| item(scene, at));
                item["max_load"] = search.max_load.into();
                item["goal"] = goal.to_string().into();
                item
            };
            searches.iter().map(one).collect()
        }
    };
    let mut document = json!({
        "schema": "forebay-simulate/1",
        "seed": scene.seed,
        "requests": scene.requests,
        "warmup": scene.warmup(),
        "overheads": scene.overheads.to_string(),
        "results": items,
    });
    if let Some(run) = scene.replayed {
        document["replay"] = run.path.to_string_lossy().into();
    }
    document
}

fn named(scene: &Scene<'_>, policy: &str) -> Value {
    json!({"policy": policy, "workers": scene.workers, "workload": scene.workload.name()})
}

fn item(scene: &Scene<'_>, outcome: &Outcome) -> Value {
    let fates = outcome.tally.fates();
    let mut item = named(scene, &outcome.contender.to_string());
    item["load"] = outcome.load.into();
    item["chosen"] = outcome.chosen.as_str().into();
    item["fates"] = FATES.into_iter().map(|fate| (fate.name(), fates.of(fate))).collect::<Value>();
    item["fates"]["kernel_dropped"] = fates.kernel_dropped.into();
    item["slowdown"] = by_class(outcome.tally.slowdown());
    item["latency_us"] = by_class(outcome.tally.latency_us());
    item
}

/// Percentiles of all requests and of each class, by name.
pub(in crate::command) fn by_class(blocks: Vec<(&'static str, Block)>) -> Value {
    let entry = |(class, block): (&str, Block)| (class.to_owned(), value_of(&block));
    Value::Object(blocks.into_iter().map(entry).collect::<Map<_, _>>())
}

fn value_of(block: &impl Serialize) -> Value {
    serde_json::to_value(block).expect("a block has no keys that are no text")
}
