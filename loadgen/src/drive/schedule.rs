//! The schedule: every request of a run, drawn before the first one is sent. [`Arrivals`] draws
//! them, as it does for the simulator.

use crate::failure::Failure;
use crate::lab::workload::{Arrivals, Workload};
use crate::plan::Plan;
use crate::profile::WHOLE_BITS;
use crate::text;
use forebay::time::Nanos;
use std::mem;
use std::ops::Range;

/// The most requests in one run: each needs about 130 bytes with its records, and with several
/// threads twice as much.
pub const REQUESTS_MAX: u64 = 50_000_000;
/// If a server does not answer for this long plus the largest cost, it is gone. If a sender is this
/// late, it does not catch up.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(5);

/// One request of a schedule, with its time after the start of the run, and its cost multiplied by
/// the time scale. Its number is its place in the schedule.
pub use crate::lab::workload::Arrival as Request;

/// The latency from which on a reply is late: the timeout of `plan`, by default 1 s plus 20 times
/// the largest cost in `schedule`.
pub fn timeout(plan: &Plan, schedule: &[Request]) -> Nanos {
    plan.timeout.unwrap_or_else(|| Nanos::from_secs(1).plus(largest(schedule).times(20)))
}

/// How long a server may take for an answer to one of `requests`. One that answers nothing for
/// longer is gone.
pub(super) fn silence_max(requests: &[Request]) -> Nanos {
    PATIENCE.plus(largest(requests))
}

fn largest(requests: &[Request]) -> Nanos {
    requests.iter().map(|request| request.cost).max().unwrap_or(Nanos::ZERO)
}

/// What to say before a run of `plan` if replies repeat so little of their requests that those
/// within one timeout are alike.
pub(crate) fn repeats(plan: &Plan) -> Option<String> {
    let (bits, flows, rate) = (plan.profile.profile.id_bits(), plan.flows, plan.rate);
    let (timeout, values) = (timeout(plan, &[]), 1_u64 << bits.min(WHOLE_BITS));
    let after_s = values as f64 * f64::from(flows) / rate;
    // In a replay the trace gives the payloads, the sources and the times.
    let offer = if plan.replay.is_some() { "a lower --speed" } else { "more --flows, a lower --rate" };
    let timeouts = "a shorter --timeout";
    let advice = match plan.profile.profile.more_bits() {
        Some(more) => format!("{offer}, {timeouts}, or {more}"),
        None => format!("{offer}, or {timeouts}"),
    };
    (bits < WHOLE_BITS && after_s < timeout.as_secs_f64()).then(|| {
        format!(
            "{values} values x {flows} flows at {}/s repeat after {}, within the timeout of {timeout}; a reply that takes \
             longer is doubtful: use {advice}",
            text::rate(rate),
            text::time(Some(after_s * 1e6))
        )
    })
}

/// The place of the request with this number among the requests that one thread sends, which have
/// these `numbers` in the whole schedule. Without numbers they are all of it.
pub(crate) fn place(numbers: &[u32], number: u64) -> Option<usize> {
    match numbers {
        [] => usize::try_from(number).ok(),
        _ => numbers.binary_search(&u32::try_from(number).ok()?).ok(),
    }
}

/// Draws the arrivals of `plan`, warm-up included, in the order of their times.
///
/// # Errors
/// A usage error when more than [`REQUESTS_MAX`] requests would have to be held.
pub fn draw(plan: &Plan) -> Result<Vec<Request>, Failure> {
    if let Some(replay) = &plan.replay {
        let count = replay.requests.len();
        if count as u64 > REQUESTS_MAX {
            return Err(Failure::usage(format!("--replay has {count} requests: at most {REQUESTS_MAX}")));
        }
        let of = |request: &Request| Request { flow: request.flow % plan.flows, ..*request };
        return Ok(replay.requests.iter().map(of).collect());
    }
    let end = plan.warmup.plus(plan.duration);
    let expected = plan.rate * end.as_secs_f64();
    check(plan)?;
    let mut schedule = Vec::with_capacity(room_for(plan, expected)?);
    let middle = plan.warmup.plus(Nanos::new(plan.duration.get() / 2));
    let first = plan.then.as_ref().map_or(end, |_| middle);
    let second = plan.then.iter().flat_map(|then| drawn(plan, then, rate_of(plan, then), !plan.seed, middle..end));
    let all = drawn(plan, &plan.workload, plan.rate, plan.seed, Nanos::ZERO..first).chain(second);
    schedule.extend(all.take(REQUESTS_MAX as usize + 1));
    // Other arrivals than Poisson vary by more than the margin.
    if schedule.len() as u64 > REQUESTS_MAX {
        return Err(Failure::usage(format!(
            "one run holds at most {REQUESTS_MAX} requests: lower --rate or --duration"
        )));
    }
    if let Some(class) = plan.profile.profile.handshake() {
        let mut has_begun = vec![false; plan.flows.into()];
        for request in &mut schedule {
            if !mem::replace(&mut has_begun[usize::from(request.flow)], true) {
                request.class = class;
            }
        }
    }
    Ok(schedule)
}

