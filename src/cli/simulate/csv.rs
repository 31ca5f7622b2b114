//! The results as comma-separated values: a line for each class of each run. Infinity is `inf`. Fleets have four columns
//! more.

use super::sweep::Results;
use crate::lab::study::scenario::Scenario;
use crate::metrics::{Block, Percentile};

/// A header and the lines.
pub(super) fn render(scenario: &Scenario<'_>, results: &Results) -> String {
    let names = |figure: &str| -> String {
        let percentiles = Percentile::ALL.map(|percentile| format!(",{figure}_{}", percentile.name()));
        format!("{},{figure}_max", percentiles.concat())
    };
    let of_fleet = if scenario.fleet.is_some() { ",servers,lost,balance,busiest_load" } else { "" };
    let mut text = format!(
        "policy,workers{of_fleet},workload,seed,load,class,count{}{},utilisation,unstable\n",
        names("slowdown"),
        names("latency_us")
    );
    for simulation in results.simulations() {
        let of_fleet = simulation.fleet.map_or_else(String::new, |(fleet, busiest)| {
            format!(",{},{},{},{busiest}", fleet.servers, fleet.lost, fleet.balance)
        });
        let busy = simulation.tally.utilisation().map_or_else(String::new, |busy| busy.to_string());
        let unstable = simulation.tally.is_unstable();
        for ((class, slowdown), (_, latency)) in simulation.tally.slowdown().iter().zip(&simulation.tally.latency_us())
        {
            text.push_str(&format!(
                "{},{}{of_fleet},{},{},{},{class},{}{}{},{busy},{unstable}\n",
                simulation.spec,
                scenario.workers,
                scenario.workload.name(),
                scenario.seed,
                simulation.load,
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
