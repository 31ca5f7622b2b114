//! One simulation of many: a policy at a load.

use super::arguments::SimulateArguments;
use crate::sched::PolicyName;
use crate::sim::{Fit, Offer, Setup, Tally, simulate};

/// A simulation to carry out.
#[derive(Clone, Debug)]
pub(super) struct Run<'a> {
    arguments: &'a SimulateArguments,
    policy: PolicyName,
    load: f64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) policy: PolicyName,
    pub(super) load: f64,
    /// Sizes and budgets, in words.
    pub(super) chosen: String,
    pub(super) tally: Tally,
}

impl<'a> Run<'a> {
    /// Every policy at every load.
    ///
    /// # Errors
    /// A message about flags that contradict each other.
    pub(super) fn all(arguments: &'a SimulateArguments) -> Result<Vec<Run<'a>>, String> {
        if arguments.workers == 1 && arguments.policy.contains(&PolicyName::Pools) {
            return Err("--policy pools needs two workers at least: raise --workers, or leave pools out".to_owned());
        }
        let at = |policy| move |load: &f64| Run { arguments, policy, load: *load };
        Ok(arguments.policy.iter().flat_map(|policy| arguments.load.0.iter().map(at(*policy))).collect())
    }

    /// Simulates it.
    pub(super) fn carry_out(&self) -> Outcome {
        let Run { arguments, policy, load } = *self;
        let workers = usize::from(arguments.workers);
        let mut fit = Fit::new(&arguments.workload, workers, load);
        fit.slice = arguments.slice.unwrap_or(fit.slice);
        fit.yield_cost = arguments.overheads.yield_;
        let fitted = fit.policy(policy);
        let setup = Setup {
            overheads: arguments.overheads,
            classified: policy == PolicyName::Reserve,
            ..Setup::ideal(fitted.policy)
        };
        let offer = Offer {
            workload: &arguments.workload,
            rate: arguments.workload.rate_at(load, workers, 1),
            flows: (32 * workers).clamp(256, usize::from(u16::MAX)) as u16,
            seed: arguments.seed,
            warmup: arguments.requests / 10,
            requests: arguments.requests,
        };
        let tally = simulate(&setup, offer.incoming(workers));
        Outcome { policy, load, chosen: fitted.chosen, tally }
    }
}