/// Checks that the schedule of `plan` fits in memory, before anything starts.
///
/// # Errors
/// See [`draw`].
pub(crate) fn check(plan: &Plan) -> Result<(), Failure> {
    let rates = plan.rate + plan.then.as_ref().map_or(0.0, |then| rate_of(plan, then));
    room_for(plan, rates * plan.warmup.plus(plan.duration).as_secs_f64()).map(drop)
}

/// The rate at which `then` needs as much CPU time as the workload of `plan`.
fn rate_of(plan: &Plan, then: &Workload) -> f64 {
    plan.rate * plan.workload.mean().as_secs_f64() / then.mean().as_secs_f64()
}

/// Capacity for the `expected` number of requests, with a margin.
fn room_for(plan: &Plan, expected: f64) -> Result<usize, Failure> {
    // Six standard deviations of the Poisson count: the draw then stays under the bound.
    let with_margin = expected + 6.0 * expected.sqrt();
    if with_margin > REQUESTS_MAX as f64 {
        return Err(Failure::usage(format!(
            "{:.0} requests/s for {} are {expected:.0} requests, and one run holds at most {REQUESTS_MAX}: lower \
             --rate, --load or --duration",
            plan.rate,
            plan.warmup.plus(plan.duration)
        )));
    }
    Ok(with_margin as usize + 1)
}

