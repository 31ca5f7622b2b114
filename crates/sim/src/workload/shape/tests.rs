//! Does each shape keep the rate, repeat by its seed, and vary as its process should?

use super::*;
use crate::workload::{Arrival, Arrivals, Workload};
use std::io::Write;

const REQUESTS: usize = 400_000;
const RATE: f64 = 1e6;

fn shape(text: &str) -> Shape {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn arrivals(shape: &Shape) -> Vec<Arrival> {
    let workload: Workload = "bimodal:0.9:1us:50us".parse().expect("a form");
    Arrivals::new(&workload, RATE, 16, 7).shaped(shape.clone()).take(REQUESTS).collect()
}

/// The index of dispersion of counts (variance over mean) in windows of this many microseconds.
fn dispersion(arrivals: &[Arrival], window: u64) -> f64 {
    let last = arrivals.last().expect("arrivals").at.get() / 1_000 / window;
    let mut counts = vec![0.0_f64; last as usize];
    arrivals.iter().for_each(|one| {
        counts.get_mut((one.at.get() / 1_000 / window) as usize).into_iter().for_each(|count| *count += 1.0);
    });
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
}

// Does each shape have the requested rate, and the costs and flows of Poisson arrivals? A count of
// 400,000 has a standard error of at most sqrt(11 / 400,000) = .5 % here.
#[test]
fn each_shape_keeps_rate_costs_and_flows_and_repeats() {
    let plain = arrivals(&Shape::default());
    for text in
        ["constant", "gamma:3", "bursts:1.5:40us:40us", "bursts:3:10us:20us", "steps:1@1ms,3@500us,0@2ms", "day:1:10ms"]
    {
        let shape = shape(text);
        let drawn = arrivals(&shape);
        assert_eq!(shape.to_string(), text);
        assert_eq!(drawn, arrivals(&shape), "{text} by its seed");
        let seconds = drawn.last().expect("arrivals").at.as_secs_f64();
        assert!((REQUESTS as f64 / seconds / RATE - 1.0).abs() < 0.02, "{text}: {REQUESTS} in {seconds} s");
        assert!(drawn.is_sorted_by_key(|one| one.at), "{text}");
        assert!(drawn.iter().zip(&plain).all(|(one, other)| *one == Arrival { at: one.at, ..*other }), "{text}");
    }
}

// Do gaps have the requested coefficient of variation? This many gaps show it to within some
// percent.
#[test]
fn gaps_have_their_coefficient_of_variation() {
    for (text, expected) in [("constant", 0.0), ("gamma:0.3", 0.3), ("gamma:2", 2.0), ("poisson", 1.0)] {
        let times: Vec<f64> = arrivals(&shape(text)).iter().map(|one| one.at.get() as f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let found = variance.sqrt() / mean;
        assert!((found - expected).abs() < 0.02 * expected.max(0.1), "{text}: {found}");
    }
}

// Do counts in long windows vary as in theory? The index of dispersion is 1 + 2 rate (f1 - f2)^2
// (ON OFF)^2 / (ON + OFF)^3 (Fischer and Meier-Hellstern, 1993): 11 and 20.2. With 400 windows its
// standard error is 7 %. Windows of 1 ms make it 4 % too low.
#[test]
fn bursts_vary_the_rate_as_their_process_does() {
    for (text, expected) in [("poisson", 1.0), ("bursts:1.5:40us:40us", 11.0), ("bursts:2.2:20us:40us", 20.2)] {
        let found = dispersion(&arrivals(&shape(text)), 1_000);
        assert!((found / expected - 1.0).abs() < 0.3, "{text}: {found}, expected {expected}");
    }
    assert!(dispersion(&arrivals(&shape("constant")), 1_000) < 0.01);
}

// Do `steps` and `day` have the rate of the present time? Method: counts in each part of a period.
#[test]
fn steps_and_days_follow_the_clock() {
    let share = |text: &str, period: u64, from: u64, to: u64| {
        let drawn = arrivals(&shape(text));
        let within = |one: &&Arrival| (from..to).contains(&(one.at.get() / 1_000 % period));
        drawn.iter().filter(within).count() as f64 / REQUESTS as f64
    };
    // A period of 2,500 us: 1,000 us at rate 1, 500 us at rate 3, then no arrivals.
    let text = "steps:1@1ms,3@500us,0@1ms";
    assert!((share(text, 2_500, 0, 1_000) - 0.4).abs() < 0.01);
    assert_eq!(share(text, 2_500, 1_501, 2_499), 0.0);
    // The first half of a sine with swing s has the share 1/2 + s / pi.
    assert!((share("day:0.8:10ms", 10_000, 0, 5_000) - 0.7546).abs() < 0.01);
}

// Are the times of a trace stretched to the rate, kept in order, and repeated after the last?
#[test]
fn a_trace_gives_its_times_alone() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let header = "forebay-trace/1 time-scale=1000 burn=sleep workers=2 seed=1 warmup=0s workload=two";
    let lines = "1ms 1ms short 2us 0 1\n4ms 4ms long 8us 1 0\n2ms 5ms short 2us 1 0\n";
    write!(file, "{header}\n{lines}").expect("written");
    let drawn = arrivals(&shape(&format!("file:{}", file.path().display())));
    // Gaps of 1 and 2 ms, then their mean before the trace repeats. All are scaled to the rate.
    let times: Vec<u64> = drawn.iter().take(5).map(|one| one.at.get()).collect();
    assert_eq!(times, [0, 666, 2_000, 3_000, 3_666]);
}

#[test]
fn a_wrong_shape_is_refused_with_what_is_allowed() {
    for (text, why) in [
        ("", "unknown"),
        ("poisson:1ms", "unknown"),
        ("bursts:2ms", "parts are missing"),
        ("bursts:3.1:10ms:20ms", "at most 3.0000 = (ON + OFF) / ON"),
        ("bursts:0:10ms:20ms", "above 0"),
        ("bursts:2:999ns:1ms", "`999ns` must be a time from 1us to 3600s"),
        ("bursts:nan:1ms:1ms", "FACTOR is `nan`"),
        ("gamma:0", "CV is `0`, and must be a number from 0.01 to 10"),
        ("steps:1@1ms,2", "`2` is no RATE@TIME"),
        ("steps:0@1ms", "one of them above 0"),
        ("day:1.1:1h", "SWING is `1.1`"),
        ("file:/nowhere/trace", "it cannot be read"),
    ] {
        let error = text.parse::<Shape>().expect_err(text);
        assert!(error.contains(why) && error.contains("bursts:FACTOR:ON:OFF"), "{text}: {error}");
    }
}
