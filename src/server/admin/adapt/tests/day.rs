//! Are the decisions of `auto` over a day those in `tests/golden/auto.txt`, one per line? Method: a
//! day of 24 minutes, one per hour, with a load curve, shifts of the mix, bursts, an overload and
//! silence.

use super::*;
use std::fmt::Write as _;
use support::golden::assert_golden;

const HOUR: usize = 60;
const WORKERS: u64 = 4;

/// Requests per second in an hour: many by day, few by night.
fn rate(hour: usize) -> u64 {
    [100, 50, 50, 50, 50, 100, 200, 300, 450, 500, 500, 500][if hour < 12 { hour } else { 23 - hour }]
}

/// The requests served in this second of the day, and how long each one waits.
fn served(hour: usize, second: usize) -> (Vec<(Mix, u64)>, Nanos) {
    let usual = rate(hour);
    let (mixes, queue_us) = match hour {
        // No requests for half a minute.
        3 if second < 30 => (vec![], 0),
        6 | 7 => (vec![(ALIKE, usual)], 5),
        // Heavy requests come and go.
        9 if second % 10 < 2 => (vec![(ALIKE, usual), (LIGHT_AND_HEAVY, usual / 4)], 50),
        9 => (vec![(ALIKE, usual)], 5),
        10 => (vec![(LONGER, usual)], 500),
        // Bursts of four times the rate.
        12 if second.is_multiple_of(6) => (vec![(LIGHT_AND_HEAVY, usual * 4)], 200),
        // More work than four workers can do, with the resulting wait.
        14 => (vec![(HEAVIEST, usual)], 20_000 * (second as u64 + 1)),
        16 if second < 30 => (vec![(TWICE_AS_LONG, usual)], 10),
        16 => (vec![(ALIKE, usual)], 10),
        _ => (vec![(LIGHT_AND_HEAVY, usual)], 20),
    };
    (mixes, Nanos::from_micros(queue_us))
}

/// At five hundred requests a second, this mix would keep eight workers busy.
const HEAVIEST: Mix = &[(200_000, 60), (40_000_000, 40)];

/// The decisions of a day under these settings, one line each.
fn decisions(settings: &[(&str, &str)]) -> String {
    let workers = WORKERS.to_string();
    // Emulated cores have fixed costs; real ones would be measured.
    let common = [("workers", workers.as_str()), ("burn", "sleep"), ("time-scale", "1"), ("overheads", "stock")];
    let metrics = WorkerMetrics::new(1);
    let mut server = Measuring::new(&metrics, &config(&[&common[..], settings].concat()));
    let mut lines = format!("# {settings:?}\n");
    let (mut shown, mut changes) = (None, 0);
    for second in 0..24 * HOUR {
        let (mixes, queue) = served(second / HOUR, second % HOUR);
        let work =
            |(mix, requests): &(Mix, u64)| mix.iter().map(|(ns, percent)| ns * percent * requests / 100).sum::<u64>();
        let busy = mixes.iter().map(work).sum::<u64>().min(WORKERS * 1_000_000_000);
        changes += usize::from(server.second(mixes, queue, Nanos::new(busy)));
        let now = &server.adaptation.made;
        let decision = (now.name.name(), now.budget);
        if shown.as_ref() != Some(&decision) {
            let time = format!("{:02}:{:02}", second / HOUR, second % HOUR);
            let _ = writeln!(lines, "{time} {} budget {:?}: {}", decision.0, decision.1, now.reason);
            shown = Some(decision);
        }
    }
    lines + &format!("{changes} changes\n\n")
}

#[test]
fn a_day_is_decided_as_before() {
    let days = [&[("policy", "auto")][..], &[("policy", "auto"), ("optimise", "latency")], &[("policy", "levels")]];
    assert_golden("auto.txt", &days.map(decisions).concat());
}

// Does a server in virtual time change its policy in the same seconds as a real one? Method: the
// requests of the day up to its overload, evenly spaced. The first table of `auto.txt` says when
// each policy is in force.
#[cfg(feature = "cli")]
#[test]
fn virtual_time_decides_as_the_server_does() {
    use forebay_sim::{Follows, Setup, simulate};

    let workers = WORKERS.to_string();
    let common = [
        ("policy", "auto"),
        ("workers", workers.as_str()),
        ("burn", "sleep"),
        ("time-scale", "1"),
        ("max-wait", "off"),
    ];
    let adaptation = adaptation(&config(&[&common[..], &[("overheads", "stock")]].concat()));
    let follows = Follows { adaptation, every: Nanos::from_secs(1) };
    let setup = Setup::ideal(follows.adaptation.made.policy.clone());
    let setup = Setup { follows: Some(follows), ..setup };
    let tally = simulate(&setup, (0..14 * HOUR).flat_map(requests));
    let mut seen = Vec::new();
    for (at, chosen) in tally.changes() {
        let second = at.as_secs_f64() as usize - 1;
        let (policy, limits) = chosen.split_at(chosen.find([',', ':']).expect("settings or a reason"));
        let budget = limits.strip_prefix(", levels from ").and_then(|limits| limits.split(',').next());
        let time = format!("{:02}:{:02}", second / HOUR, second % HOUR);
        // A decision that changes only the patience is not in the table.
        if seen.last().is_none_or(|(_, before, of_before)| (before, of_before) != (&policy, &budget)) {
            seen.push((time, policy, budget));
        }
    }
    let seen: String = seen.iter().map(|(time, policy, budget)| format!("{time} {policy} {budget:?}\n")).collect();
    let table = include_str!("../../../../../tests/golden/auto.txt").lines().skip(2).take_while(|line| *line < "14:");
    let decided: String = table.map(of_table).collect();
    assert!(decided.lines().count() > 5, "the table has other lines");
    assert_eq!(seen, decided);
}

/// Time, policy and budget in a line of the table.
#[cfg(feature = "cli")]
fn of_table(line: &str) -> String {
    let [time, policy, _, budget] = line.splitn(5, ' ').take(4).collect::<Vec<_>>()[..] else { panic!("{line}") };
    let nanos = budget.trim_start_matches("Some(Nanos(").trim_end_matches(")):").parse().ok();
    format!("{time} {policy} {:?}\n", nanos.map(|nanos| Nanos::new(nanos).to_string()))
}

/// The requests of a second of the day, evenly spaced, in an order that mixes them.
#[cfg(feature = "cli")]
fn requests(second: usize) -> Vec<forebay_sim::ArrivingRequest> {
    let of_mix = |(mix, requests): (Mix, u64)| {
        mix.iter().flat_map(move |(ns, percent)| std::iter::repeat_n(*ns, (requests * percent / 100) as usize))
    };
    let costs: Vec<u64> = served(second / HOUR, second % HOUR).0.into_iter().flat_map(of_mix).collect();
    let apart = 1_000_000_000 / costs.len().max(1) as u64;
    let request = |number: usize| {
        let at = Nanos::from_secs(second as u64).plus(Nanos::new(number as u64 * apart));
        // A prime that divides no number of requests here, so that every request occurs once.
        let cost = Nanos::new(costs[number * 61 % costs.len()]);
        let socket = number % WORKERS as usize;
        forebay_sim::ArrivingRequest { socket, ..forebay_sim::ArrivingRequest::new(at, cost) }
    };
    (0..costs.len()).map(request).collect()
}
