//! The result of one simulation, and what it says of a goal.

use super::goal::Goal;
use super::policy_spec::PolicySpec;
use crate::lab::sim::{Fleet, Tally};
use std::fmt;

/// The result of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) spec: PolicySpec,
    /// Workers of each server.
    pub(crate) workers: usize,
    /// The sizes of groups, where they were given.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) load: f64,
    /// Where there is a fleet, that and the load of its busiest server.
    pub(crate) fleet: Option<(Fleet, f64)>,
    /// The sizes and budgets, in words.
    pub(crate) chosen: String,
    /// The load from which on the sizes, or the busiest server of a fleet, cannot keep up, however
    /// long the queues. `None` where that is all the capacity, or unknown.
    pub(crate) unstable_from: Option<f64>,
    pub(crate) tally: Tally,
    /// Requests that were measured.
    pub(crate) measured: u64,
    /// What it says of the goal, where there is one.
    pub(crate) verdict: Option<Verdict>,
}

/// Whether a goal holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The goal holds, and no class starves.
    Holds,
    /// The most requests do not tell.
    Undecided,
    /// The goal does not hold.
    Fails(Cause),
}

/// Why a goal does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// More comes than all workers can do.
    Overload,
    /// More comes to some group than its workers can do, from this load on.
    Sizes(f64),
    /// More comes to the busiest server of a fleet than it can do, from this load on.
    Server(f64),
    /// The percentile of the goal is above its limit.
    Goal,
    /// A class waits for more than ten times what it takes alone, and longer than the goal allows:
    /// its slowdown.
    Starves(&'static str, f64),
    /// The latency of a class grows for as long as the run lasts.
    Grows(&'static str),
}

impl Simulation {
    /// Whether more comes than all workers, or those of the busiest server, can do.
    pub(crate) fn is_overload(&self) -> bool {
        self.load >= 1.0 || self.fleet.and(self.unstable_from).is_some_and(|bound| self.load >= bound)
    }

    /// Whether the goal is known to hold.
    pub(crate) fn holds(&self) -> bool {
        self.verdict == Some(Verdict::Holds)
    }

    /// Whether `goal` holds, or seems to where the run does not tell.
    pub(crate) fn seems(&self, goal: &Goal) -> bool {
        self.holds() || self.verdict == Some(Verdict::Undecided) && goal.holds(&self.tally)
    }

    /// Why the goal does not hold.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if let Some(Verdict::Fails(cause)) = self.verdict { Some(cause) } else { None }
    }

    /// Whether the goal fails since more comes than can be done: then figures are only a beginning.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self.cause(), Some(Cause::Overload | Cause::Sizes(_) | Cause::Server(_)))
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
            Cause::Server(load) => write!(f, "the busiest server is overloaded from a load of {load:.3} on"),
            Cause::Goal => f.write_str("the goal is missed"),
            Cause::Starves(class, slowdown) => write!(f, "class {class} starves, p99 of its slowdown is {slowdown:.1}"),
            Cause::Grows(class) => write!(f, "unstable: the latency of class {class} grows"),
        }
    }
}
