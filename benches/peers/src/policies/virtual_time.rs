//! The same policy, mix and rate in virtual time, with the overheads of this host.

use super::matrix::Cell;
use super::mix::LIGHT;
use super::results::Figures;
use anyhow::Result;
use forebay::overheads::Overheads;
use forebay::sim::{Fit, OpenLoop, Setup, simulate};
use forebay::time::Nanos;
use serde::{Deserialize, Serialize};

/// What a simulation says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct VirtualTime {
    /// The share of the simulated server's capacity that the rate is.
    pub(super) load: f64,
    /// Latency of light requests over their cost.
    pub(super) light: Figures,
    /// Latency of heavy requests over their cost.
    pub(super) heavy: Figures,
}

/// Source ports of the generator.
const FLOWS: u16 = 256;
/// A policy is fitted to at most this load: there is no size that more would fit into.
const FITTED_LOAD_MAX: f64 = 0.99;

/// The run of `cell` at `rate` requests per second, for a warm-up and as long as the run was measured. The seed offers the
/// requests of the run; only the sockets to which their flows are hashed are others.
///
/// # Errors
/// If the mix cannot be made.
pub(super) fn simulated(
    cell: &Cell,
    rate: f64,
    (warmup, measured): (Nanos, Nanos),
    overheads: &Overheads,
) -> Result<VirtualTime> {
    let workload = cell.mix.workload()?.with_time_beside(overheads.per_request());
    let load = workload.load_at(rate, cell.cores, 1);
    let mut fit = Fit::new(&workload, cell.cores, load.min(FITTED_LOAD_MAX));
    fit.yield_cost = overheads.yield_.max(Nanos::new(1));
    let classified = cell.policy.entry().needs_class;
    let setup = Setup { classified, ..Setup::with_overheads(fit.policy(cell.policy).policy(), *overheads) };
    let requests = |time: Nanos| (rate * time.as_secs_f64()).round() as u64;
    let offer = OpenLoop {
        workload: &workload,
        rate,
        flows: FLOWS,
        seed: cell.seed,
        deadline: Nanos::MAX,
        warmup: requests(warmup),
        requests: requests(measured).max(1),
    };
    let slowdown = simulate(&setup, offer.arrivals(cell.cores)).slowdown();
    let of = |class: &str| {
        let block = slowdown.iter().find(|(name, _)| *name == class).map(|(_, block)| *block);
        Figures::of(&block.unwrap_or_default())
    };
    Ok(VirtualTime { load, light: of(LIGHT), heavy: of(cell.mix.heavy()) })
}

#[cfg(test)]
mod tests {
    use super::super::mix::Mix;
    use super::*;
    use forebay::sched::PolicyName;

    // Can every policy be simulated with every mix, and do overheads take capacity?
    #[test]
    fn every_policy_and_mix_has_a_counterpart() {
        for policy in PolicyName::ALL {
            for mix in Mix::ALL {
                let cell = Cell { cores: 2, mix, policy: *policy, seed: 1 };
                let rate = mix.workload().expect("a workload").rate_at(0.5, 2, 1);
                let spans = (Nanos::from_millis(10), Nanos::from_millis(200));
                let of = |overheads| simulated(&cell, rate, spans, &overheads).expect("figures");
                let (free, stock) = (of(Overheads::NONE), of(Overheads::STOCK));
                assert!((free.load - 0.5).abs() < 1e-6 && stock.load > free.load, "{cell:?}");
                assert!(free.light.values[0].is_some_and(|p50| p50 >= 0.99), "{cell:?}: {free:?}");
            }
        }
    }
}
