//! Makes the policy and its adaptation from a configuration.

use super::waiting;
use crate::config::{Burn, Classify, Config};
use crate::metrics::Decision;
use crate::runtime::yields;
use crate::runtime::{measured_look, measured_notice};
use crate::sched::{Adaptation, Made, Tuning, grouping};
use crate::time::Nanos;

/// The adaptation for `config`, with the initial policy. Measures costs on this host if the policy
/// needs them.
pub(crate) fn adaptation(config: &Config) -> Adaptation {
    with_costs(config, || (yields::least_time(), measured_look(), measured_notice()))
}

/// As [`adaptation`]; `measured` returns the costs of a yield, a look and a notice on a real core.
fn with_costs(config: &Config, measured: fn() -> (Nanos, Nanos, Nanos)) -> Adaptation {
    let entry = config.policy.entry();
    // Costs must be comparable with the measured service times. So on emulated cores they are the
    // charged costs, on real cores the measured ones.
    let (yield_cost, look_cost, notice_cost) = match config.burn {
        // Only policies that adapt need the costs. Others skip the measurement, because it takes
        // time.
        _ if !entry.adapts => Default::default(),
        Burn::Cpu => measured(),
        Burn::Sleep => {
            let overheads = config.overheads_scaled();
            (overheads.yield_.max(Nanos::new(1)), overheads.look, overheads.notice)
        }
    };
    let group = grouping::sizes(config.workers, config.groups)[0];
    let tuning = Tuning {
        sizes: entry.has_pools().then(|| config.pools.iter().map(|pool| pool.workers).collect()),
        groups: config.groups,
        classified: config.classify == Classify::Header,
        time_scale: config.time_scale,
        yield_cost,
        look_cost,
        notice_cost,
        max_wait: config.max_wait_scaled(),
        beside: waiting::beside(config),
        objective: config.optimise,
        ..Tuning::new(group, config.scaled(config.slice))
    };
    let mut adaptation = Adaptation::new(config.policy, tuning, config.burn == Burn::Sleep);
    adaptation.share = group as f64 / config.workers as f64;
    adaptation
}

/// The decision of a policy that adapts, as metrics and the log show it.
pub(crate) fn decision(Made { name, budget, reason, .. }: &Made) -> Decision {
    let budget_us = budget.map(Nanos::as_micros_f64);
    Decision { policy: name.name().to_owned(), budget_us, reason: reason.clone() }
}

#[cfg(test)]
mod tests;
