//! The capacity of each server of a comparison on real cores, found before the first run, and the rate that follows.
//!
//! What the kernel and a policy leave of a core is not known beforehand, so it is measured. A short run goes above
//! capacity, and the completed work is divided by the time to the last reply. Requests per second would credit a
//! server that leaves heavy requests for last. A fixed window would credit one that works on many at a time.
//!
//! Shedding takes a server's time too. Far above its capacity a server completes less than a little above it.
//! [`most`] looks for the load at which it completes most.
//!
//! All policies must be offered the same rate, so a load is a share of one capacity: that of [`BASE`], whichever policies
//! are compared. README.md beside this file argues for it.

use crate::compare::ANY_PORT;
use crate::compare::server_process::ServerProcess;
use crate::compare::server_settings::ServerSettings;
use crate::drive::Completed;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::validity::RUN_QUEUE_SHARE_MAX;
use crate::run;
use crate::text::{factor, grouped, workers, wrapped};
use anyhow::anyhow;
use forebay::time::{Nanos, clock};
use serde::Serialize;
use std::collections::BTreeMap;

/// The policy whose capacity loads are shares of.
pub(crate) const BASE: &str = "isolated";
/// A saturated server is offered this many times what its cores could do if requests were nothing but their cost.
pub(crate) const OVERLOAD: f64 = 1.5;
/// How much more than it has completed a server is offered next.
const STEP: f64 = 1.1;
/// The search ends where a step brings less than this: two runs differ by as much.
const GROWTH_MIN: f64 = 1.02;
/// From a tenth of what is offered first, the steps lead up to that.
const STEPS_MAX: usize = 24;
/// The capacity is known if the server completed at most this share of what it was offered.
const KEPT_UP: f64 = 0.97;
/// Requests that a worker's socket and queues hold, rounded up: after the last send they are still to be served.
const HELD_PER_WORKER: u64 = 6_000;
/// The longest wait for them.
const DRAIN_MAX: Nanos = Nanos::from_secs(10);

/// What a server completed while saturated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Capacity {
    /// Seconds of cost completed per second: CPUs without the kernel's part and the server's own.
    pub(crate) cpus: f64,
    /// The same in requests per second of the mix.
    pub(crate) rps: f64,
    /// False if the server kept up with all that was sent: then it can do more.
    pub(crate) is_reached: bool,
    /// The share of the time that each worker waited for a CPU, where the server tells. Above a few percent something
    /// else ran there, and the server can do more.
    pub(crate) run_queue_share: Option<f64>,
}

/// What the servers of a comparison can do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Capacities {
    /// [`BASE`].
    load_of: &'static str,
    /// The capacity under each policy.
    servers: BTreeMap<String, Capacity>,
}