/// Requests of `workload` at times within `when`.
fn drawn<'a>(
    plan: &'a Plan,
    workload: &'a Workload,
    rate: f64,
    seed: u64,
    when: Range<Nanos>,
) -> impl Iterator<Item = Request> + 'a {
    let Range { start, end } = when;
    // Drawn at a time scale of 1, as by `loadgen simulate`: the times of a shape are as long beside
    // the costs here as there.
    let scale = plan.time_scale;
    let arrivals = Arrivals::new(workload, rate * scale as f64, plan.flows, seed).shaped(plan.arrivals.clone());
    let requests = arrivals.map(move |arrival| Request {
        at: start.plus(arrival.at.times(scale)),
        cost: arrival.cost.times(scale),
        ..arrival
    });
    requests.take_while(move |request| request.at < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workload::Shape;
    use crate::plan::test_plan;
    use crate::profile::Chosen;
    use crate::replay::Replay;
    use std::sync::Arc;

    fn drawn_all(plan: &Plan) -> Vec<Request> {
        draw(plan).unwrap_or_else(|_| panic!("a small schedule"))
    }

    // Do requests come at a slow server as at one in real time, and only everything last longer?
    #[test]
    fn a_time_scale_stretches_the_shape_of_arrivals_too() {
        let arrivals: Shape = "bursts:2:1ms:1ms".parse().expect("a shape");
        let fast = Plan { rate: 10_000.0, duration: Nanos::from_secs(1), warmup: Nanos::ZERO, arrivals, ..test_plan() };
        let slow = Plan { rate: 10.0, duration: Nanos::from_secs(1_000), time_scale: 1_000, ..fast.clone() };
        let stretched = |one: &Request| Request { at: one.at.times(1_000), cost: one.cost.times(1_000), ..*one };
        assert_eq!(drawn_all(&slow), drawn_all(&fast).iter().map(stretched).collect::<Vec<_>>());
    }

    // Is it said before a run that requests within a timeout are alike, and not where they differ?
    #[test]
    fn short_numbers_that_repeat_within_the_timeout_are_told() {
        let of = |payload: &str, place: &str, flows, timeout_ms| {
            let place = Some(place.parse().expect("a place"));
            let profile = Chosen::of_payloads(vec![payload.parse().expect("a payload")], place).expect("one");
            let timeout = Some(Nanos::from_millis(timeout_ms));
            repeats(&Plan { profile, flows, rate: 1_000.0, timeout, ..test_plan() })
        };
        let told = of("01{counter:1}aabb", "offset:1:1", 1, 1_000).expect("they repeat");
        assert!(
            told.starts_with("256 values x 1 flows at 1,000/s repeat after 256 ms, within the timeout of 1s"),
            "{told}"
        );
        assert!(
            told.ends_with(": use more --flows, a lower --rate, a shorter --timeout, or a longer {counter:N}"),
            "{told}"
        );
        let told = of("00", "none", 999, 1_000).expect("they repeat");
        let advice = "a lower --rate, a shorter --timeout, or a {counter:N} and a --match that is not none";
        assert!(told.starts_with("1 values x 999 flows") && told.ends_with(advice), "{told}");
        let questions = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(questions.path(), "example A\n").expect("written");
        let dns = format!("dns={}", questions.path().display());
        // A replay gives the sources and the times.
        let replay = Replay {
            requests: Vec::new(),
            flows: 1,
            workload: test_plan().workload,
            warmup: Nanos::ZERO,
            deadline: None,
            left_out: 0,
        };
        let advice = |profile: &str, replay: Option<&Replay>| {
            let (profile, replay) = (profile.parse().expect("a profile"), replay.cloned().map(Arc::new));
            let told = repeats(&Plan { profile, replay, flows: 1, rate: 1e5, ..test_plan() }).expect("they repeat");
            told.split_once(" is doubtful: use ").expect("what to do").1.to_owned()
        };
        assert_eq!(advice(&dns, None), "more --flows, a lower --rate, or a shorter --timeout");
        assert_eq!(advice(&dns, Some(&replay)), "a lower --speed, or a shorter --timeout");
        let apart = [of("01{counter:1}", "offset:1:1", 4, 1_000), of("{counter:1}", "prefix:1", 1, 256)];
        assert_eq!(apart, [None, None]);
        assert_eq!([of("{counter:2}", "prefix:2", 1, 60_000), of("{counter:8}", "prefix:8", 1, 1 << 40)], [None, None]);
        assert_eq!(repeats(&test_plan()), None, "the bench protocol has whole numbers");
    }

    #[test]
    fn the_default_timeout_covers_twenty_of_the_largest_cost() {
        let request = |ms| Request { at: Nanos::ZERO, cost: Nanos::from_millis(ms), flow: 0, class: 0 };
        let plan = test_plan();
        assert_eq!(timeout(&plan, &[request(1), request(500), request(2)]), Nanos::from_secs(11));
        let explicit = Plan { timeout: Some(Nanos::from_millis(5)), ..plan };
        assert_eq!(timeout(&explicit, &[request(500)]), Nanos::from_millis(5));
    }

    // Does the seed alone decide, bit for bit, and does one stream not disturb the others?
    #[test]
    fn each_stream_follows_from_the_seed() {
        let plan = Plan { rate: 20_000.0, ..test_plan() };
        let drawn = drawn_all(&plan);
        assert_eq!(drawn, drawn_all(&plan));
        assert_ne!(drawn, drawn_all(&Plan { seed: plan.seed + 1, ..plan.clone() }));
        let other_flows = drawn_all(&Plan { flows: plan.flows + 1, ..plan.clone() });
        assert!(drawn.iter().zip(&other_flows).all(|(one, other)| *one == Request { flow: one.flow, ..*other }));
        let workload = "fixed:3us".parse().expect("a form");
        let other_workload = drawn_all(&Plan { workload, ..plan });
        let (cost, class) = (Nanos::from_micros(3), 0);
        assert!(drawn.iter().map(|one| Request { cost, class, ..*one }).eq(other_workload.iter().copied()));
        assert_eq!(drawn.len(), other_flows.len());
        let end = test_plan().warmup.plus(test_plan().duration);
        assert!(drawn.iter().all(|request| request.at < end));
    }

    #[test]
    fn a_mix_that_shifts_keeps_the_load() {
        let then = "bimodal:0.99:0.5us:500us".parse().expect("a form");
        let plan = Plan { rate: 20_000.0, duration: Nanos::from_secs(20), then: Some(then), ..test_plan() };
        let middle = plan.warmup.plus(Nanos::from_secs(10));
        let (before, after): (Vec<Request>, Vec<Request>) = drawn_all(&plan)
            .into_iter()
            .filter(|request| request.at >= plan.warmup)
            .partition(|request| request.at < middle);
        let long = |requests: &[Request]| requests.iter().filter(|request| request.class == 1).count() as f64;
        let work = |requests: &[Request]| requests.iter().map(|request| request.cost.as_secs_f64()).sum::<f64>();
        assert!((long(&after) / after.len() as f64 / (long(&before) / before.len() as f64) - 2.0).abs() < 0.3);
        assert!((work(&after) / work(&before) - 1.0).abs() < 0.15, "{} and {} s", work(&before), work(&after));
        assert!(after.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}
