//! Do a flood, a late request and a long GRO batch (a train) end as they should? Method: servers of
//! one or two workers in virtual time.

use super::handler::{DEAR, MAGIC, Scripted};
use super::memory::LIMITED_FLOWS;
use super::order::Order;
use super::run::{Ends, Expirations};
use super::scenario::{Event, Scenario};
use super::server::explore;
use crate::fate::{Expired, Fate};
use crate::sched::bounds::{BATCH, SET_ASIDE_OF_SHARD, set_aside_per_worker};
use crate::sched::overload::{WaitBounds, WaitLimits};
use crate::sched::{Policy, Tuning, Wait};
use crate::time::Nanos;
use forebay_sim::Rest;

const US: fn(u64) -> Nanos = Nanos::from_micros;
/// How long requests arrive, in microseconds.
const SPAN_US: u64 = 4_000;
/// Requests of one flow, in microseconds.
#[derive(Clone, Copy)]
struct Load {
    /// From one request to the next.
    every: usize,
    /// Work of each request.
    cost: usize,
}

/// Enough work for three workers.
const FLOOD: Load = Load { every: 10, cost: 30 };
/// Each of the other flows. Together they are enough work for most of a worker.
const OTHER: Load = Load { every: 100, cost: 20 };
const OTHERS: std::ops::Range<u8> = 2..6;

/// Requests of `load` from the microsecond `first` on.
fn requests(flow: u8, first: u64, load: Load) -> impl Iterator<Item = (Nanos, Event)> {
    let bytes = [vec![MAGIC, 0, 0, flow], vec![0; load.cost]].concat();
    let socket = usize::from(flow) % 2;
    (first..SPAN_US).step_by(load.every).map(move |at| (US(at), Event::Datagram(socket, bytes.clone())))
}

/// Number of requests served to the end: of the flood, whose key is `flow`, and of all other flows.
fn served(policy: Policy, flow: u8) -> (u32, u32) {
    let mut events: Vec<_> = requests(flow, 1, FLOOD).collect();
    OTHERS.for_each(|other| events.extend(requests(other, u64::from(other) * 23, OTHER)));
    events.sort_by_key(|(at, _)| *at);
    events.push((US(SPAN_US), Event::Stop));
    let bounds = WaitBounds::always(US(200), US(200));
    let scenario = Scenario {
        rest: Rest { wait: Wait::Park, nap_min: US(10) },
        wake: US(3),
        step: Nanos::new(100),
        packets: BATCH + 2 * 200,
        set_aside: [2 * set_aside_per_worker(0), SET_ASIDE_OF_SHARD],
        waits: WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE },
        ..Scenario::plain(policy, 200, events)
    };
    let handler = Scripted::default();
    explore(&scenario, &handler, None, None).expect("the accounts balance");
    (handler.order.served(flow), OTHERS.map(|other| handler.order.served(other)).sum())
}

// Does a flow that floods take from others only one request at a time? Two workers could serve the
// other flows and one request of the flood at a time, and no more.
#[test]
fn a_flood_takes_its_own_requests_one_at_a_time() {
    let all = OTHERS.map(|other| requests(other, u64::from(other) * 23, OTHER).count()).sum::<usize>() as u32;
    let one_at_a_time = SPAN_US as u32 / FLOOD.cost as u32;
    let tuning = Tuning { thief_threshold: Some(US(5)), ..Tuning::new(2, US(8)) };
    let policies = ["isolated", "steal", "global", "levels"].map(|name| tuning.policy(name));
    for policy in policies {
        let (flood, others) = served(policy.clone(), 1);
        assert_eq!(others, all, "{policy:?}: others are served, beside {flood} of the flood");
        assert!((one_at_a_time / 2..=one_at_a_time + 10).contains(&flood), "{policy:?}: {flood} of the flood");
        let (flood, others) = served(policy.clone(), 0);
        assert!(others < all * 9 / 10, "{policy:?}: without a key it takes from others, {others} beside {flood}");
    }
}

