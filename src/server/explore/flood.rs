//! Does a flow that floods take no more from others than its own requests, one at a time? Method: two workers that could
//! serve the other flows and one request of the flood at a time, and no more; in virtual time.

use super::handler::{HEADER, MAGIC, Scripted};
use super::scenario::{Event, Scenario};
use super::server::explore;
use crate::lab::sim::Rest;
use crate::sched::bounds::{BATCH, SET_ASIDE_OF_FLOW, SET_ASIDE_PER_WORKER};
use crate::sched::overload::{QueueBounds, WaitBounds};
use crate::sched::{Policy, Tuning, Wait};
use crate::time::Nanos;

const US: Nanos = Nanos::from_micros(1);
/// How long requests come.
const SPAN_US: u64 = 4_000;
/// A request of the flood: three workers would be busy with all of them.
const FLOOD: (u64, usize) = (10, 30);
/// A request of each other flow: most of a worker would be busy with all of them.
const OTHER: (u64, usize) = (100, 20);
const OTHERS: std::ops::Range<u8> = 2..6;

/// Requests that come once in so many microseconds, from `first` on, and take so long each.
fn requests(flow: u8, first: u64, (every, cost): (u64, usize)) -> impl Iterator<Item = (Nanos, Event)> {
    let mut bytes = vec![MAGIC, 0, 0, flow];
    bytes.resize(HEADER + cost, 0);
    let socket = usize::from(flow) % 2;
    (first..SPAN_US).step_by(every as usize).map(move |at| (US.times(at), Event::Datagram(socket, bytes.clone())))
}

/// Requests of the flood, whose key is `flow`, and of all other flows that are served to their end.
fn served(policy: Policy, flow: u8) -> (u32, u32) {
    let mut events: Vec<_> = requests(flow, 1, FLOOD).collect();
    OTHERS.for_each(|other| events.extend(requests(other, u64::from(other) * 23, OTHER)));
    events.sort_by_key(|(at, _)| *at);
    events.push((US.times(SPAN_US), Event::Stop));
    let bounds = WaitBounds { target: US.times(200), interval: Nanos::ZERO, bound: US.times(200) };
    let scenario = Scenario {
        workers: 2,
        policy,
        classified: false,
        rest: Rest { wait: Wait::Park, nap_min: US.times(10) },
        wake: US.times(3),
        step: Nanos::new(100),
        packets: BATCH + 2 * 200,
        queued: 200,
        set_aside: [2 * SET_ASIDE_PER_WORKER, SET_ASIDE_OF_FLOW],
        socket_capacity: 200,
        unsent_every: 0,
        odd_every: 0,
        trains: false,
        events,
        waits: QueueBounds { fresh: bounds, interrupted: bounds },
        drain: US.times(1_000),
    };
    let handler = Scripted::default();
    explore(&scenario, &handler, None, None).expect("the accounts balance");
    (handler.order.served(flow), OTHERS.map(|other| handler.order.served(other)).sum())
}

#[test]
fn a_flood_takes_its_own_requests_one_at_a_time() {
    let all = OTHERS.map(|other| requests(other, u64::from(other) * 23, OTHER).count()).sum::<usize>() as u32;
    let one_at_a_time = SPAN_US as u32 / FLOOD.1 as u32;
    let tuning = Tuning { thief_threshold: Some(US.times(5)), ..Tuning::new(2, US.times(8)) };
    let policies = ["isolated", "steal", "global", "levels"].map(|name| tuning.policy(name));
    for policy in policies {
        let (flood, others) = served(policy.clone(), 1);
        assert_eq!(others, all, "{policy:?}: others are served, beside {flood} of the flood");
        assert!((one_at_a_time / 2..=one_at_a_time + 10).contains(&flood), "{policy:?}: {flood} of the flood");
        let (flood, others) = served(policy.clone(), 0);
        assert!(others < all * 9 / 10, "{policy:?}: without a key it takes from others, {others} beside {flood}");
    }
}
