//! The results of a report.

use crate::sim::study::capacity::Sustained;
use crate::sim::study::goal::Goal;
use crate::sim::study::scenario::Simulation;

/// What was asked for.
#[derive(Clone, Debug)]
pub(super) enum Results {
    /// Every policy at every load.
    Outcomes(Vec<Simulation>),
    /// The highest load of every policy.
    Sustained(Goal, Vec<Sustained>),
}

impl Results {
    /// All simulations of which there are figures.
    pub(super) fn simulations(&self) -> Vec<&Simulation> {
        match self {
            Results::Outcomes(simulations) => simulations.iter().collect(),
            Results::Sustained(_, searches) => searches.iter().filter_map(|search| search.at.as_ref()).collect(),
        }
    }
}
