//! Inputs of simulations, for the tests here and in `tests/release`.

use super::*;

pub(crate) fn offer(workload: &Workload, load: f64, workers: usize) -> OpenLoop<'_> {
    let rate = workload.rate_at(load, workers, 1);
    OpenLoop { workload, rate, flows: 256, seed: 3, deadline: Nanos::MAX, warmup: 2_000, requests: 20_000 }
}

pub(crate) fn named(policy: &str) -> PolicyName {
    policy.parse().expect("a policy")
}

pub(crate) fn workload(text: &str) -> Workload {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The same policy with another patience. Changes nothing if requests never give way.
pub(crate) fn with_patience(mut policy: Policy, patience: Option<Patience>) -> Policy {
    if let Limit::Attained { gives_way, .. } = &mut policy.limit {
        gives_way.patience = patience;
    }
    policy
}

/// Every policy of the server, fitted to `workload` at `load`.
pub(crate) fn policies(workload: &Workload, load: f64, workers: usize) -> Vec<(PolicyName, Policy)> {
    let fit = Fit::new(workload, workers, load);
    PolicyName::ALL.iter().map(|name| (*name, fit.policy(*name).policy)).collect()
}