// Are heavy requests of a source that the gate limits refused first, and before they begin if all
// requests are heavy? Both sources send half of three times what the worker can do. Each request is
// a flow of its own.
#[test]
fn a_limited_source_is_refused_first() {
    const EACH: u8 = 120;
    let flows = (1..=EACH).flat_map(|flow| [flow, LIMITED_FLOWS + flow - 1]);
    let requests = flows.enumerate().map(|(at, flow)| {
        let bytes = [vec![MAGIC, 0, 0, flow], vec![0; 60]].concat();
        (US(20 * at as u64 + 1), Event::Datagram(0, bytes))
    });
    let bounds = WaitBounds { target: US(200), ..WaitBounds::always(US(600), US(1_400)) };
    let policy = Tuning::new(1, US(8)).policy("levels");
    let scenario = Scenario {
        packets: BATCH + 240,
        waits: WaitLimits { fresh: WaitBounds::NONE, interrupted: bounds, ..WaitLimits::NONE },
        drain: US(10_000),
        ..Scenario::plain(policy, 240, requests.collect())
    };
    let handler = Scripted::default();
    explore(&scenario, &handler, None, None).expect("the accounts balance");
    let sum =
        |first: u8, of: fn(&Order, u8) -> u32| (first..first + EACH).map(|flow| of(&handler.order, flow)).sum::<u32>();
    let [(others_begun, others), (begun, limited)] =
        [1, LIMITED_FLOWS].map(|first| (sum(first, Order::begun), sum(first, Order::served)));
    assert!(limited * 10 < others, "{limited} of the limited source are served, {others} of the other");
    // The 65th request in a row is the first that may be refused before it begins. One in 16 is
    // tried.
    assert!(
        begun <= 64 / 2 + 240 / 16 && others_begun > begun,
        "{begun} of the limited source begin, {others_begun} of the other"
    );
}

/// How a second request ends that waits for `waits` microseconds: whether it was served, and why it
/// expired. An `old` one has waited in its socket for milliseconds before.
fn ends(magic: u8, waits: usize, old: bool) -> (bool, Expirations) {
    // Act 1 does nothing and takes a microsecond. The deadline is 10 times 4 us.
    let datagrams = [[vec![MAGIC, 0, 0, 1], vec![1; waits]].concat(), vec![magic, 0, 10, 2, 1]];
    let events = datagrams.map(|bytes| (US(20_000), Event::Datagram(0, bytes))).into();
    // An impossible stamp counts as the longest possible wait.
    let policy = Tuning::new(1, Nanos::ZERO).policy("isolated");
    let scenario = Scenario { odd_every: old.into(), ..Scenario::plain(policy, 20, events) };
    let handler = Scripted::default();
    let expired = explore(&scenario, &handler, None, None).expect("the accounts balance").expired;
    assert_eq!(handler.order.served(1), 1);
    (handler.order.served(2) == 1, expired)
}

// Does a request begin only if its declared cost fits before its deadline?
#[test]
fn what_is_declared_to_take_too_long_does_not_begin() {
    for (magic, waits, old, expired) in [
        // It would end 184 us after its deadline.
        (DEAR, 24, false, Some(Expired::TooLate)),
        // Its cost is unknown.
        (MAGIC, 24, false, None),
        // Half of the deadline is for waiting.
        (DEAR, 19, false, None),
        // The deadline has passed, in the last two cases before admission.
        (DEAR, 50, false, Some(Expired::Passed)),
        (MAGIC, 50, false, Some(Expired::Passed)),
        (DEAR, 1, true, Some(Expired::Passed)),
        (MAGIC, 1, true, Some(Expired::Passed)),
    ] {
        let mut expirations = Expirations::default();
        expired.into_iter().for_each(|why| expirations[why as usize] = 1);
        assert_eq!(ends(magic, waits, old), (expired.is_none(), expirations), "{magic:#x} after {waits} us, {old}");
    }
}

// Does each datagram of a train have a fate if no packet is left for it? A train leaves its socket
// as a whole, as a GRO batch does. Nothing else arrives.
#[test]
fn the_rest_of_a_train_has_a_fate_without_a_packet() {
    for (train, packets) in [(20, 8), (50, 40), (20, 20)] {
        let request = [vec![MAGIC, 0, 0, 0], vec![1; 5]].concat();
        let events = vec![(US(10), Event::Datagram(0, request)); train];
        let plain = Scenario::plain(Tuning::new(1, Nanos::ZERO).policy("isolated"), 2 * train, events);
        // The thread that stops the server has a batch of its own.
        let scenario = Scenario { packets: BATCH + packets, trains: true, ..plain };
        let run = explore(&scenario, &Scripted::default(), None, None);
        let ends: Ends = run.expect("the accounts balance, and nothing is in flight").ends;
        let shed = train.saturating_sub(packets) as u64;
        assert_eq!(ends[Fate::ShedQueueFull as usize], shed, "{train} datagrams, {packets} packets");
        assert_eq!(ends.iter().sum::<u64>(), train as u64, "{ends:?}");
    }
}
