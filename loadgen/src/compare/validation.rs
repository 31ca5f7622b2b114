//! Validation, `compare --simulate`: the requests of each run once more, in virtual time, under the server's policy.

use crate::compare::server_settings::ServerSettings;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use forebay::metrics::{Block, Percentile};
use forebay::sched::{Entry, PolicyName, Sizes};
use forebay::sim::{Replay, simulate};
use forebay::workload::Trace;
use serde::Serialize;

/// The percentiles that are compared.
pub(crate) const JUDGED: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];
/// A simulated figure may differ by this share of the real one,
const SHARE_ALLOWED: f64 = 0.25;
/// or by this slowdown, whichever is more: where nothing waits, a slowdown is 1.
const SLOWDOWN_ALLOWED: f64 = 1.0;

/// The simulation of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    /// Sizes and budgets, in words.
    chosen: String,
    /// The cost of each step, on the scale of the costs.
    overheads: String,
    /// Slowdown (latency over cost) of all requests sent after the warm-up.
    pub(crate) slowdown: ByClass<Block>,
    /// Under `isolated`, how many replies named the worker that was predicted for their flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sockets: Option<Sockets>,
}

/// The agreement of replies with the flow map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sockets {
    /// The number of replies.
    pub(crate) replies: usize,
    /// Replies from another worker than predicted.
    pub(crate) elsewhere: usize,
}

/// Makes server and simulator follow the same policies: fixes the value that `hybrid` would measure, as virtual time
/// would choose it for the offered load.
///
/// # Errors
/// A usage failure for a policy that adapts to its measurements.
pub(crate) fn prepare(settings: &mut ServerSettings, policies: &[String], plan: &Plan) -> Result<(), Failure> {
    for policy in policies {
        // An unknown policy is refused by the server.
        let named = policy.parse::<PolicyName>();
        if let Some(name) = named.ok().filter(|name| !is_fixed(name.entry())) {
            return Err(Failure::usage(format!(
                "--simulate cannot follow --policies {name}, which changes with what it measures: choose from {}",
                PolicyName::list(is_fixed)
            )));
        }
    }
    let named = policies.iter().filter_map(|policy| policy.parse::<PolicyName>().ok());
    let reserving = named.into_iter().find(|policy| policy.entry().sizes == Sizes::Reserved);
    if let Some(policy) = reserving.filter(|_| settings.reserved.is_none()) {
        let reserved = settings.fit(&plan.workload, plan.load().unwrap_or(1.0)).policy(policy).sizes()[0];
        settings.reserved = Some(u16::try_from(reserved).unwrap_or(settings.workers));
    }
    Ok(())
}

/// True if the policy's decisions do not follow its measurements, or can be fixed by a setting.
fn is_fixed(entry: &Entry) -> bool {
    !entry.adapts || entry.sizes == Sizes::Reserved
}

/// Simulates `offered` under `policy`, with the settings of a server of `settings`.
pub(crate) fn simulated(settings: &ServerSettings, policy: PolicyName, offered: &Trace) -> Simulated {
    let mut replay = Replay::new(offered);
    replay.fit.slice = settings.slice;
    replay.fit.sizes = match policy.entry().sizes {
        Sizes::Reserved => {
            settings.reserved.map(usize::from).map(|reserved| vec![reserved, usize::from(settings.workers) - reserved])
        }
        _ => settings.sizes(),
    };
    replay.classified = settings.classified();
    let (fitted, setup) = replay.server(policy);
    let tally = simulate(&setup, replay.arrivals());
    Simulated {
        chosen: fitted.chosen,
        overheads: setup.overheads.to_string(),
        slowdown: ByClass(tally.slowdown()),
        sockets: None,
    }
}

/// True if a simulated slowdown is as near to the real one as it should be.
pub(crate) fn is_near(real: f64, simulated: f64) -> bool {
    let allowed = (SHARE_ALLOWED * real).max(SLOWDOWN_ALLOWED);
    real == simulated || (simulated - real).abs() <= allowed && real.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_quarter_or_a_slowdown_of_one() {
        let never = f64::INFINITY;
        for (real, simulated, near) in [
            (1.0, 2.0, true),
            (1.0, 2.01, false),
            (100.0, 125.0, true),
            (100.0, 126.0, false),
            (100.0, 74.0, false),
            (never, never, true),
            (never, 5.0, false),
            (5.0, never, false),
        ] {
            assert_eq!(is_near(real, simulated), near, "{real} and {simulated}");
        }
    }
}
