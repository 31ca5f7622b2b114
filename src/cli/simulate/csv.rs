//! The results as comma-separated values: a line for each class of each run. Infinity is `inf`.

use super::result::Results;
use crate::metrics::{Block, Percentile};
use crate::sim::study::scenario::Scene;

/// A header and the lines.
pub(super) fn render(scene: &Scene<'_>, results: &Results) -> String {
    let names = |figure: &str| -> String {
        let percentiles = Percentile::ALL.map(|percentile| format!(",{figure}_{}", percentile.name()));
        format!("{},{figure}_max", percentiles.concat())
    };
    let mut text =
        format!("policy,workers,workload,seed,load,class,count{}{}\n", names("slowdown"), names("latency_us"));
    for outcome in results.outcomes() {
        for ((class, slowdown), (_, latency)) in outcome.tally.slowdown().iter().zip(&outcome.tally.latency_us()) {
            text.push_str(&format!(
                "{},{},{},{},{},{class},{}{}{}\n",
                outcome.contender,
                scene.workers,
                scene.workload.name(),
                scene.seed,
                outcome.load,
                slowdown.count,
                figures(slowdown),
                figures(latency)
            ));
        }
    }
    text
}

fn figures(block: &Block) -> String {
    let percentiles = Percentile::ALL.map(|percentile| block.percentile(percentile));
    let cell = |value: Option<f64>| value.map_or_else(|| ",inf".to_owned(), |value| format!(",{value}"));
    percentiles.into_iter().chain([block.max]).map(cell).collect()
}
