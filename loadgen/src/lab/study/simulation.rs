//! The result of one simulation, and its verdict on a goal.

use super::goal::Goal;
use super::policy_spec::PolicySpec;
use crate::lab::sim::Tally;
use std::fmt;

/// The result of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) spec: PolicySpec,
    pub(crate) workers: usize,
    /// The sizes of pools, if they were given.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) load: f64,
    /// Pool sizes and budgets, in words.
    pub(crate) chosen: String,
    /// The load from which on a pool cannot keep up. `None` if there is no such bound below the
    /// whole capacity, or none is known.
    pub(crate) unstable_from: Option<f64>,
    pub(crate) tally: Tally,
    /// Requests that were measured.
    pub(crate) measured: u64,
    /// The verdict on the goal, if there is one.
    pub(crate) verdict: Option<GoalVerdict>,
}

/// Whether a goal holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GoalVerdict {
    /// The goal holds, and no class starves.
    Holds,
    /// The run ended at the most requests without a decision.
    Undecided,
    /// The goal does not hold.
    Fails(GoalFailure),
}

/// Why a goal does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GoalFailure {
    /// More work arrives than all workers can do.
    Overload,
    /// A pool gets more work than its workers can do, from this load on.
    Sizes(f64),
    /// The percentile of the goal is above its limit.
    Goal,
    /// The latency of a class is above ten times what a request alone takes, and above the goal's
    /// limit. The number is its slowdown.
    Starves(&'static str, f64),
    /// The latency of a class grows for as long as the run lasts.
    Grows(&'static str),
}

impl Simulation {
    /// Whether more work arrives than all workers can do.
    pub(crate) fn is_overload(&self) -> bool {
        self.load >= 1.0
    }

    /// Whether the goal certainly holds.
    pub(crate) fn holds(&self) -> bool {
        self.verdict == Some(GoalVerdict::Holds)
    }

    /// Whether `goal` holds. If the run is undecided, its figure decides.
    pub(crate) fn seems(&self, goal: &Goal) -> bool {
        self.holds() || self.verdict == Some(GoalVerdict::Undecided) && goal.holds(&self.tally)
    }

    /// Why the goal does not hold.
    pub(crate) fn cause(&self) -> Option<GoalFailure> {
        if let Some(GoalVerdict::Fails(cause)) = self.verdict { Some(cause) } else { None }
    }

    /// Whether the goal fails because of overload. Then the figures depend on the length of the
    /// run.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self.cause(), Some(GoalFailure::Overload | GoalFailure::Sizes(_)))
    }
}

impl GoalVerdict {
    /// One word: `holds`, `fails` or `undecided`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GoalVerdict::Holds => "holds",
            GoalVerdict::Undecided => "undecided",
            GoalVerdict::Fails(_) => "fails",
        }
    }
}

impl fmt::Display for GoalFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalFailure::Overload => f.write_str("more comes than all workers can do"),
            GoalFailure::Sizes(load) => write!(f, "these sizes are unstable from a load of {load:.3} on"),
            GoalFailure::Goal => f.write_str("the goal is missed"),
            GoalFailure::Starves(class, slowdown) => {
                write!(f, "class {class} starves, p99 of its slowdown is {slowdown:.1}")
            }
            GoalFailure::Grows(class) => write!(f, "unstable: the latency of class {class} grows"),
        }
    }
}
