//! Capacity on real cores: what a server completes while it is offered more than it can.
//!
//! What a core can do beside the kernel's part and a policy's own is not known beforehand, so it is measured: a short
//! run above capacity, and the work that was completed over the time to the last reply. Requests per second would
//! credit a server that leaves heavy requests for last, and a fixed window one that works on many at a time.
//!
//! To shed a request takes a server's time too, so that far above its capacity it completes less than a little above:
//! [`most`] looks for the load at which it completes most.

use crate::drive::Completed;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::run;
use forebay::time::{Nanos, clock};
use serde::Serialize;

/// A saturated server is offered this many times what its cores could do if requests were nothing but their cost.
pub const OVERLOAD: f64 = 1.5;
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
pub struct Capacity {
    /// Seconds of cost completed per second: CPUs without the kernel's part and the server's own.
    pub cpus: f64,
    /// The same in requests per second of the mix.
    pub rps: f64,
    /// False if the server kept up with all that was sent: then it can do more.
    pub is_reached: bool,
    /// The share of the time that each worker waited for a CPU, where the server tells: above a few percent something else
    /// ran there, and the server can do more.
    pub run_queue_share: Option<f64>,
}

impl Capacity {
    /// The capacity that a run shows which sent for `sending`, where a request costs `mean_s` seconds in the mean.
    pub fn of(completed: &Completed, sending: Nanos, mean_s: f64) -> Capacity {
        let per_second = |work: Nanos, time: Nanos| work.as_secs_f64() / time.as_secs_f64().max(1e-9);
        let (cpus, offered) = (per_second(completed.work, completed.took), per_second(completed.offered, sending));
        Capacity { cpus, rps: cpus / mean_s, is_reached: cpus <= KEPT_UP * offered, run_queue_share: None }
    }
}

/// The most that a server completes at any load, where `run` offers it a number of requests per second: first `rps`, which is
/// to be far more than it can serve, then a little more than it completed.
///
/// # Errors
/// What `run` returns.
pub fn most<E>(rps: f64, mut run: impl FnMut(f64) -> Result<Capacity, E>) -> Result<Capacity, E> {
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
pub(crate) fn saturate(
    plan: &Plan,
    endpoint: &Endpoint,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Capacity, Failure> {
    let waited_us = || -> Result<Option<f64>, Failure> { Ok(endpoint.latency()?.run_queue_wait_us()) };
    let (began, before) = (clock::now(), waited_us()?);
    // Without the endpoint: its counters are for a verdict, and a run above capacity has none.
    let outcome = run::execute(plan, None, interrupt, progress)?;
    let (took, after) = (clock::now().minus(began), waited_us()?);
    // A sender that falls behind offers as much over a longer time.
    let sending = Nanos::new((outcome.report.duration_s * 1e9) as u64);
    let all_us = took.as_micros_f64() * f64::from(plan.workers.unwrap_or(1));
    let run_queue_share = before.zip(after).map(|(before, after)| (after - before) / all_us);
    Ok(Capacity { run_queue_share, ..Capacity::of(&outcome.completed, sending, mean_s(plan)) })
}

/// `plan` as a run of `span` at `rate` requests per second, which is to be above capacity.
pub(crate) fn saturating(plan: &Plan, rate: f64, span: Nanos) -> Plan {
    let drain = Nanos::new((mean_s(plan) * HELD_PER_WORKER as f64 * 1e9) as u64);
    let timeout = Nanos::from_secs(1).plus(drain).min(DRAIN_MAX);
    Plan { rate, then: None, warmup: Nanos::ZERO, duration: span, timeout: Some(timeout), ..plan.clone() }
}

/// The mean scaled cost of a request of `plan` in seconds.
fn mean_s(plan: &Plan) -> f64 {
    plan.workload.mean().as_secs_f64() * plan.time_scale as f64
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

    // Is the capacity of a server found that can do 1,000 requests a second, and spends a fifth of a request on what it sheds?
    // Does one that keeps up, or does nothing, end the search?
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
}
