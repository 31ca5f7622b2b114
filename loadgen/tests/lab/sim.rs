//! Does virtual time do over long runs what the policies say? Method: tails and shares of
//! simulations with fixed seeds.

mod levels;

use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::sched::{MaxWait, Policy};
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use loadgen::lab::sim::inputs::{named, offer, policies, with_patience, workload};
use loadgen::lab::sim::*;
use loadgen::lab::workload::Workload;

// With a receive from each socket heavy requests would fall behind for ever; with a notice for each
// they take twice.
#[test]
fn a_worker_looks_where_something_waits_and_little_else() {
    let slowdown = |name: &str, load, overheads: Overheads, class: &str, percentile| {
        let workload = workload(name).with_time_beside(overheads.per_request());
        let fit = Fit::new(&workload, 14, load).tuned(|tuning| tuning.notice_cost = overheads.notice);
        let policy = fit.policy(named("levels")).policy;
        let offer = OpenLoop { warmup: 10_000, requests: 100_000, ..offer(&workload, load, 14) };
        let slowdown = simulate(&Setup::with_overheads(policy, overheads), offer.arrivals(14)).slowdown();
        let block = slowdown.iter().find(|(name, _)| *name == class).map(|(_, block)| *block);
        block.and_then(|block| block.percentile(percentile)).expect("requests of that class")
    };
    let heavy = slowdown("high-bimodal", 0.9, Overheads::STOCK, "long", Percentile::P50);
    assert!(heavy < 1.6, "{heavy}");
    let heavy = slowdown("extreme-bimodal", 0.7, Overheads::STOCK, "long", Percentile::P50);
    assert!(heavy < 1.5, "{heavy}");
    let light = slowdown("extreme-bimodal", 0.9, Overheads::LAB, "short", Percentile::P99_9);
    assert!(light < 3.4, "{light}");
}

// To the bit: a worker alone, and workers that serve their own sockets only.
#[test]
fn what_is_not_shared_costs_what_it_did() {
    let workload = workload("bimodal:0.9:2us:100us");
    let dear = Overheads { serial: Nanos::from_micros(2), contend: Nanos::from_micros(1), ..Overheads::STOCK };
    let both = |policy: &Policy, workers, overheads: Overheads| {
        [overheads, Overheads { serial: Nanos::ZERO, contend: Nanos::ZERO, ..overheads }].map(|overheads| {
            let setup = Setup::with_overheads(policy.clone(), overheads);
            figures(&simulate(&setup, offer(&workload, 0.8, workers).arrivals(workers)))
        })
    };
    for (name, policy) in policies(&workload, 0.8, 1) {
        let [with, without] = both(&policy, 1, dear);
        assert_eq!(with, without, "{name} alone");
    }
    for (name, policy) in policies(&workload, 0.8, 5) {
        let [with, without] = both(&policy, 5, dear);
        assert_eq!(with == without, name == named("isolated"), "{name}");
        // Operations that take no time never meet.
        let [with, without] = both(&policy, 5, Overheads { serial: Nanos::ZERO, ..dear });
        assert_eq!(with, without, "{name} without a hold");
    }
}

// Where every request is interrupted. Without the look at the backlog 40 % is answered at five
// times the load.
#[test]
fn what_is_begun_is_finished_in_an_overload() {
    for (service, load, least) in
        [("fixed:500us", 5.0, 0.95), ("fixed:500us", 15.0, 0.4), ("bimodal:0.9:10us:5ms", 5.0, 0.0)]
    {
        let service = workload(service);
        let times = Fit::new(&service, 2, 0.9).times;
        // Three times as long as clients wait.
        let end_us = 3_000_000;
        let lasts = |request: &ArrivingRequest| request.at < Nanos::from_micros(end_us);
        let requests: Vec<ArrivingRequest> =
            OpenLoop { requests: 200_000, ..offer(&service, load, 2) }.arrivals(2).take_while(lasts).collect();
        let fit = Fit::new(&service, 2, 0.9).tuned(|tuning| tuning.budget = Nanos::from_micros(50));
        let setup = Setup::ideal(fit.policy(named("levels")).policy).with_max_wait(MaxWait::Auto, &times, None);
        let (share, _) = answered(&setup, &requests, [end_us / 2, end_us]);
        assert!(share * load > least, "levels: {share} of {load} times the load");
        let light = simulate(&setup, requests.iter().copied()).latency_us()[1].1.count;
        let came = requests.iter().filter(|request| request.class == 0 && request.counts).count();
        assert!(least > 0.0 || light as f64 > 0.99 * came as f64, "levels: {light} light ones of {came}");
    }
}

/// What is compared of two runs: all distributions, to the bit.
fn figures(tally: &Tally) -> impl PartialEq + std::fmt::Debug + use<> {
    (tally.fates(), tally.ended_at(), tally.latency_us(), tally.slowdown(), tally.utilisation().map(f64::to_bits))
}

/// The share of the requests of a span (in microseconds) that was answered, and the longest that
/// any of these took.
fn answered(setup: &Setup, requests: &[ArrivingRequest], [since, until]: [u64; 2]) -> (f64, Nanos) {
    let counted = |request: &ArrivingRequest| (since..until).contains(&(request.at.get() / 1_000));
    let of_span = requests.iter().filter(|request| counted(request)).count() as f64;
    let incoming = requests.iter().map(|request| ArrivingRequest { counts: counted(request), ..*request });
    let latency = simulate(setup, incoming).latency_us().swap_remove(0).1;
    let longest = latency.p99_99.or(latency.p99).or(latency.p50).map_or(Nanos::MAX, |us| Nanos::new((us * 1e3) as u64));
    (latency.count as f64 / of_span, longest)
}

// At twice the load half is served, and soon; where without bounds requests go on waiting.
#[test]
fn an_overload_ends_with_its_load() {
    let service = workload("fixed:500us");
    let times = Fit::new(&service, 2, 0.9).times;
    let mut requests: Vec<ArrivingRequest> = offer(&service, 2.0, 2).arrivals(2).take(16_000).collect();
    let end = requests.last().expect("requests").at;
    requests.extend(offer(&service, 0.5, 2).arrivals(2).take(4_000).map(|request| {
        let at = end.plus(request.at);
        ArrivingRequest { at, due: at, ..request }
    }));
    let end_us = end.get() / 1_000;
    let (overload, afterwards) = ([500_000, end_us], [end_us + 100_000, end_us + 1_900_000]);
    for policy in ["isolated", "global", "steal", "levels"] {
        let fit = Fit::new(&service, 2, 0.9).tuned(|tuning| tuning.budget = Nanos::from_millis(1));
        let limits = Limits { socket_capacity: 10_000, ..Limits::SERVER };
        let off = Setup { limits, ..Setup::ideal(fit.policy(named(policy)).policy) };
        let auto = off.clone().with_max_wait(MaxWait::Auto, &times, None);
        let (share, _) = answered(&auto, &requests, overload);
        assert!((0.47..0.53).contains(&share), "{policy}: {share} of twice the load");
        let (share, longest) = answered(&auto, &requests, afterwards);
        assert!(share > 0.98 && longest < Nanos::from_millis(11), "{policy}: {share} afterwards, {longest}");
        let (share, longest) = answered(&off, &requests, afterwards);
        assert!(share == 1.0 && longest > Nanos::from_millis(500), "{policy}: {share} without bounds, {longest}");
    }
}
