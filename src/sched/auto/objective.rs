//! What levels are for.

use super::{gittins, tail};
use crate::sched::Measured;
use crate::sched::ladder::Ladders;
use crate::time::Nanos;

/// What the levels of `levels` and `auto` make least: by the Gittins index ([`gittins`]), or by what no percentile counts
/// (`tail.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Objective {
    /// p99.9 of the slowdown, latency over service time, and the mean latency: the longer a request has taken, the later
    /// it goes.
    #[default]
    Slowdown,
    /// p99.9 of the latency of all requests: first come, first served, but what takes little of the time goes first, and
    /// the longest of 2,000 last.
    Latency,
}

impl Objective {
    /// Every objective, in the order in which help and error messages list them.
    pub const ALL: &[Objective] = &[Objective::Slowdown, Objective::Latency];

    /// The name in flags, files and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Objective::Slowdown => "slowdown",
            Objective::Latency => "latency",
        }
    }

    /// The levels of requests of which this was measured, where a yield costs `yield_cost`.
    pub(in crate::sched) fn ladders(self, measured: &Measured, yield_cost: Nanos) -> Ladders {
        let by_index = |of_class| gittins::ladders(&measured.times, of_class, yield_cost);
        match self {
            Objective::Slowdown => by_index(measured.of_class.as_deref()),
            Objective::Latency => {
                Ladders::blind(tail::ladder(&measured.times, by_index(None).all.limits(), yield_cost))
            }
        }
    }
}
