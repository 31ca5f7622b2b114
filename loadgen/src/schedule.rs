//! The schedule: every request of a run, drawn before the first is sent.
//! [`Arrivals`] draws them, for the simulator too.

use crate::failure::Failure;
use crate::plan::Plan;
use forebay::time::Nanos;
use forebay::workload::{Arrival, Arrivals};

/// The most requests that one run may hold: about 90 bytes each, with all that is recorded of them.
pub const REQUESTS_MAX: u64 = 50_000_000;

/// One request, before it is sent. Its number is its place in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it should be sent, after the start of the run.
    pub at: Nanos,
    /// CPU time to ask for, already multiplied by the time scale.
    pub cost: Nanos,
    /// The source port to send from.
    pub flow: u16,
    /// Its class's number.
    pub class: u8,
}

/// Draws the Poisson arrivals of `plan`, warm-up included, in the order of their times.
///
/// # Errors
/// A usage error when more than [`REQUESTS_MAX`] requests would have to be held.
pub fn draw(plan: &Plan) -> Result<Vec<Request>, Failure> {
    let end = plan.warmup.plus(plan.duration);
    let expected = plan.rate * end.as_secs_f64();
    // Six standard deviations of the Poisson count: the draw below then stays under the bound.
    let with_margin = expected + 6.0 * expected.sqrt();
    if with_margin > REQUESTS_MAX as f64 {
        return Err(Failure::usage(format!(
            "{:.0} requests/s for {end} are {expected:.0} requests, and one run holds at most {REQUESTS_MAX}: lower \
             --rate, --load or --duration",
            plan.rate
        )));
    }
    let mut schedule = Vec::with_capacity(with_margin as usize + 1);
    let arrivals =
        Arrivals::new(&plan.workload, plan.rate, plan.flows, plan.seed).take_while(|arrival| arrival.at < end);
    schedule.extend(arrivals.map(|Arrival { at, cost, flow, class }| Request {
        at,
        cost: cost.times(plan.time_scale),
        flow,
        class,
    }));
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::test_plan;

    fn drawn(plan: &Plan) -> Vec<Request> {
        draw(plan).unwrap_or_else(|_| panic!("a small schedule"))
    }

    #[test]
    fn the_same_seed_draws_the_same_schedule_bit_for_bit() {
        let plan = Plan { rate: 20_000.0, ..test_plan() };
        assert_eq!(drawn(&plan), drawn(&plan));
        assert_ne!(drawn(&plan), drawn(&Plan { seed: plan.seed + 1, ..plan.clone() }));
    }

    #[test]
    fn one_stream_does_not_disturb_the_others() {
        let plan = Plan { rate: 20_000.0, ..test_plan() };
        let drawn_first = drawn(&plan);
        let other_flows = drawn(&Plan { flows: plan.flows + 1, ..plan.clone() });
        let other_workload = drawn(&Plan { workload: "lognormal:1us:1".parse().expect("a form"), ..plan });
        let times_and_costs = |schedule: &[Request]| -> Vec<_> {
            schedule.iter().map(|request| (request.at, request.cost, request.class)).collect()
        };
        let times_and_flows =
            |schedule: &[Request]| -> Vec<_> { schedule.iter().map(|request| (request.at, request.flow)).collect() };
        assert_eq!(times_and_costs(&drawn_first), times_and_costs(&other_flows));
        assert_eq!(times_and_flows(&drawn_first), times_and_flows(&other_workload));
    }

    #[test]
    fn arrivals_are_poisson() {
        let plan = Plan { rate: 100_000.0, ..test_plan() };
        let schedule = drawn(&plan);
        let gaps: Vec<f64> = schedule.windows(2).map(|pair| pair[1].at.minus(pair[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * plan.rate - 1.0).abs() < 0.02, "mean gap {mean}");
        // An exponential's standard deviation is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "coefficient of variation {}", variance.sqrt() / mean);
        assert!(schedule.iter().all(|request| request.at < plan.warmup.plus(plan.duration)));
    }

    #[test]
    fn costs_are_scaled() {
        let plan = Plan { workload: "fixed:3us".parse().expect("a form"), time_scale: 1_000, ..test_plan() };
        assert!(drawn(&plan).iter().all(|request| request.cost == Nanos::from_millis(3)));
    }

    #[test]
    fn a_schedule_too_large_is_a_usage_error() {
        let error = draw(&Plan { rate: 1e9, ..test_plan() }).expect_err("a billion requests");
        assert!(error.to_string().contains("at most 50000000"), "{error}");
    }
}
