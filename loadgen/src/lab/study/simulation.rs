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
    pub(crate) verdict: Option<Verdict>,
}

/// Whether a goal holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The goal holds, and no class starves.
    Holds,
    /// The run ended at the most requests without a decision.
    Undecided,
    /// The goal does not hold.
    Fails(Cause),
}

/// Why a goal does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
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
        self.verdict == Some(Verdict::Holds)
    }

    /// Whether `goal` holds. If the run is undecided, its figure decides.
    pub(crate) fn seems(&self, goal: &Goal) -> bool {
        self.holds() || self.verdict == Some(Verdict::Undecided) && goal.holds(&self.tally)
    }

    /// Why the goal does not hold.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if let Some(Verdict::Fails(cause)) = self.verdict { Some(cause) } else { None }
    }

    /// Whether the goal fails because of overload. Then the figures depend on the length of the
    /// run.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self.cause(), Some(Cause::Overload | Cause::Sizes(_)))
    }
}

impl Verdict {
    /// One word: `holds`, `fails` or `undecided`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Undecided => "undecided",
            Verdict::Fails(_) => "fails",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Overload => f.write_str("more comes than all workers can do"),
            Cause::Sizes(load) => write!(f, "these sizes are unstable from a load of {load:.3} on"),
            Cause::Goal => f.write_str("the goal is missed"),
            Cause::Starves(class, slowdown) => write!(f, "class {class} starves, p99 of its slowdown is {slowdown:.1}"),
            Cause::Grows(class) => write!(f, "unstable: the latency of class {class} grows"),
        }
    }
}
