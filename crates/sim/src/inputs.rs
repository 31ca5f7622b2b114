//! Inputs of simulations, for the tests of this crate and of `loadgen`.

use crate::workload::Workload;
use crate::{Fit, OpenLoop};
use forebay_base::time::Nanos;
use forebay_sched::policy::Limit;
use forebay_sched::{Patience, Policy, PolicyName};

/// 20,000 requests of 256 flows at a part of what the `workers` can do.
pub fn offer(workload: &Workload, load: f64, workers: usize) -> OpenLoop<'_> {
    let rate = workload.rate_at(load, workers, 1);
    OpenLoop { workload, rate, flows: 256, seed: 3, deadline: Nanos::MAX, warmup: 2_000, requests: 20_000 }
}

/// The policy of this name.
///
/// # Panics
/// If there is none.
pub fn named(policy: &str) -> PolicyName {
    policy.parse().expect("a policy")
}

/// The workload that `text` describes.
///
/// # Panics
/// If it describes none.
pub fn workload(text: &str) -> Workload {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The same policy with another patience. Changes nothing if requests never give way.
pub fn with_patience(mut policy: Policy, patience: Option<Patience>) -> Policy {
    if let Limit::Attained { gives_way, .. } = &mut policy.limit {
        gives_way.patience = patience;
    }
    policy
}

/// Every policy of the server, fitted to `workload` at `load`.
pub fn policies(workload: &Workload, load: f64, workers: usize) -> Vec<(PolicyName, Policy)> {
    let fit = Fit::new(workload, workers, load);
    PolicyName::ALL.iter().map(|name| (*name, fit.policy(*name).policy)).collect()
}
