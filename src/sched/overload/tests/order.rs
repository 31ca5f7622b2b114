//! What would newest first do, in a queue that stands, that shedding in the order of arrival does not? Method: one queue
//! and one server in virtual time, Poisson arrivals at twice the load. The README quotes what this prints.

use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Requests of a run, of which the first tenth does not count.
const REQUESTS: usize = 20_000;
/// The mean service.
const SERVICE: Nanos = Nanos::from_millis(10);

/// Which of the waiting requests begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Oldest,
    /// The newest while the queue stands, the oldest otherwise.
    NewestWhileStanding,
}

/// What the server knows of how long clients wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Unknown,
    /// Each request says it: what is not expected to end before does not begin.
    Deadline,
}

/// An exponential value.
fn exponential(draw: &mut SplitMix64, mean: Nanos) -> Nanos {
    let uniform = (draw.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Nanos::new((-(1.0 - uniform).ln() * mean.get() as f64) as u64)
}

/// The share of the server's time that went into requests which ended within `patience` of their arrival, at twice the load.
fn useful(bounds: &WaitBounds, order: Order, varies: bool, patience: Nanos, known: Patience) -> f64 {
    let mut draw = SplitMix64::seed_from_u64(11);
    let mut came = Nanos::ZERO;
    let requests: Vec<(Nanos, Nanos)> = (0..REQUESTS)
        .map(|_| {
            came = came.plus(exponential(&mut draw, Nanos::new(SERVICE.get() / 2)));
            (came, if varies { exponential(&mut draw, SERVICE) } else { SERVICE })
        })
        .collect();
    // The 90th percentile.
    let expected = if varies { Nanos::new((SERVICE.get() as f64 * 10f64.ln()) as u64) } else { SERVICE };
    let (counted_from, end) = (requests[REQUESTS / 10].0, came);
    let (mut queues, mut waiting, mut next) = (StandingQueues::new(1), VecDeque::new(), 0);
    let (mut now, mut useful) = (Nanos::ZERO, Nanos::ZERO);
    while now < end {
        while next < requests.len() && requests[next].0 <= now {
            waiting.push_back(requests[next]);
            next += 1;
        }
        // Old ones go first in either order, for what they say of the queue and to be shed.
        let oldest = waiting.front().map(|(came, _)| now.minus(*came));
        let is_old = oldest.is_some_and(|wait| wait >= bounds.target);
        let wait = oldest.unwrap_or(Nanos::ZERO);
        // With the bound as its wait any old one is shed while the queue stands.
        let stands = is_old && queues.on_old(0, now, bounds.bound, bounds);
        if stands && wait >= bounds.bound {
            waiting.pop_front();
            now = now.plus(Nanos::from_micros(3));
            continue;
        }
        let newest = order == Order::NewestWhileStanding && stands;
        let Some((came, service)) = (if newest { waiting.pop_back() } else { waiting.pop_front() }) else {
            queues.on_rest(now);
            now = requests.get(next).map_or(end, |request| request.0);
            continue;
        };
        if !is_old {
            queues.on_young(0);
        }
        let expires_at = came.plus(patience);
        if known == Patience::Deadline && now >= latest_start(expires_at, patience, expected, Nanos::ZERO) {
            now = now.plus(Nanos::from_micros(3));
            continue;
        }
        let ends_at = if known == Patience::Deadline { now.plus(service).min(expires_at) } else { now.plus(service) };
        if ends_at == now.plus(service) && ends_at <= expires_at && now >= counted_from {
            useful = useful.plus(service);
        }
        now = ends_at;
    }
    useful.as_secs_f64() / end.minus(counted_from).as_secs_f64()
}

// Is newest first worth nothing where clients wait for longer than the bound, or where the bound is below their patience? Is
// it worth much where neither holds?
#[test]
fn newest_first_helps_where_patience_is_short_and_not_known() {
    let auto = auto(&[(10_000, 100)]);
    println!("service patience | oldest newest | bound set: oldest newest | deadlines: oldest newest");
    for varies in [false, true] {
        for services in [3, 10, 15, 25, 100] {
            let patience = SERVICE.times(services);
            let half = Nanos::new(patience.get() / 2);
            let set = WaitBounds { target: half, interval: Nanos::ZERO, bound: half };
            let both = |bounds: &WaitBounds, known| {
                [Order::Oldest, Order::NewestWhileStanding].map(|order| useful(bounds, order, varies, patience, known))
            };
            let [unknown, fixed, deadline] =
                [both(&auto, Patience::Unknown), both(&set, Patience::Unknown), both(&auto, Patience::Deadline)];
            let service = if varies { "exponential" } else { "fixed" };
            let text = [unknown, fixed, deadline].map(|[oldest, newest]| format!("{oldest:.2} {newest:.2}"));
            println!("{service} {services} | {}", text.join(" | "));
            assert!(unknown[1] > 0.4, "newest first is of use to all: {unknown:?}");
            match services {
                ..15 => assert!(unknown[0] < 0.3, "{unknown:?}"),
                100.. => assert!(unknown[0] > 0.95, "{unknown:?}"),
                _ => {}
            }
            assert!(services < 10 || fixed[0] > 0.9 && fixed[1] - fixed[0] < 0.1, "{fixed:?}");
            assert!(deadline[1] - deadline[0] < 0.13, "{deadline:?}");
        }
    }
}
