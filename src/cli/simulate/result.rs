//! The results of a report.

use crate::lab::study::capacity::Sustained;
use crate::lab::study::goal::Goal;
use crate::lab::study::scenario::Simulation;

/// The results of a command.
#[derive(Clone, Debug)]
pub(super) enum Results {
    /// Results for every policy at every load.
    Outcomes(Vec<Simulation>),
    /// The highest load of every policy.
    Sustained(Goal, Vec<Sustained>),
}

impl Results {
    /// All simulations with figures.
    pub(super) fn simulations(&self) -> Vec<&Simulation> {
        match self {
            Results::Outcomes(simulations) => simulations.iter().collect(),
            Results::Sustained(_, searches) => {
                searches.iter().filter_map(|search| Some(&search.at.as_ref()?.simulation)).collect()
            }
        }
    }
}
