//! Does an emulated core pay for its steps what the simulator says? Method: one burst for one
//! worker, also in virtual time. An early reply is an error; a late one only if all of sixty trials
//! are late, because a busy machine delays threads.

use forebay::inside::emulation::overheads::Overheads;
use loadgen::lab::sim::{ArrivingRequest, Fit, Limits, Setup, simulate};
use loadgen::lab::workload::Workload;
use support::alone;
use support::prelude::*;

/// A microsecond of the table lasts a tenth of a millisecond.
const SCALE: u64 = 100;
const TRIALS: usize = 5;
/// Where one that is on time is enough.
const TRIALS_MAX: usize = 60;
/// No thread is early by chance, so that few trials show a reply before its time.
const TRIALS_MIN: usize = 2;
const SLICE: Nanos = Nanos::from_micros(40);

/// Costs of a burst, unscaled.
fn burst(light: usize, heavy: usize) -> Vec<Nanos> {
    let costs = std::iter::repeat_n(Nanos::from_micros(20), light);
    costs.chain(std::iter::repeat_n(Nanos::from_micros(200), heavy)).collect()
}

fn server(policy: &str, overheads: &str) -> Running {
    emulated(SCALE, &[("slice", "40us"), ("workers", "1"), ("policy", policy), ("overheads", overheads)])
}

/// From the first send to the last reply of `costs` on `server`, unscaled.
fn served(server: &Running, costs: &[Nanos]) -> Nanos {
    let client = Client::new(server.udp);
    let start = clock::now();
    for (id, cost) in costs.iter().enumerate() {
        client.send(&message(&Header::request(id as u64, 0, cost.times(SCALE)), b""));
    }
    for _ in costs {
        let header = client.receive().header;
        assert_eq!(header.status, Status::Ok);
    }
    Nanos::new(clock::now().minus(start).get() / SCALE)
}

/// The same in virtual time, in batches of at most `batch`, where nothing is measured either.
fn simulated(policy: &str, overheads: &str, costs: &[Nanos], batch: usize) -> Nanos {
    let (workload, overheads): (Workload, Overheads) =
        ("fixed:1us".parse().expect("a form"), overheads.parse().expect("overheads"));
    let fit = Fit::new(&workload, 1, 0.5).tuned(|tuning| tuning.budget = SLICE);
    let limits = Limits { batch, ..Limits::SERVER };
    let setup = Setup { limits, ..Setup::with_overheads(fit.tuning.policy(policy), overheads) };
    let arrivals = costs.iter().map(|cost| ArrivingRequest::new(Nanos::ZERO, *cost));
    let latency = simulate(&setup, arrivals).latency_us();
    Nanos::new((latency[0].1.max.expect("all are answered") * 1e3) as u64)
}

/// Compares a burst with virtual time; returns the latter. Each trial has a server of its own,
/// which has measured nothing: it would follow that after a second.
fn assert_as_simulated(policy: &str, overheads: &str, costs: &[Nanos]) -> Nanos {
    let fresh = || {
        let server = server(policy, overheads);
        // The first one waits until the server runs.
        served(&server, &costs[..1]);
        served(&server, costs)
    };
    let simulated = simulated(policy, overheads, costs, Limits::SERVER.batch);
    let (mut times, allowed) = (Vec::new(), Nanos::new(simulated.get() / 20));
    let on_time = |times: &[Nanos]| times.iter().any(|time| *time <= simulated.plus(allowed));
    while times.len() < TRIALS_MIN || times.len() < TRIALS_MAX && !on_time(&times) {
        times.push(fresh());
    }
    let case = format!("{policy} with {overheads}: {times:?}, and {simulated} in virtual time");
    assert!(times.iter().all(|time| time.plus(allowed) >= simulated), "too early: {case}");
    assert!(on_time(&times), "too late: {case}");
    simulated
}

// Is the whole way of a request paid for? 30 requests at once end cost, receive and send apart.
#[test]
fn a_burst_pays_for_each_datagram() {
    let _alone = alone();
    let costs = burst(30, 0);
    for (overheads, each) in [("none", 20), ("receive=20us,send=30us", 70), ("send=60us", 80), ("receive=60us", 80)] {
        let (expected, simulated) = (30 * each, assert_as_simulated("isolated", overheads, &costs).get() / 1_000);
        assert!(simulated.abs_diff(expected) <= expected / 100, "{overheads}: {expected} us, and {simulated} in all");
    }
}

#[test]
fn steps_beside_the_work_are_paid_for() {
    let _alone = alone();
    let costs = burst(10, 3);
    for policy in ["isolated", "global", "levels"] {
        let free = assert_as_simulated(policy, "none", &costs);
        let all = "yield=40us,receive=2us,send=10us,look=3us,notice=9us,checkpoint=200ns";
        assert!(assert_as_simulated(policy, all, &costs) > free, "{policy}");
    }
}

