//! What levels are for.

use super::{gittins, tail};
use crate::fate::labels;
use crate::sched::Measured;
use crate::sched::ladder::Ladders;
use crate::time::Nanos;

labels! {
    /// What `levels` and `auto` optimise: by the Gittins index ([`gittins`]), or by what no
    /// percentile counts (`tail.rs`).
    #[derive(Default)]
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Objective {
        /// p99.9 of the slowdown, latency over service time, and the mean latency: the longer a
        /// request has taken, the later it goes.
        #[default]
        Slowdown = "slowdown",
        /// p99.9 of the latency of all requests. First come, first served, but what takes little of
        /// the time goes first, and the longest of 2,000 last.
        Latency = "latency",
    }
}

impl Objective {
    /// The levels of requests of which this was measured, where a yield costs `yield_cost`.
    pub(crate) fn ladders(self, measured: &Measured, yield_cost: Nanos) -> Ladders {
        let by_index = |of_class| gittins::ladders(&measured.times, of_class, yield_cost);
        match self {
            Objective::Slowdown => by_index(measured.of_class.as_deref()),
            Objective::Latency => {
                Ladders::blind(tail::ladder(&measured.times, by_index(None).all.limits(), yield_cost))
            }
        }
    }
}
