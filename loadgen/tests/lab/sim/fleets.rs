//! Do fleets do what theory says of balancers, and is one server alone what it was?

use super::*;
use forebay::inside::sched::PolicyName;
use forebay::metrics::Percentile;
use loadgen::lab::sim::{Fit, Reference};
use loadgen::lab::workload::{Shape, Workload};
use std::cell::RefCell;

const BALANCES: [&str; 5] = ["random", "flow-hash", "flow-hash:zipf=0.9", "two-choices", "jsq"];

fn balance(text: &str) -> Balance {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn workload(text: &str) -> Workload {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn offer(workload: &Workload, load: f64, workers: usize, requests: u64) -> OpenLoop<'_> {
    let rate = workload.rate_at(load, workers, 1);
    OpenLoop { workload, rate, flows: 4_096, seed: 5, deadline: Nanos::MAX, warmup: requests / 10, requests }
}

/// The result of a fleet of which none is lost, with Poisson arrivals, and the load of each server.
fn served(setup: &Setup, servers: usize, balance: &str, offer: &OpenLoop<'_>) -> (Tally, Vec<f64>) {
    let fleet = Fleet { servers, lost: 0, balance: self::balance(balance) };
    let (arrivals, tally) = (offer.by_flow(Shape::default(), fleet.balance.zipf()), RefCell::default());
    let loads = fleet.simulate_into(setup, (offer.flows, offer.seed), arrivals, &tally);
    (tally.into_inner(), loads)
}

/// A server without overheads.
fn ideal(policy: &str, workload: &Workload, workers: usize) -> Setup {
    let name: PolicyName = policy.parse().expect("a policy");
    Setup::ideal(Fit::new(workload, workers, 0.7).policy(name).policy)
}

// Servers of one worker each, exponential costs: by chance each is M/M/1, whose latency is
// exponential too.
#[test]
fn by_chance_each_server_is_alone() {
    let workload = workload("exponential:10us");
    let offer = offer(&workload, 0.7, 8, 1_000_000);
    let (tally, loads) = served(&ideal("isolated", &workload, 1), 8, "random", &offer);
    let latency = &tally.latency_us()[0].1;
    for (percentile, above) in [(Percentile::P50, 0.5_f64), (Percentile::P99, 0.01), (Percentile::P99_9, 0.001)] {
        let (exact, found) = (-above.ln() * 10.0 / 0.3, latency.percentile(percentile).expect("answered"));
        assert!((found / exact - 1.0).abs() < 0.04, "{percentile}: {found} us, exact {exact}");
    }
    assert!(loads.iter().all(|load| (load / 0.7 - 1.0).abs() < 0.02), "{loads:?}");
}

// A mean latency of the sum of load^(2^i - 2) services (Mitzenmacher 1996; Vvedenskaya et al.
// 1996).
#[test]
fn two_choices_are_as_good_as_published() {
    let workload = workload("exponential:10us");
    let mean = |load: f64, balance| {
        let offer = offer(&workload, load, 64, 300_000);
        served(&ideal("isolated", &workload, 1), 64, balance, &offer).0.latency_mean(None).as_micros_f64()
    };
    for load in [0.5, 0.9] {
        let exact: f64 = 10.0 * (1..8).map(|i| f64::powi(load, (1 << i) - 2)).sum::<f64>();
        let found = mean(load, "two-choices");
        assert!((found / exact - 1.0).abs() < 0.03, "at {load}: {found} us, published {exact}");
        let [random, jsq] = ["random", "jsq"].map(|balance| mean(load, balance));
        assert!(random > 1.4 * found && jsq < 0.8 * found, "at {load}: {random}, {found}, {jsq}");
    }
}

#[test]
fn the_shortest_queue_is_that_of_the_reference() {
    let workload = workload("exponential:10us");
    let offer = offer(&workload, 0.9, 8, 1_000_000);
    let fleet = served(&ideal("isolated", &workload, 1), 8, "jsq", &offer).0;
    let reference = Reference::JoinShortestQueue.simulate(8, offer.arrivals(8));
    for percentile in [Percentile::P50, Percentile::P99, Percentile::P99_9] {
        let [one, other] = [&fleet, &reference].map(|tally| tally.latency_us()[0].1.percentile(percentile).unwrap());
        assert!((one / other - 1.0).abs() < 0.03, "{percentile}: {one} and {other}");
    }
}

#[test]
fn lost_servers_leave_their_load_to_others() {
    let workload = workload("fixed:10us");
    let offer = offer(&workload, 0.3, 16, 200_000);
    let setup = ideal("steal", &workload, 2);
    for text in BALANCES {
        for lost in [0, 2] {
            let fleet = Fleet { servers: 8, lost, balance: balance(text) };
            let arrivals = offer.by_flow(Shape::default(), fleet.balance.zipf());
            let loads = fleet.simulate_into(&setup, (offer.flows, offer.seed), arrivals, &RefCell::default());
            let sum: f64 = loads.iter().sum();
            assert!(loads.len() == 8 - lost && (sum / (0.3 * 8.0) - 1.0).abs() < 0.01, "{text}: {sum}");
            let expected = fleet.balance.busiest_share(8 - lost, offer.flows, offer.seed) * 0.3 * 8.0;
            let busiest = loads.into_iter().fold(0.0, f64::max);
            assert!((busiest / expected - 1.0).abs() < 0.03, "{text}: {busiest} for {expected}");
        }
    }
}
