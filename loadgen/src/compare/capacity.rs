//! The capacity of each server of a comparison on real cores, found before the first run, and the rate that follows.
//!
//! All policies must be offered the same rate, so a load is a share of one capacity: that of [`BASE`], whichever policies
//! are compared. README.md beside this file argues for it.

use crate::arguments::CompareArguments;
use crate::compare::ANY_PORT;
use crate::compare::server_process::ServerProcess;
use crate::compare::server_settings::ServerSettings;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::validity::RUN_QUEUE_SHARE_MAX;
use crate::saturation::{Capacity, most, saturate, saturating};
use crate::text::{factor, grouped, wrapped};
use anyhow::anyhow;
use serde::Serialize;
use std::collections::BTreeMap;

/// The policy whose capacity loads are shares of.
pub(crate) const BASE: &str = "isolated";

/// What the servers of a comparison can do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Capacities {
    /// [`BASE`].
    load_of: &'static str,
    /// The capacity under each policy.
    servers: BTreeMap<String, Capacity>,
}

/// Saturates a fresh server under [`BASE`], and one under each of the policies.
///
/// # Errors
/// If a server does not start, if the run is interrupted, and if the capacity of [`BASE`] cannot be reached.
pub(crate) fn measure(
    arguments: &CompareArguments,
    settings: &ServerSettings,
    interrupt: &Interrupt,
) -> Result<Option<Capacities>, Failure> {
    let Some(span) = settings.saturated_for else { return Ok(None) };
    let mut servers = BTreeMap::new();
    for policy in std::iter::once(BASE).chain(arguments.policies.iter().map(String::as_str)) {
        if servers.contains_key(policy) {
            continue;
        }
        // Killed when dropped, not stopped: draining what it still holds would take seconds and show nothing.
        let process = ServerProcess::start(&settings.serve_arguments(policy, ANY_PORT), arguments.verbose)?;
        let (plan, endpoint) = (settings.plan(arguments, process.udp)?, Endpoint::new(&process.admin)?);
        let capacity = most(settings.saturating_rps, |rps| {
            let plan = saturating(&plan, rps, span);
            let progress = Progress::new(&format!("saturating {policy}"), &plan, arguments.offer.quiet);
            saturate(&plan, &endpoint, interrupt, progress)
        })?;
        if interrupt.is_raised() {
            return Err(anyhow!("interrupted while servers were saturated: nothing was compared").into());
        }
        if policy == BASE {
            check(&capacity)?;
        }
        servers.insert(policy.to_owned(), capacity);
    }
    Ok(Some(Capacities { load_of: BASE, servers }))
}

/// Whether a load can be a share of `capacity`, which is that of [`BASE`].
fn check(capacity: &Capacity) -> Result<(), Failure> {
    if capacity.rps <= 0.0 {
        let error =
            anyhow!("{BASE} completed nothing while it was saturated: lengthen --saturate, or lower --time-scale");
        return Err(error.into());
    }
    if !capacity.is_reached {
        let done = grouped(capacity.rps.round() as u64);
        let error = anyhow!(
            "{BASE} kept up with all that was sent, {done} requests/s, so that its capacity is not known, and no rate is a \
             --load of it: raise --time-scale, lengthen --saturate, say --rate N, or take the cores' own time (--saturate 0s)"
        );
        return Err(error.into());
    }
    Ok(())
}

impl Capacities {
    /// Requests per second that are a load of 1.
    pub(crate) fn base_rps(&self) -> f64 {
        self.servers.get(BASE).map_or(0.0, |capacity| capacity.rps)
    }

    /// All capacities in words, [`BASE`]'s first, and the rate of `load`.
    pub(crate) fn said(&self, load: f64, workers: u16) -> String {
        let one = |(policy, capacity): (&String, &Capacity)| {
            let bound = if capacity.is_reached { "" } else { "at least " };
            format!("{policy} {bound}{} CPUs", factor(Some(capacity.cpus)))
        };
        let (base, others): (Vec<_>, Vec<_>) = self.servers.iter().partition(|(policy, _)| *policy == BASE);
        let all: Vec<String> = base.into_iter().chain(others).map(one).collect();
        let mut text = format!(
            "of {workers} worker{}, in seconds of cost completed per second: {}. Load {} is that share of {BASE}'s {} requests/s, \
             for all: {} requests/s",
            if workers == 1 { "" } else { "s" },
            all.join(", "),
            factor(Some(load)),
            grouped(self.base_rps().round() as u64),
            grouped((load * self.base_rps()).round() as u64),
        );
        let waited = self.servers.values().filter_map(|capacity| capacity.run_queue_share).fold(0.0, f64::max);
        if waited > RUN_QUEUE_SHARE_MAX {
            text += &format!(
                ". While it was measured, workers waited for a CPU for up to {:.1} % of the time: something else ran there, and \
                 the loads are lower than they say",
                waited * 100.0
            );
        }
        wrapped("  capacity ", &text, "           ")
    }

    /// What `rate` requests per second are of the capacity under `policy`, in words, with a warning where it is too much.
    pub(crate) fn share_said(&self, policy: &str, rate: f64) -> Option<String> {
        let share = rate / self.servers.get(policy).filter(|capacity| capacity.is_reached)?.rps;
        let warning = if share >= 1.0 { ": more than it can do" } else { "" };
        Some(format!("load {} of its own capacity{warning}", factor(Some(share))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the text say of which capacity the load is a share, and which server cannot bear it?
    #[test]
    fn the_load_is_of_isolated_whatever_is_compared() {
        let capacity =
            |cpus, is_reached| Capacity { cpus, rps: cpus * 20_000.0, is_reached, run_queue_share: Some(0.01) };
        let servers =
            [("auto", capacity(12.0, false)), ("isolated", capacity(13.25, true)), ("pools", capacity(9.0, true))];
        let servers = servers.into_iter().map(|(policy, capacity)| (policy.to_owned(), capacity)).collect();
        let capacities = Capacities { load_of: BASE, servers };
        assert!((capacities.base_rps() - 265_000.0).abs() < 1e-6);
        let said = capacities.said(0.7, 14).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "of 14 workers",
            "isolated 13.2 CPUs, auto at least 12.0 CPUs, pools 9.00 CPUs",
            "Load 0.70 is that share of isolated's 265,000 requests/s, for all: 185,500 requests/s",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("waited for a CPU"), "{said}");
        let share = |policy| capacities.share_said(policy, 185_500.0);
        assert_eq!(share("isolated").as_deref(), Some("load 0.70 of its own capacity"));
        assert_eq!(share("pools").as_deref(), Some("load 1.03 of its own capacity: more than it can do"));
        assert_eq!((share("auto"), share("steal")), (None, None));
        let refused = |cpus, is_reached| check(&capacity(cpus, is_reached)).err().map(|failure| failure.to_string());
        assert_eq!(refused(1.0, true), None);
        assert!(refused(1.0, false).is_some_and(|said| said.contains("kept up with all that was sent, 20,000")));
        assert!(refused(0.0, true).is_some_and(|said| said.contains("completed nothing")));
        let mut disturbed = capacities.clone();
        disturbed.servers.values_mut().for_each(|capacity| capacity.run_queue_share = Some(0.031));
        assert!(disturbed.said(0.7, 14).contains("up to 3.1 %"), "{}", disturbed.said(0.7, 14));
    }
}
