//! Does virtual time do what the policies say, and always the same?

mod levels;
mod turns;

use super::*;
use crate::metrics::Percentile;
use crate::sched::{Hybrid, Kind, OnDemand, Policy, PolicyName, Pools, Topology};
use crate::workload::Workload;

fn offer(workload: &Workload, load: f64, workers: usize) -> OpenLoop<'_> {
    let rate = workload.rate_at(load, workers, 1);
    OpenLoop { workload, rate, flows: 256, seed: 3, deadline: Nanos::MAX, warmup: 2_000, requests: 20_000 }
}

fn named(policy: &str) -> PolicyName {
    policy.parse().expect("a policy")
}

fn workload(text: &str) -> Workload {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Every policy of the server, fitted to `workload` at `load`.
fn policies(workload: &Workload, load: f64, workers: usize) -> Vec<(PolicyName, Policy)> {
    let fit = Fit::new(workload, workers, load);
    PolicyName::ALL.iter().map(|name| (*name, fit.policy(*name).policy())).collect()
}

#[test]
fn the_same_requests_give_the_same_result_bit_for_bit() {
    let workload = workload("bimodal:0.9:2us:100us");
    for (name, policy) in policies(&workload, 0.8, 5) {
        for overheads in [Overheads::LAB, Overheads::STOCK] {
            let setup = Setup::with_overheads(policy.clone(), overheads);
            let run = || simulate(&setup, offer(&workload, 0.8, 5).arrivals(5));
            let (first, second) = (run(), run());
            let all = |tally: &Tally| (tally.fates(), tally.ended_at(), tally.latency_us(), tally.slowdown());
            assert_eq!(all(&first), all(&second), "{name} {overheads}");
            assert_eq!(first.fates().arrived(), Some(22_000), "{name} {overheads}");
        }
    }
}

#[test]
fn under_every_policy_and_load_each_request_has_one_fate() {
    let workload = workload("bimodal:0.9:2us:100us");
    // Bounds so small that each is met.
    let limits = Limits { batch: 4, packets_per_worker: 8, queued_per_worker: 4, socket_capacity: 16 };
    for load in [0.5, 3.0] {
        for (name, policy) in policies(&workload, load, 4) {
            let setup = Setup { limits, ..Setup::with_overheads(policy, Overheads::STOCK) };
            let deadline = Nanos::from_micros(300);
            let tally = simulate(&setup, OpenLoop { deadline, ..offer(&workload, load, 4) }.arrivals(4));
            let fates = tally.fates();
            assert_eq!(fates.arrived(), Some(22_000), "{name} at {load}: {fates:?}");
            let measured: u64 = tally.slowdown()[0].1.count;
            assert!(measured <= 20_000 && fates.answered >= measured, "{name} at {load}");
            if load > 1.0 {
                assert!(fates.kernel_dropped > Some(0) && fates.shed_expired > 0, "{name}: {fates:?}");
            }
        }
    }
}

/// A request at the first socket, with times in microseconds.
fn arriving(at: u64, cost: u64, class: u8) -> ArrivingRequest {
    let (at, cost) = (Nanos::from_micros(at), Nanos::from_micros(cost));
    ArrivingRequest { at, due: at, cost, class, socket: 0, deadline: Nanos::MAX, counts: true }
}

#[test]
fn a_free_worker_takes_from_the_socket_of_a_stuck_one_after_the_threshold() {
    let us = Nanos::from_micros;
    let latency = |setup: &Setup| {
        let tally = simulate(setup, [arriving(1, 500, 1), arriving(2, 1, 0)].into_iter());
        tally.latency_mean(Some(0))
    };
    let policy = |name: &str| Fit::new(&workload("extreme-bimodal"), 2, 0.5).policy(named(name)).policy();
    let stolen = Setup::ideal(policy("steal"));
    let threshold = stolen.policy.thief_threshold();
    assert_eq!(
        latency(&stolen),
        threshold.minus(us(1)).plus(us(1)),
        "it waits until the other is stuck, and is served"
    );
    assert_eq!(latency(&Setup::ideal(policy("isolated"))), us(500));
    assert_eq!(latency(&Setup::ideal(policy("global"))), us(1));
    let sleeping = Rest::Sleeps { spin_for: Nanos::ZERO, nap_min: us(1_000) };
    let woken = Setup {
        rest: sleeping,
        overheads: Overheads { wake: us(20), ..Overheads::NONE },
        ..Setup::ideal(policy("global"))
    };
    // The first request wakes the owner of the socket, which wakes the other worker when it has received both.
    assert_eq!(latency(&woken), us(40));
}

#[test]
fn a_heavy_request_steps_aside_for_a_fresh_one() {
    let us = Nanos::from_micros;
    let fit = Fit::new(&workload("extreme-bimodal"), 1, 0.5);
    for (name, worst) in [("ondemand", us(3)), ("hybrid", us(4))] {
        let setup =
            Setup::with_overheads(fit.policy(named(name)).policy(), Overheads { yield_: us(1), ..Overheads::NONE });
        let tally = simulate(&setup, [arriving(1, 500, 1), arriving(100, 1, 0)].into_iter());
        assert!(tally.latency_mean(Some(0)) <= worst, "{name}: {}", tally.latency_mean(Some(0)));
        let heavy = tally.latency_mean(Some(1));
        assert!(heavy > us(501) && heavy < us(506), "{name}: {heavy}: its work, the other's, and a few yields");
    }
}

// Does a worker that steps aside for what it has noticed find it, does one that goes on with a heavy request not receive
// from every socket before, and do jobs look now and then where arrivals are close? With a receive from each socket, or two
// at random, heavy requests fall behind for ever at these loads; with a notice for each arrival they take 1.95 times as long.
#[test]
fn a_worker_looks_where_something_waits_and_little_else() {
    let slowdown = |name: &str, load, overheads: Overheads, class: &str, percentile| {
        let workload = workload(name).with_time_beside(overheads.per_request());
        let policy = Fit::new(&workload, 14, load).policy(named("ondemand")).policy();
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

// Does a heavy request in the last pool wait for a slice of another at a time, not for its end?
#[test]
fn heavy_requests_take_turns_in_the_last_pool() {
    let us = Nanos::from_micros;
    let setup = Setup::ideal(Policy::new(Kind::Pools(Pools { slice: us(10) }), &Topology::new(&[1, 1])));
    let second = 500;
    let tally = simulate(&setup, [arriving(1, 20_000, 1), arriving(2, second, 0)].into_iter());
    let (took, longer) = (tally.latency_mean(Some(0)), tally.latency_mean(Some(1)));
    assert!(took <= us(second * 22 / 10 + 10), "{took}: one slice of the first for each of its own");
    assert!(longer <= us(20_000 + second + 10), "{longer}: it has the worker to itself again");
}

#[test]
fn looks_in_vain_take_their_time() {
    let us = Nanos::from_micros;
    let fit = Fit::new(&workload("extreme-bimodal"), 1, 0.5);
    let latency = |name, poll, requests: &[ArrivingRequest]| {
        let overheads = Overheads { poll, ..Overheads::NONE };
        let setup = Setup { overheads, ..Setup::ideal(fit.policy(named(name)).policy()) };
        simulate(&setup, requests.iter().copied()).latency_mean(Some(0))
    };
    // The worker ends the first request at 11 us and looks into its socket for 5 us; the second one comes at 12 us.
    let requests = [arriving(1, 10, 1), arriving(12, 1, 0)];
    for name in ["isolated", "global", "steal"] {
        assert_eq!(latency(name, Nanos::ZERO, &requests), us(1), "{name}");
        assert_eq!(latency(name, us(5), &requests), us(4 + 1), "{name}");
    }
    // Alone, a request of 500 us on a worker that is not reserved looks for others every 20 us; one that has the
    // kernel's notice looks for none.
    let hybrid = |reserved| Hybrid { budget: us(5), reserved, short_slice: us(10), long_slice: us(20) };
    for (reserved, looks) in [(0, 24), (1, 0)] {
        let policy = Policy::new(Kind::Hybrid(hybrid(reserved)), &Topology::new(&[1]));
        let overheads = Overheads { look: us(1), notice: us(1), ..Overheads::NONE };
        let setup = Setup { overheads, ..Setup::ideal(policy) };
        let took = simulate(&setup, [arriving(1, 500, 0)].into_iter()).latency_mean(Some(0));
        assert_eq!(took, us(500 + looks), "{reserved} reserved");
    }
}

// Does a search pay for each look: one, and one more for the socket that it names?
#[test]
fn a_look_that_names_a_socket_costs_two_looks() {
    let us = Nanos::from_micros;
    let policy = Policy::new(Kind::OnDemand(OnDemand { budget: us(1_000), look_after: us(10) }), &Topology::new(&[3]));
    let setup = Setup { overheads: Overheads { look: us(1), ..Overheads::NONE }, ..Setup::ideal(policy) };
    let latency = |requests: &[ArrivingRequest]| simulate(&setup, requests.iter().copied()).latency_mean(Some(0));
    assert_eq!(latency(&[arriving(1, 10, 0)]), us(1 + 10), "before its own socket, a look that names none");
    let busy = [10, 20, 20].into_iter().enumerate();
    let busy = busy.map(|(socket, cost)| ArrivingRequest { socket, ..arriving(1, cost, 1) });
    let fresh = ArrivingRequest { socket: 1, ..arriving(5, 1, 0) };
    // Worker 0 is free at 12 us, as it has looked once before its own request.
    assert_eq!(latency(&busy.chain([fresh]).collect::<Vec<_>>()), us(12 - 5 + 2 + 1));
}

#[test]
fn an_oracle_beats_everybody_and_nobody_beats_the_service_time() {
    let workload = workload("extreme-bimodal");
    let arrivals = || offer(&workload, 0.8, 8).arrivals(8);
    let best = Reference::Srpt.simulate(8, arrivals()).slowdown_mean(None);
    assert!(best >= 1.0);
    for (name, policy) in policies(&workload, 0.8, 8) {
        let tally = simulate(&Setup::ideal(policy), arrivals());
        assert!(tally.slowdown_mean(None) >= best, "{name}");
        assert!(tally.slowdown_at(Percentile::P50) >= 1.0, "{name}");
    }
}

/// What is compared of two runs: all distributions, to the bit.
fn figures(tally: &Tally) -> impl PartialEq + std::fmt::Debug + use<> {
    (tally.fates(), tally.ended_at(), tally.latency_us(), tally.slowdown(), tally.utilisation().map(f64::to_bits))
}

// Is a queue that all share a serial resource: however many workers there are, no more goes through it than one after the
// other? Each request is a push and a pop, with one other worker waiting for each at least.
#[test]
fn a_shared_queue_bounds_the_throughput_however_many_workers_there_are() {
    let workload = workload("fixed:100ns");
    let overheads = Overheads { serial: Nanos::from_micros(1), ..Overheads::NONE };
    for workers in [4, 64, 1_024] {
        let policy = Fit::new(&workload, workers, 0.9).policy(named("global")).policy();
        let load = 1e6 / workload.rate_at(1.0, workers, 1);
        let tally =
            simulate(&Setup::with_overheads(policy, overheads), offer(&workload, load, workers).arrivals(workers));
        let per_second = tally.fates().answered as f64 / tally.ended_at().as_secs_f64();
        assert!((per_second / 500e3 - 1.0).abs() < 0.05, "{workers} workers: {per_second}");
    }
}

// Is what others at the same place cost added for each of them? Method: as above, where every worker waits at the queue.
#[test]
fn each_worker_at_a_queue_makes_the_others_slower() {
    let workload = workload("fixed:100ns");
    let overheads = Overheads { serial: Nanos::new(500), contend: Nanos::new(100), ..Overheads::NONE };
    for workers in [2, 6, 11] {
        let policy = Fit::new(&workload, workers, 0.9).policy(named("global")).policy();
        let load = 3e6 / workload.rate_at(1.0, workers, 1);
        let tally =
            simulate(&Setup::with_overheads(policy, overheads), offer(&workload, load, workers).arrivals(workers));
        let per_second = tally.fates().answered as f64 / tally.ended_at().as_secs_f64();
        let bound = 1e9 / (2.0 * (500.0 + 100.0 * (workers as f64 - 1.0)));
        assert!((0.95..1.3).contains(&(per_second / bound)), "{workers} workers: {per_second}, and {bound}");
    }
}

// Do workers that meet no other pay what they paid without contention, to the bit: one alone, and those that serve their
// own sockets only?
#[test]
fn what_is_not_shared_costs_what_it_did() {
    let workload = workload("bimodal:0.9:2us:100us");
    let dear = Overheads { serial: Nanos::from_micros(2), contend: Nanos::from_micros(1), ..Overheads::STOCK };
    let both = |policy: &Policy, workers, overheads: Overheads| {
        [overheads, overheads.without_contention()].map(|overheads| {
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

// Do workers with deques of their own stay what they are at a low load?
#[test]
fn stealing_at_a_low_load_is_hardly_slower_with_contention() {
    let workload = workload("extreme-bimodal").with_time_beside(Overheads::STOCK.per_request());
    let policy = Fit::new(&workload, 14, 0.3).policy(named("steal")).policy();
    let [with, without] = [Overheads::STOCK, Overheads::STOCK.without_contention()].map(|overheads| {
        simulate(&Setup::with_overheads(policy.clone(), overheads), offer(&workload, 0.3, 14).arrivals(14))
    });
    let ratio = with.slowdown_mean(None) / without.slowdown_mean(None);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
    assert!(with.contention() > Some(0.0) && with.contention() < Some(0.001), "{:?}", with.contention());
    assert_eq!(without.contention(), Some(0.0));
}

// Does only a worker that has slept put its socket into the set of all? Method: two get a request each at the same moment,
// and either both have slept or both have looked all the while.
#[test]
fn a_worker_that_has_not_slept_meets_no_other_at_the_watch_set() {
    let us = Nanos::from_micros;
    let policy = Fit::new(&workload("fixed:10us"), 2, 0.5).policy(named("steal")).policy();
    let overheads = Overheads { serial: us(1), ..Overheads::NONE };
    let sleeps = Rest::Sleeps { spin_for: Nanos::ZERO, nap_min: us(1_000) };
    for (rest, latency) in [(Rest::Looks, Nanos::new(10_000)), (sleeps, Nanos::new(10_500))] {
        let setup = Setup { rest, overheads, ..Setup::ideal(policy.clone()) };
        let requests = [0, 1].map(|socket| ArrivingRequest { socket, ..arriving(1, 10, 0) });
        assert_eq!(simulate(&setup, requests.into_iter()).latency_mean(None), latency, "{rest:?}");
    }
}

// Is a worker busy for as long as its steps take, and what others cost it part of that?
#[test]
fn utilisation_is_the_share_of_time_that_steps_take() {
    let workload = workload("fixed:10us");
    let overheads = Overheads { send: Nanos::from_micros(10), ..Overheads::NONE };
    let policy = Fit::new(&workload, 4, 0.3).policy(named("isolated")).policy();
    let tally = simulate(&Setup::with_overheads(policy, overheads), offer(&workload, 0.3, 4).arrivals(4));
    let busy = tally.utilisation().expect("workers");
    let exact = tally.fates().answered as f64 * 20e-6 / (4.0 * tally.ended_at().as_secs_f64());
    assert!((busy / exact - 1.0).abs() < 1e-6 && (busy - 0.6).abs() < 0.02, "{busy}, and {exact}");
    assert_eq!(Reference::Srpt.simulate(4, offer(&workload, 0.3, 4).arrivals(4)).utilisation(), None);
}

/// The share of the requests of a span (in microseconds) that was answered, and the longest that any of these took.
fn answered(setup: &Setup, requests: &[ArrivingRequest], [since, until]: [u64; 2]) -> (f64, Nanos) {
    let counted = |request: &ArrivingRequest| (since..until).contains(&(request.at.get() / 1_000));
    let of_span = requests.iter().filter(|request| counted(request)).count() as f64;
    let incoming = requests.iter().map(|request| ArrivingRequest { counts: counted(request), ..*request });
    let latency = simulate(setup, incoming).latency_us().swap_remove(0).1;
    let longest = latency.p99_99.or(latency.p99).or(latency.p50).map_or(Nanos::MAX, |us| Nanos::new((us * 1e3) as u64));
    (latency.count as f64 / of_span, longest)
}

// Does virtual time shed as the server does: at twice the load nearly all that can be served is, and soon, and with the
// end of the overload it is over, where without bounds requests go on waiting?
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
    for policy in ["isolated", "global", "steal", "hybrid", "ondemand"] {
        let fit = Fit { slice: Nanos::from_millis(1), ..Fit::new(&service, 2, 0.9) };
        let limits = Limits { socket_capacity: 10_000, ..Limits::SERVER };
        let off = Setup { limits, ..Setup::ideal(fit.policy(named(policy)).policy()) };
        let auto = off.clone().with_max_wait(MaxWait::Auto, &times);
        let (share, _) = answered(&auto, &requests, overload);
        assert!((0.47..0.53).contains(&share), "{policy}: {share} of twice the load");
        let (share, longest) = answered(&auto, &requests, afterwards);
        assert!(share > 0.98 && longest < Nanos::from_millis(11), "{policy}: {share} afterwards, {longest}");
        let (share, longest) = answered(&off, &requests, afterwards);
        assert!(share == 1.0 && longest > Nanos::from_millis(500), "{policy}: {share} without bounds, {longest}");
    }
}

// Is no more begun than can be finished where every request is interrupted before its end, also where first slices alone
// would take more than there is, and are light ones still served where some are not? Without the look at the backlog 40 %
// of the capacity is answered at five times the load.
#[test]
fn what_is_begun_is_finished_in_an_overload() {
    for (service, load, least) in
        [("fixed:500us", 5.0, 0.95), ("fixed:500us", 15.0, 0.4), ("bimodal:0.9:10us:5ms", 5.0, 0.0)]
    {
        let service = workload(service);
        let times = Fit::new(&service, 2, 0.9).times;
        let requests: Vec<ArrivingRequest> = offer(&service, load, 2).arrivals(2).take(20_000).collect();
        let end_us = requests.last().expect("requests").at.get() / 1_000;
        for policy in ["hybrid", "ondemand"] {
            let fit = Fit { slice: Nanos::from_micros(50), ..Fit::new(&service, 2, 0.9) };
            let setup = Setup::ideal(fit.policy(named(policy)).policy()).with_max_wait(MaxWait::Auto, &times);
            let (share, _) = answered(&setup, &requests, [end_us / 2, end_us]);
            assert!(share * load > least, "{policy}: {share} of {load} times the load");
            let light = simulate(&setup, requests.iter().copied()).latency_us()[1].1.count;
            let came = requests.iter().filter(|request| request.class == 0 && request.counts).count();
            assert!(least > 0.0 || light as f64 > 0.99 * came as f64, "{policy}: {light} light ones of {came}");
        }
    }
}
