//! Policies that follow the load: the initial policy of a configuration, and its update every second.

use crate::config::{Burn, Classify, Config, Pool};
use crate::metrics::{self, Recent};
use crate::runtime::measured_look;
use crate::sched::auto::Auto;
use crate::sched::estimate::ServiceTimes;
use crate::sched::{Made, Measured, Policy, PolicyName, Sizes, Tuning};
use crate::server::yields;
use crate::time::{Nanos, Steady};

/// The policy in force, and the state for changing it.
pub(in crate::server) struct Adaptation {
    /// The name that was configured, which may be `auto`.
    pub(super) name: PolicyName,
    /// The pools as configured, for their names.
    pub(super) pools: Vec<Pool>,
    tuning: Tuning,
    burn: Burn,
    /// The policy that the workers follow.
    made: Steady<Made>,
    /// The decision rule of `auto`; `None` under any other policy.
    auto: Option<Auto>,
}

/// Measurements in a row that must make the same policy before it comes into force.
const IN_A_ROW: u32 = 2;

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
        let tuning = Tuning {
            sizes: (entry.sizes == Sizes::Pools).then(|| config.pools.iter().map(|pool| pool.workers).collect()),
            reserved: config.reserved,
            classified: config.classify == Classify::Header,
            time_scale: config.time_scale,
            yield_cost,
            look_cost,
            objective: config.optimise,
            ..Tuning::new(config.workers, config.slice_scaled())
        };
        let auto = (config.policy.name() == "auto").then(|| Auto::new(&tuning));
        let made = Steady::new(entry.make(&tuning));
        Adaptation { name: config.policy, pools: config.pools.clone(), tuning, burn: config.burn, made, auto }
    }

    /// The policy for the workers to follow.
    pub(in crate::server) fn policy(&self) -> Policy {
        self.made.get().policy()
    }

    /// Updates the policy from `recent` measurements; true if it has changed. To be called every second.
    pub(super) fn follow(&mut self, recent: &Recent) -> bool {
        // What `auto` chooses must fit the requests that come; sizes, which follow their number, change more evenly.
        let of_this_mix = recent.since_shift.as_deref().filter(|_| self.auto.is_some()).unwrap_or(recent);
        let mut measured = measured(of_this_mix, self.burn, self.tuning.classified);
        measured.has_shifted = recent.has_shifted;
        measured.are_left = are_left(of_this_mix, self.tuning.workers);
        let decided = self.auto.as_mut().and_then(|auto| auto.decide(&measured));
        // A second without requests says nothing about the load to come.
        if measured.times.count() == 0 && recent.by_class.iter().all(|(count, _)| *count == 0) {
            return false;
        }
        self.tuning.measured = Some(measured);
        if let Some(decision) = decided {
            self.made.set(decision.make(&self.tuning));
            return true;
        }
        let made = match &self.auto {
            Some(auto) => auto.current().make(&self.tuning),
            None => self.name.entry().make(&self.tuning),
        };
        if made.is_like(self.made.get()) {
            self.made.get_mut().reason.clone_from(&made.reason);
        }
        self.made.read(made, IN_A_ROW, Made::is_like)
    }

    /// The decision in force, for the admin endpoint; `None` under a policy that does not adapt.
    pub(super) fn decision(&self) -> Option<metrics::Decision> {
        let Made { name, budget, reserved, reason, .. } = self.made.get();
        self.name.entry().adapts.then(|| metrics::Decision {
            policy: name.name().to_owned(),
            budget: *budget,
            reserved: *reserved,
            reason: reason.clone(),
        })
    }
}

/// Where more than this share of the handlers' time passes no checkpoint, nothing would be won if the rest gave way.
const UNINTERRUPTIBLE_SHARE: f64 = 0.999;

/// Workers that may be idle while a queue stands, as a share: for moments, where its requests are elsewhere.
const IDLE_SHARE: f64 = 0.02;
/// The share of the handlers' time that may go into requests which have not ended, and still those that have are all there is.
const UNENDED_SHARE: f64 = 0.1;

/// Whether a queue stands, or heavy requests have begun and not ended.
fn are_left(recent: &Recent, workers: usize) -> bool {
    recent.busy_workers > 0.0
        && (recent.idle_workers < IDLE_SHARE * workers as f64
            || recent.unended_workers > UNENDED_SHARE * recent.busy_workers)
}

/// What policies are made from: all work of the last seconds, with what goes into requests beside their handlers. An
/// emulated core works on that for as long as it is charged, a real one for as long as it takes.
fn measured(recent: &Recent, burn: Burn, classified: bool) -> Measured {
    let mut times = ServiceTimes::new(recent.service_times.iter().copied());
    if recent.uninterruptible_workers > recent.busy_workers * UNINTERRUPTIBLE_SHARE {
        times = times.run_to_completion();
    }
    let beside_workers = match burn {
        Burn::Cpu => recent.between_workers,
        Burn::Sleep => recent.charged_workers,
    };
    let beside = if recent.rate > 0.0 { beside_workers / recent.rate } else { 0.0 };
    let beside = Nanos::new((beside * 1e9).round() as u64);
    let measured = Measured::new(times, recent.by_class, beside, recent.busy_workers + beside_workers);
    if classified {
        let of_class = |times: &Vec<(Nanos, u64)>| ServiceTimes::new(times.iter().copied());
        return measured.classified(recent.times_of_class.each_ref().map(of_class));
    }
    measured
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