/// Saturates a fresh server under [`BASE`], and one under each of the policies; `None` where loads are no shares of that.
///
/// # Errors
/// If a server does not start, if the run is interrupted, and if the capacity of [`BASE`] cannot be reached.
pub(crate) fn measure(settings: &ServerSettings, interrupt: &Interrupt) -> Result<Option<Capacities>, Failure> {
    let Some(span) = settings.saturated_for else { return Ok(None) };
    let arguments = &settings.arguments;
    let mut servers = BTreeMap::new();
    for policy in std::iter::once(BASE).chain(arguments.policies.iter().map(String::as_str)) {
        if servers.contains_key(policy) {
            continue;
        }
        // Killed when dropped, not stopped: draining what it still holds would take seconds and show nothing.
        let process = ServerProcess::start(&settings.serve_arguments(policy, ANY_PORT), arguments.verbose)?;
        let (plan, endpoint) = (settings.plan(process.udp)?, Endpoint::new(&process.admin)?);
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
    let refusal = if capacity.rps <= 0.0 {
        anyhow!("{BASE} completed nothing while it was saturated: lengthen --saturate, or lower --time-scale")
    } else if !capacity.is_reached {
        anyhow!(
            "{BASE} kept up with all that was sent, {} requests/s, so that its capacity is not known, and no rate is a \
             --load of it: raise --time-scale, lengthen --saturate, say --rate N, or take the cores' own time (--saturate 0s)",
            grouped(capacity.rps.round() as u64)
        )
    } else {
        return Ok(());
    };
    Err(refusal.into())
}

/// The most that a server completes at any load. `run` offers it a number of requests per second: first `rps`, which
/// must be far more than it can serve. Each next run offers a little more than it completed.
///
/// # Errors
/// What `run` returns.
fn most<E>(rps: f64, mut run: impl FnMut(f64) -> Result<Capacity, E>) -> Result<Capacity, E> {
    let mut most = run(rps)?;
    if !most.is_reached || most.rps <= 0.0 {
        return Ok(most);
    }
    for _ in 0..STEPS_MAX {
        let next = run((most.rps * STEP).min(rps))?;
        if next.rps < most.rps * GROWTH_MIN {
            break;
        }
        // It may have kept up with these: at the load above it does no more.
        most = Capacity { is_reached: true, ..next };
    }
    Ok(most)
}

/// Carries out `plan`, one of [`saturating`], against the server of `endpoint`, and waits for what the server then holds.
///
/// # Errors
/// See [`run::execute`]; also if the server's endpoint does not answer.
fn saturate(plan: &Plan, endpoint: &Endpoint, interrupt: &Interrupt, progress: Progress) -> Result<Capacity, Failure> {
    let waited_us = || -> Result<Option<f64>, Failure> { Ok(endpoint.latency()?.run_queue_wait_us()) };
    let (began, before) = (clock::now(), waited_us()?);
    // Without the endpoint: its counters are for a verdict, and a run above capacity has none.
    let outcome = run::execute(plan, None, interrupt, progress)?;
    let (took, after) = (clock::now().minus(began), waited_us()?);
    // A sender that falls behind offers as much over a longer time.
    let sending = Nanos::new((outcome.report.duration_s * 1e9) as u64);
    let all_us = took.as_micros_f64() * f64::from(plan.workers.unwrap_or(1));
    let run_queue_share = before.zip(after).map(|(before, after)| (after - before) / all_us);
    Ok(Capacity { run_queue_share, ..Capacity::of(&outcome.exchange.completed(), sending, mean_s(plan)) })
}

/// `plan` as a run of `span` at `rate` requests per second, which is to be above capacity.
fn saturating(plan: &Plan, rate: f64, span: Nanos) -> Plan {
    let drain = Nanos::new((mean_s(plan) * HELD_PER_WORKER as f64 * 1e9) as u64);
    let timeout = Nanos::from_secs(1).plus(drain).min(DRAIN_MAX);
    Plan { rate, then: None, warmup: Nanos::ZERO, duration: span, timeout: Some(timeout), ..plan.clone() }
}

/// The mean scaled cost of a request of `plan` in seconds.
fn mean_s(plan: &Plan) -> f64 {
    plan.workload.mean().as_secs_f64() * plan.time_scale as f64
}

impl Capacity {
    /// The capacity that a run shows which sent for `sending`, where a request costs `mean_s` seconds in the mean.
    fn of(completed: &Completed, sending: Nanos, mean_s: f64) -> Capacity {
        let per_second = |work: Nanos, time: Nanos| work.as_secs_f64() / time.as_secs_f64().max(1e-9);
        let (cpus, offered) = (per_second(completed.work, completed.took), per_second(completed.offered, sending));
        Capacity { cpus, rps: cpus / mean_s, is_reached: cpus <= KEPT_UP * offered, run_queue_share: None }
    }
}

impl Capacities {
    /// Requests per second that are a load of 1.
    pub(crate) fn base_rps(&self) -> f64 {
        self.servers.get(BASE).map_or(0.0, |capacity| capacity.rps)
    }

    /// All capacities in words, [`BASE`]'s first, and the rate of `load`.
    pub(crate) fn said(&self, load: f64, of: u16) -> String {
        let one = |(policy, capacity): (&String, &Capacity)| {
            let bound = if capacity.is_reached { "" } else { "at least " };
            format!("{policy} {bound}{} CPUs", factor(Some(capacity.cpus)))
        };
        let (base, others): (Vec<_>, Vec<_>) = self.servers.iter().partition(|(policy, _)| *policy == BASE);
        let all: Vec<String> = base.into_iter().chain(others).map(one).collect();
        let mut text = format!(
            "of {}, in seconds of cost completed per second: {}. Load {} is that share of {BASE}'s {} requests/s, for all: \
             {} requests/s",
            workers(of),
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
    use crate::plan::test_plan;

    // Is capacity the completed work over the time it took, and is a server that keeps up no measure of it?
    #[test]
    fn capacity_is_what_is_completed_under_more_than_that() {
        let (s, ms) = (Nanos::from_secs, Nanos::from_millis);
        let of = |work, took| Capacity::of(&Completed { work, took, offered: s(3) }, s(2), 0.002);
        let saturated = of(ms(2_250), ms(2_500));
        assert!((saturated.cpus - 0.9).abs() < 1e-9 && (saturated.rps - 450.0).abs() < 1e-9, "{saturated:?}");
        assert!(saturated.is_reached);
        // All of it was answered, as it came.
        assert!(!of(s(3), ms(2_020)).is_reached);
        assert_eq!(of(Nanos::ZERO, Nanos::ZERO).cpus, 0.0);
    }

    // Is the capacity found of a server that does 1,000 requests a second, and spends a fifth of a request on
    // shedding? Does a server that keeps up, or does nothing, end the search?
    #[test]
    fn the_capacity_is_what_a_server_does_where_it_sheds_little() {
        let search = |rps: f64, done: &dyn Fn(f64) -> f64| {
            let mut offers = 0;
            let most = most(rps, |offered| {
                offers += 1;
                let rps = done(offered);
                let (cpus, is_reached) = (rps / 1e3, rps <= KEPT_UP * offered);
                Ok::<_, ()>(Capacity { cpus, rps, is_reached, run_queue_share: None })
            });
            (most.expect("no error"), offers)
        };
        // What is shed, (offered - done), costs 0.2 each.
        let shedding = |offered: f64| if offered <= 1_000.0 { offered } else { (1_250.0 - 0.25 * offered).max(50.0) };
        let (found, offers) = search(4_000.0, &shedding);
        assert!(found.is_reached && (970.0..=1_000.0).contains(&found.rps), "{found:?}");
        assert!(offers <= 25, "{offers}");
        let (found, offers) = search(4_000.0, &|offered: f64| offered.min(1_000.0));
        assert!(found.is_reached && (found.rps - 1_000.0).abs() < 1.0 && offers == 2, "{found:?} after {offers}");
        assert_eq!(search(900.0, &shedding).1, 1);
        assert!(!search(900.0, &shedding).0.is_reached);
        assert_eq!(search(4_000.0, &|_| 0.0).1, 1);
    }

    // Is the wait for what the server holds as long as its requests, with a bound?
    #[test]
    fn what_the_server_holds_is_waited_for() {
        let timeout = |cost: &str, time_scale| {
            let plan = Plan { workload: cost.parse().expect("a form"), time_scale, ..test_plan() };
            let plan = saturating(&plan, 10.0, Nanos::from_secs(2));
            assert_eq!((plan.rate, plan.warmup, plan.duration), (10.0, Nanos::ZERO, Nanos::from_secs(2)));
            plan.timeout
        };
        assert_eq!(timeout("fixed:10us", 10), Some(Nanos::from_millis(1_600)));
        assert_eq!(timeout("fixed:10us", 1_000), Some(Nanos::from_secs(10)));
    }

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
