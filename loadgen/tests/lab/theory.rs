//! Does virtual time reproduce queueing theory? Method: means of simulated runs against formulas,
//! within 1.5 %, which is about twice the standard error. `tails` does the same for p99.9.

mod tails;

use forebay::inside::sched::Tuning;
use forebay::time::Nanos;
use loadgen::lab::sim::{ArrivingRequest, Reference, Setup, Tally, simulate};
use loadgen::lab::workload::{Arrivals, Workload};

const WORKERS: [usize; 4] = [1, 3, 14, 64];
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];
const MEAN_NS: f64 = 10_000.0;
const SEED: u64 = 5;
const WITHIN: f64 = 0.015;

/// Requests of `workload`; each flow is one in `flows`, and `place` makes class and socket of it.
fn arrivals(
    workload: &Workload,
    load: f64,
    workers: usize,
    flows: u16,
    requests: usize,
    place: impl Fn(u16, u8) -> (usize, u8),
) -> impl Iterator<Item = ArrivingRequest> {
    let rate = workload.rate_at(load, workers, 1);
    let warmup = requests / 20;
    Arrivals::new(workload, rate, flows, SEED).take(requests + warmup).enumerate().map(move |(number, arrival)| {
        let (socket, class) = place(arrival.flow, arrival.class);
        ArrivingRequest { class, socket, counts: number >= warmup, ..ArrivingRequest::new(arrival.at, arrival.cost) }
    })
}

fn workload(text: &str) -> Workload {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// One queue for all workers.
fn shared_queue(text: &str, load: f64, workers: usize, requests: usize) -> Tally {
    queues("global", text, load, workers, requests)
}

/// A queue for each worker, every request at any with the same probability.
fn own_queues(text: &str, load: f64, workers: usize, requests: usize) -> Tally {
    queues("isolated", text, load, workers, requests)
}

fn queues(policy: &str, text: &str, load: f64, workers: usize, requests: usize) -> Tally {
    let workload = workload(text);
    let place = |flow, class| (usize::from(flow), class);
    let incoming = arrivals(&workload, load, workers, workers as u16, requests, place);
    simulate(&Setup::ideal(Tuning::new(workers, Nanos::from_micros(10)).policy(policy)), incoming)
}

/// Every number of workers at every load.
fn cases() -> impl Iterator<Item = (usize, f64)> {
    WORKERS.into_iter().flat_map(|workers| LOADS.map(|load| (workers, load)))
}

fn assert_near(what: &str, measured: f64, expected: f64, within: f64) {
    let error = measured / expected - 1.0;
    assert!(error.abs() < within, "{what}: {measured:.4}, theory says {expected:.4} ({:+.2} %)", error * 100.0);
}

/// Mean latency in mean service times.
fn sojourn(tally: &Tally) -> f64 {
    tally.latency_mean(None).get() as f64 / MEAN_NS
}

/// The probability of having to wait (Erlang C).
fn erlang_c(workers: usize, load: f64) -> f64 {
    let offered = load * workers as f64;
    let blocked = (1..=workers).fold(1.0, |blocked, k| offered * blocked / (k as f64 + offered * blocked));
    blocked / (1.0 - load * (1.0 - blocked))
}

/// Requests for a standard error of 0.7 % or less: more at high load and with few workers.
fn requests(load: f64, workers: usize) -> usize {
    match (load > 0.85, workers) {
        (true, 1) => 6_000_000,
        (true, 3) => 3_000_000,
        (true, _) => 1_500_000,
        (false, _) => 1_000_000,
    }
}

#[test]
fn m_m_k_waits_as_erlang_says() {
    for (workers, load) in cases() {
        let tally = shared_queue("exponential:10us", load, workers, requests(load, workers));
        let wait = erlang_c(workers, load) / (workers as f64 * (1.0 - load));
        assert_near(&format!("M/M/{workers} at {load}"), sojourn(&tally), 1.0 + wait, WITHIN);
        if load == 0.8 && workers < 64 {
            // Who waits for less than a thousandth of his cost is not seen: fewer than one in a
            // hundred of those who wait.
            let waited = tally.share_slower_than(1.0);
            assert_near(&format!("P(wait) in M/M/{workers} at {load}"), waited, erlang_c(workers, load), 0.02);
        }
    }
}

#[test]
fn k_queues_are_k_times_m_m_1() {
    for (workers, load) in cases() {
        let tally = own_queues("exponential:10us", load, workers, if load > 0.85 { 6_000_000 } else { 2_000_000 });
        assert_near(&format!("{workers} x M/M/1 at {load}"), sojourn(&tally), 1.0 / (1.0 - load), WITHIN);
    }
}

#[test]
fn m_d_1_and_pollaczek_khinchine() {
    // Squared coefficients of variation: 0 and, for costs of 5 and 45 us at 7 : 1, 1.75.
    for (text, variation, at_high_load) in [("fixed:10us", 0.0, 1_500_000), ("bimodal:0.875:5us:45us", 1.75, 8_000_000)]
    {
        // Queues that share nothing; `k_queues_are_k_times_m_m_1` tries every number of them.
        for (workers, load) in cases().filter(|(workers, _)| [1, 14].contains(workers)) {
            let requests = if load > 0.85 { at_high_load } else { at_high_load / 2 };
            let tally = own_queues(text, load, workers, requests);
            let wait = load / (1.0 - load) * (1.0 + variation) / 2.0;
            assert_near(&format!("{text}, {workers} workers at {load}"), sojourn(&tally), 1.0 + wait, WITHIN);
        }
    }
}

#[test]
fn priorities_wait_as_cobham_says() {
    let workload = workload("exponential:10us");
    for (workers, load) in cases() {
        // Those who go last vary most, at high load above all.
        let requests = if load > 0.85 { 5 } else { 2 } * requests(load, workers);
        // The flow is the class: half of the requests go first.
        let incoming = arrivals(&workload, load, workers, 2, requests, |flow, _| (0, flow as u8));
        let tally = Reference::Priority.simulate(workers, incoming);
        let residual = erlang_c(workers, load) / workers as f64;
        let first = 1.0 - load / 2.0;
        for (class, wait) in [(0, residual / first), (1, residual / (first * (1.0 - load)))] {
            let sojourn = tally.latency_mean(Some(class)).get() as f64 / MEAN_NS;
            assert_near(&format!("Cobham, {workers} workers at {load}, class {class}"), sojourn, 1.0 + wait, WITHIN);
        }
    }
}
