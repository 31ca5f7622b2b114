//! Policies that follow the load: the initial policy of a configuration, and its update every second.

use crate::config::{Burn, Classify, Config, Pool};
use crate::metrics;
use crate::runtime::measured_look;
use crate::sched::{self, Made, PolicyName, Sizes, Tuning, grouping};
use crate::server::yields;
use crate::time::Nanos;

/// A policy that adapts, and what a configuration says of it.
pub(in crate::server) struct Adaptation {
    /// The name that was configured, which may be `auto`.
    pub(super) name: PolicyName,
    /// The pools as configured, for their names.
    pub(super) pools: Vec<Pool>,
    /// The policy in force, and the rule that changes it.
    pub(in crate::server) core: sched::Adaptation,
}

impl Adaptation {
    /// The initial policy of `config`.
    pub(in crate::server) fn new(config: &Config) -> Adaptation {
        Adaptation::with_costs(config, || (yields::least_time(), measured_look()))
    }

    /// `measured`: what a yield and a look take on a real core.
    fn with_costs(config: &Config, measured: fn() -> (Nanos, Nanos)) -> Adaptation {
        let entry = config.policy.entry();
        // Only what follows measurements weighs it, and to measure it takes time.
        let (yield_cost, look_cost) = if entry.adapts { costs(config, measured) } else { Default::default() };
        let group = grouping::sizes(config.workers, config.groups)[0];
        let tuning = Tuning {
            sizes: (entry.sizes == Sizes::Pools).then(|| config.pools.iter().map(|pool| pool.workers).collect()),
            reserved: config.reserved.map(|reserved| reserved.div_ceil(config.groups)),
            groups: config.groups,
            classified: config.classify == Classify::Header,
            time_scale: config.time_scale,
            yield_cost,
            look_cost,
            objective: config.optimise,
            ..Tuning::new(group, config.scaled(config.slice))
        };
        let core = sched::Adaptation::new(config.policy, tuning, config.burn == Burn::Sleep);
        let core = core.of_group(group as f64 / config.workers as f64);
        Adaptation { name: config.policy, pools: config.pools.clone(), core }
    }

    /// The decision in force, for the admin endpoint; `None` under a policy that does not adapt.
    pub(super) fn decision(&self) -> Option<metrics::Decision> {
        let Made { name, budget, reserved, reason, .. } = self.core.made();
        self.name.entry().adapts.then(|| metrics::Decision {
            policy: name.name().to_owned(),
            budget_us: budget.map(Nanos::as_micros_f64),
            reserved: *reserved,
            reason: reason.clone(),
        })
    }
}

/// What a yield and a look cost, in the unit of measured service times. An emulated core is charged this, a real one is
/// measured.
fn costs(config: &Config, measured: fn() -> (Nanos, Nanos)) -> (Nanos, Nanos) {
    match config.burn {
        Burn::Cpu => measured(),
        Burn::Sleep => {
            let overheads = config.overheads_scaled();
            (overheads.yield_.max(Nanos::new(1)), overheads.look)
        }
    }
}

#[cfg(test)]
mod tests;
