//! The same policies in virtual time, on 14 workers as in the literature, however few CPUs this
//! machine has.

use crate::compare::server_settings::{LOAD_DEFAULT, ServerSettings, WORKERS_DEFAULT};
use crate::lab::stats::Block;
use crate::lab::study::parallel;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::study::scenario::Scenario;
use crate::plan::workload_of;
use crate::report::by_class::ByClass;
use forebay::inside::emulation::overheads::Overheads;
use serde::Serialize;
use std::collections::HashSet;

/// The results of all policies.
#[derive(Debug, Serialize)]
pub(crate) struct VirtualTime {
    pub(crate) workers: u16,
    pub(crate) requests: u64,
    load: f64,
    overheads: String,
    /// One for each policy, in the order of the flags.
    pub(crate) policies: Vec<Policy>,
}

impl VirtualTime {
    /// The slowdowns of `policy`.
    pub(crate) fn of(&self, policy: &str) -> Option<&ByClass<Block>> {
        self.policies.iter().find(|one| one.policy == policy).map(|one| &one.slowdown)
    }
}

/// One policy.
#[derive(Debug, Serialize)]
pub(crate) struct Policy {
    pub(crate) policy: String,
    pub(crate) slowdown: ByClass<Block>,
}

/// Simulates each policy that exists in virtual time. `None` if the mix shifts or the load exceeds
/// the capacity: figures then depend on the length of the run.
pub(crate) fn simulate_all(settings: &ServerSettings) -> Option<VirtualTime> {
    let arguments = &settings.arguments;
    let offer = &arguments.offer;
    let load = offer.load.unwrap_or(LOAD_DEFAULT);
    let requests = arguments.virtual_requests;
    if requests == 0 || offer.then.is_some() || offer.rate.is_some() || load >= 1.0 {
        return None;
    }
    let workers = WORKERS_DEFAULT;
    let overheads = arguments.overheads.unwrap_or(Overheads::STOCK);
    let workload = workload_of(offer).with_time_beside(overheads.per_request());
    let scenario = Scenario {
        slice: Some(settings.slice),
        classified: settings.classified(),
        objective: arguments.optimise,
        shape: offer.arrivals.clone(),
        ..Scenario::new(&workload, workers.into(), overheads, offer.seed, requests)
    };
    let mut known = HashSet::new();
    let policies: Vec<_> = arguments.policies.iter().filter(|policy| known.insert(*policy)).collect();
    let one = |policy: &&String| {
        let tally = scenario.run(PolicySpec::Server(policy.parse().ok()?), load).tally;
        Some(Policy { policy: policy.to_string(), slowdown: ByClass(tally.slowdown()) })
    };
    let policies = parallel::map(&policies, one).into_iter().flatten().collect();
    Some(VirtualTime { workers, requests, load, overheads: overheads.to_string(), policies })
}
