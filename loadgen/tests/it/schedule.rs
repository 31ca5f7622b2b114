//! Does the same seed offer the same requests? Method: a server writes down what it hears, over two processes.

use crate::support::{Server, answer, number, run};
use forebay::wire::Header;

/// Number, class, cost, deadline of each request, by number: flows may be heard in another order than they were sent in.
fn heard(flags: &str) -> Vec<(u64, u8, u64, u32)> {
    let common = "--rate 2000 --duration 500ms --warmup 100ms --percentile 90";
    let (report, heard, _) = run(Server::start(|_| answer()), &format!("{common} {flags}"));
    let mut requests: Vec<_> = heard
        .iter()
        .map(|request: &Header| (request.id, request.class, request.cost.get(), request.deadline_us))
        .collect();
    requests.sort_unstable();
    // A sixth of the time is warm-up, which `sent` leaves out.
    assert!(requests.len() as f64 > number(&report, "/sent") && requests.len() > 1_000, "{}", requests.len());
    requests
}

#[test]
fn the_same_seed_offers_the_same_requests_and_another_seed_does_not() {
    let lognormal = "--cost lognormal:20us:2 --deadline 5ms";
    let first = heard(&format!("{lognormal} --seed 7"));
    assert_eq!(first, heard(&format!("{lognormal} --seed 7")));
    assert_ne!(first, heard(&format!("{lognormal} --seed 8")));
    assert!(first.iter().all(|(.., deadline_us)| *deadline_us == 5_000));
    assert_eq!(first.last().map(|(id, ..)| *id), Some(first.len() as u64 - 1), "numbers have no gap");
}

#[test]
fn the_time_scale_multiplies_every_cost_and_nothing_else() {
    let plain = heard("--workload high-bimodal");
    let scaled = heard("--workload high-bimodal --time-scale 10");
    let expected: Vec<_> = plain.iter().map(|&(id, class, cost, deadline)| (id, class, cost * 10, deadline)).collect();
    assert_eq!(scaled, expected);
    assert!(plain.iter().all(|(_, class, cost, _)| [(0, 1_000), (1, 100_000)].contains(&(*class, *cost))));
}
