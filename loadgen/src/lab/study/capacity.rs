//! A search that takes many simulations: the load that a policy sustains.

use super::judge::{Judged, Verdict};
use super::policy_spec::PolicySpec;
use super::scenario::Scenario;
use crate::lab::study::goal::Goal;

/// The highest load at which a goal holds.
#[derive(Clone, Debug)]
pub(crate) struct Sustained {
    pub(crate) spec: PolicySpec,
    /// The load in hundredths of the capacity; 0 = not even 0.01 is known to be sustained.
    pub(crate) max_load: f64,
    /// The simulation at that load; `None` if no load is sustained.
    pub(crate) at: Option<Judged>,
    /// The next load above it, which fails or does not tell.
    pub(crate) beyond: f64,
    /// The simulation there; `None` at the end of the scale, which no policy sustains.
    pub(crate) not_at: Option<Judged>,
}

/// The upper end of the search in hundredths of the capacity, a load that no policy sustains.
const HUNDREDTHS: u32 = 100;
/// The number of simulations in one search.
pub(crate) const SIMULATIONS: u64 = HUNDREDTHS.ilog2() as u64 + 1;

/// The highest load at which `spec` reaches `goal`, by bisection: each load until it is known, or
/// for the scenario's requests. A load that is not decided counts as not sustained.
pub(crate) fn max_load(scenario: &Scenario<'_>, spec: PolicySpec, goal: &Goal) -> Sustained {
    let share = |hundredths: u32| f64::from(hundredths) / f64::from(HUNDREDTHS);
    let (mut holds, mut open) = (0, HUNDREDTHS);
    let (mut at, mut not_at) = (None, None);
    while open - holds > 1 {
        let hundredths = u32::midpoint(holds, open);
        let judged = scenario.judge(spec, share(hundredths), goal, scenario.requests);
        if judged.verdict == Verdict::Holds {
            (holds, at) = (hundredths, Some(judged));
        } else {
            (open, not_at) = (hundredths, Some(judged));
        }
    }
    let max_load = if at.is_some() { share(holds) } else { 0.0 };
    Sustained { spec, max_load, at, beyond: share(open), not_at }
}