// Method: each request comes 20 ms after a reply. The core pays for one empty receive, of 100 ms at
// this scale, and then serves. Late threads make single trials longer or shorter, so the median
// counts.
#[test]
fn a_search_in_vain_is_paid_for_once() {
    let _alone = alone();
    let server = server("isolated", "none,poll=1ms");
    let due = Nanos::from_micros(1_020);
    let median = |times: &mut Vec<Nanos>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let is_due = |time: Nanos| (due.get() * 9 / 10..=due.get() * 11 / 10).contains(&time.get());
    let mut times = Vec::new();
    while times.len() < TRIALS || times.len() < TRIALS_MAX && !is_due(median(&mut times)) {
        served(&server, &burst(1, 0));
        let replied = clock::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        served(&server, &burst(1, 0));
        times.push(Nanos::new(clock::now().minus(replied).get() / SCALE));
    }
    assert!(is_due(median(&mut times)), "{due} after the last reply, and not {times:?}");
}

// Method: one heavy request of 2 s pauses every millisecond. Between two looks 33 times the CPU
// time of one passes: 33 ms. A thread that is late by less than that misses none.
#[test]
fn every_look_within_a_slice_is_paid_for() {
    let _alone = alone();
    let settings = [("slice", "40us"), ("workers", "1"), ("policy", "levels"), ("notices", "looks")];
    let server = emulated(1_000, &[&settings[..], &[("overheads", "look=1us,send=1us")]].concat());
    let charged = || latency(server.admin)["emulation"]["charged_us"].as_f64().expect("a figure");
    let client = Client::new(server.udp);
    let mut looks = Vec::new();
    let is_due = |looks: &f64| *looks >= 54.0;
    while looks.len() < TRIALS_MIN || looks.len() < TRIALS_MAX && !looks.iter().any(is_due) {
        let before = charged();
        client.send(&message(&Header::request(looks.len() as u64, 0, Nanos::from_secs(2)), b""));
        assert_eq!(client.receive().header.status, Status::Ok);
        // The send costs 1 ms, and so does each look.
        looks.push((charged() - before) / 1_000.0 - 1.0);
    }
    assert!(looks.iter().any(is_due) && looks.iter().all(|looks| *looks <= 64.0), "{looks:?} looks in 2 s");
}

/// The hops that a burst is charged for, and of how many requests each of two workers runs. Two
/// long requests keep the workers busy meanwhile, so that one of them receives the whole burst.
fn hops(server: &Running, costs: &[Nanos]) -> (f64, [usize; 2]) {
    let charged = || latency(server.admin)["emulation"]["charged_us"].as_f64().expect("a figure") / SCALE as f64;
    let (before, client) = (charged(), Client::new(server.udp));
    let long = [Nanos::from_micros(300); 2];
    for (id, cost) in long.iter().chain(costs).enumerate() {
        client.send(&message(&Header::request(id as u64, 0, cost.times(SCALE)), b""));
    }
    let mut ran = [0; 2];
    for _ in 0..long.len() + costs.len() {
        let header = client.receive().header;
        assert_eq!(header.status, Status::Ok);
        if header.id >= long.len() as u64 {
            ran[usize::from(header.served.worker)] += 1;
        }
    }
    ((charged() - before).round(), ran)
}

// Method: one of two workers receives a burst of 32, and each runs about half. So the hops are as
// many as the requests that the other one runs, and perhaps that of a long one. On a busy machine
// one of them may run nearly all, but not each time. One worker alone takes only what it has
// received.
#[test]
fn what_another_core_held_is_paid_for() {
    let _alone = alone();
    let costs = burst(32, 0);
    let one = server("global", "hop=1us");
    for _ in 0..TRIALS {
        assert_eq!(hops(&one, &costs).0, 0.0, "one worker");
    }
    let two = emulated(SCALE, &[("workers", "2"), ("policy", "global"), ("overheads", "hop=1us")]);
    let mut seen = Vec::new();
    let is_due = |(hops, ran): &(f64, [usize; 2])| {
        let [least, most] = [ran[0].min(ran[1]), ran[0].max(ran[1])];
        least >= 12 && (least as f64..=most as f64 + 1.0).contains(hops)
    };
    while seen.len() < TRIALS || seen.len() < TRIALS_MAX && !seen.iter().any(is_due) {
        seen.push(hops(&two, &costs));
    }
    assert!(seen.iter().any(is_due) && seen.iter().all(|(hops, _)| *hops <= 34.0), "hops, requests of each: {seen:?}");
}

#[test]
fn a_core_that_slept_pays_for_its_wake() {
    let _alone = alone();
    let (cost, wake) = (Nanos::from_micros(20), Nanos::from_micros(300));
    let server = server("steal", "wake=300us,receive=5us,send=5us");
    // The first one waits until the server runs.
    served(&server, &[cost]);
    let due = cost.plus(wake).plus(Nanos::from_micros(10));
    let is_due = |took: &Nanos| *took <= due.plus(Nanos::from_micros(15));
    let mut took = Vec::new();
    // A thread that wakes late begins late: one trial on time shows what is charged.
    while took.len() < TRIALS || took.len() < TRIALS_MAX && !took.iter().any(is_due) {
        // A real worker spins for 100 us at most, and then sleeps.
        std::thread::sleep(Nanos::from_micros(150).times(SCALE).into());
        took.push(served(&server, &[cost]));
    }
    assert!(took.iter().all(|took| *took >= due) && took.iter().any(is_due), "{due}: {took:?}");
    let service = latency(server.admin)["since_start"]["service"]["all"]["max"].as_f64().expect("a maximum");
    let scaled = cost.times(SCALE).as_micros_f64();
    assert!((service / scaled - 1.0).abs() < 0.01, "{service} us in the handler, not {scaled}");
}
