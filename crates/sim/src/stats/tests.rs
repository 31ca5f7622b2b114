//! Are intervals right for streams whose quantiles are known?

use super::*;
use forebay_metrics::Percentile;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// `exp(X)`, where X is a first-order autoregression with standard normal values. So its quantiles
/// are the `exp` of the normal quantiles.
fn autoregression(seed: u64, correlation: f64, count: usize) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let mut value = normal();
    let fresh = (1.0 - correlation * correlation).sqrt();
    (0..count)
        .map(|_| {
            value = correlation * value + fresh * normal();
            value.exp()
        })
        .collect()
}

/// Sojourn times of M/M/1 with mean service 1, from a stationary start: exponential with mean 1 /
/// (1 - load).
fn mm1(seed: u64, load: f64, count: usize) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut exponential = || -> f64 { Exp1.sample(&mut rng) };
    let mut sojourn = exponential() / (1.0 - load).abs();
    (0..count)
        .map(|_| {
            sojourn = (sojourn - exponential() / load).max(0.0) + exponential();
            sojourn
        })
        .collect()
}

fn sample(values: &[f64]) -> Sample {
    let mut batches = Batches::default();
    values.iter().for_each(|value| batches.record(0, *value));
    batches.sample(None)
}

/// The number of `runs` whose interval contains `truth`, and the number of runs with an interval.
fn held(runs: impl Iterator<Item = Sample>, share: f64, memory: Memory, truth: f64) -> (usize, usize) {
    let intervals: Vec<Interval> = runs.map(|run| run.interval(share, memory)).collect();
    let bounded = intervals.iter().filter(|interval| interval.high.is_finite() && interval.low > 0.0);
    (bounded.clone().filter(|interval| (interval.low..=interval.high).contains(&truth)).count(), bounded.count())
}

/// Do 95 % intervals contain the known quantiles of an autoregression? Each value depends strongly
/// on the one before: about 40 values tell as much as one independent value. With intervals for
/// independent values, only a quarter would contain the quantile.
#[test]
fn intervals_hold_what_an_autoregression_has() {
    for (share, normal) in [(0.5, 0.0_f64), (0.9, 1.2816), (0.99, 2.3263)] {
        let runs = (0..40).map(|seed| sample(&autoregression(seed, 0.95, 20_000)));
        let (held, bounded) = held(runs, share, Memory::UNKNOWN, normal.exp());
        assert!(bounded >= 36 && held * 100 >= 90 * bounded, "{share}: {held} of {bounded}");
    }
}

/// Do intervals contain the quantiles of M/M/1 at load .8, whose memory is known? Runs last at
/// least 312 relaxation times.
#[test]
fn intervals_hold_what_a_queue_has() {
    let memory = Memory::of_queue(0.8, 2.0);
    for (share, count) in [(0.5, 10_000), (0.9, 10_000), (0.99, 60_000)] {
        let truth = -(1.0_f64 - share).ln() / 0.2;
        let (held, bounded) = held((0..40).map(|seed| sample(&mm1(seed, 0.8, count))), share, memory, truth);
        assert!(bounded >= 25 && held * 100 >= 90 * bounded, "{share}: {held} of {bounded}");
    }
}

/// Is the interval of eight batches the one computed by hand? The values are 1.05^1 to 1.05^128,
/// and 65 are from the median on. The eight batches hold 4, 12, 4, 12, 4, 13, 4 and 12 of these 65.
/// The squares of the deviations from 65 / 8 add up to 136.875. With 8 / 7 for the estimated mean,
/// and (2.3646 / 1.96)^2 by Student for eight groups, their variance is 227.69. So the median is
/// known as well as from 65 * 63 / 227.69 = 17.98 independent values. With probability 2.5 %, at
/// most 4.39 of 17.98 values are above the upper end: 31 of 128. The lower end is symmetric.
#[test]
fn eight_batches_have_the_interval_of_the_textbook() {
    let value = |rank: usize| 1.05_f64.powi(rank as i32);
    let (mut below, mut from) = (1..64, 64..129);
    let batch = |above: usize| {
        let low = below.by_ref().take(16 - above).collect::<Vec<_>>();
        low.into_iter().chain(from.by_ref().take(above)).map(value).collect::<Vec<_>>()
    };
    let eight = sample(&[4, 12, 4, 12, 4, 13, 4, 12].map(batch).concat());
    let effective = eight.effective(0.5, Memory::UNKNOWN);
    assert!((effective - 17.98).abs() < 0.01, "{effective}");
    let Interval { low, high } = eight.interval(0.5, Memory::UNKNOWN);
    // A bin is less than 0.8 % wide, and values are 5 % apart.
    assert!((0.992..=1.0).contains(&(low / value(32))), "{low}, and {}", value(32));
    assert!((1.0..1.008).contains(&(high / value(97))), "{high}, and {}", value(97));
}

/// Is a share found to be below or above a limit only if there are enough values? Of 1,000 values,
/// 2 % are 20. The probability of at most 10 is 1 %, and of at least 31 as well. Bursts need more
/// values.
#[test]
fn a_share_is_below_a_limit_or_above_it_or_unknown() {
    for beyond in [f64::INFINITY, 101.0] {
        let limit = if beyond.is_finite() { 100.0 } else { f64::MAX };
        let is_below = |is_beyond: &dyn Fn(usize) -> bool, memory| {
            let value = |at: usize| if is_beyond(at) { beyond } else { 1.0 + (at % 7) as f64 };
            sample(&(0..1_000).map(value).collect::<Vec<_>>()).is_below(limit, 0.02, memory)
        };
        let spread = |count: usize, memory| is_below(&|at| at * count / 1_000 != (at + 1) * count / 1_000, memory);
        let unknown = Memory::UNKNOWN;
        assert_eq!([0, 10, 20, 31].map(|count| spread(count, unknown)), [Some(true), Some(true), None, Some(false)]);
        assert_eq!(is_below(&|at| (300..331).contains(&at), unknown), None);
        let overload = Memory::of_queue(1.0, 1.0);
        assert_eq!([0, 31].map(|count| spread(count, overload)), [None, Some(false)], "good figures of an overload");
    }
    assert_eq!(sample(&[1.0; 100]).is_below(2.0, 0.02, Memory::UNKNOWN), None, "two are expected");
    assert_eq!(Batches::default().sample(None).is_below(2.0, 0.02, Memory::UNKNOWN), None);
}

/// Is the interval unknown, and not narrow, if a run is too short for its queue or for the
/// percentile?
#[test]
fn short_runs_tell_nothing() {
    let values = mm1(1, 0.9, 3_000);
    assert_eq!(sample(&values).interval(0.5, Memory::of_queue(0.9, 2.0)), Interval::UNKNOWN);
    assert_eq!(sample(&values).interval(0.5, Memory::of_queue(1.0, 1.0)), Interval::UNKNOWN);
    assert_eq!(sample(&values).interval(0.999, Memory::UNKNOWN).high, f64::INFINITY);
    let nothing = Batches::default().sample(None);
    assert_eq!(nothing.interval(0.5, Memory::UNKNOWN), Interval::UNKNOWN);
    assert!(!nothing.drifts(0.01) && !nothing.grows(), "nothing ends the program");
}

/// Does a run with a growing backlog drift, and at most two of 100 stationary runs?
#[test]
fn what_grows_drifts() {
    let drifting = (0..20).filter(|seed| sample(&mm1(*seed, 1.1, 20_000)).drifts(0.5)).count();
    assert!(drifting >= 18, "{drifting} of 20");
    let stationary = (0..100).filter(|seed| sample(&autoregression(*seed, 0.9, 5_000)).drifts(0.9)).count();
    assert!(stationary <= 2, "{stationary} of 100");
    // A run that drifts has no interval, but still a `seen` one.
    let fresh = autoregression(1, 0.0, 20_000).into_iter().enumerate();
    let grown = sample(&fresh.map(|(at, value)| if at < 10_000 { value } else { 1.5 * value }).collect::<Vec<_>>());
    assert!(grown.drifts(0.5) && grown.seen(0.5, Memory::UNKNOWN).high.is_finite());
    assert_eq!(grown.interval(0.5, Memory::UNKNOWN), Interval::UNKNOWN);
}

/// Are all values kept, by class and together, infinite ones included, in a bounded number of
/// batches?
#[test]
fn batches_keep_every_value_in_bounded_memory() {
    let mut batches = Batches::default();
    for number in 0..100_000_u32 {
        batches.record((number % 4 == 0).into(), f64::from(number % 1_000 + 1));
    }
    batches.record(1, f64::INFINITY);
    let [all, first, second] = [None, Some(0), Some(1)].map(|class| batches.sample(class));
    assert_eq!((all.count(), first.count(), second.count()), (100_001, 75_000, 25_001));
    assert!((all.quantile(0.5) / 500.0 - 1.0).abs() < 0.01 && all.quantile(1.0).is_infinite());
    assert!((64..=128).contains(&all.batches.len()), "{}", all.batches.len());
}

/// Student's factor for two degrees of freedom is 4.3027.
#[test]
fn runs_have_the_interval_of_the_textbook() {
    let Interval { low, high } = of_runs(&[2.0, 4.0, 8.0]);
    let reach = (4.3027 * 2.0_f64.ln() / 3.0_f64.sqrt()).exp();
    assert!((low * reach / 4.0 - 1.0).abs() < 1e-4 && (high / reach / 4.0 - 1.0).abs() < 1e-4, "{low} to {high}");
    assert_eq!(of_runs(&[2.0, 2.0]), Interval { low: 2.0_f64.ln().exp(), high: 2.0_f64.ln().exp() });
    for unknown in [&[][..], &[2.0], &[2.0, 0.0], &[2.0, f64::INFINITY], &[2.0, f64::NAN]] {
        assert_eq!(of_runs(unknown), Interval::UNKNOWN);
    }
}

/// Does the joined sample have the values of several runs?
#[test]
fn runs_are_joined() {
    let runs: Vec<Sample> = (0..5).map(|seed| sample(&autoregression(seed, 0.9, 20_000))).collect();
    let joined = Sample::joined(&runs);
    let width =
        |sample: &Sample| sample.interval(0.99, Memory::UNKNOWN).high / sample.interval(0.99, Memory::UNKNOWN).low;
    assert_eq!(joined.count(), 100_000);
    assert!(width(&joined) < width(&runs[0]), "{} and {}", width(&joined), width(&runs[0]));
}

// Do the widths of intervals decide what is known, and never the number of values? Method: the same
// 40,000 values in two orders.
#[test]
fn the_width_decides_and_not_the_count() {
    let mixed: Vec<f64> = (0..40_000_u32).map(|number| f64::from(number * 7_919 % 1_000 + 1_000)).collect();
    let mut clustered = mixed.clone();
    // Rare slow episodes: the highest values come together, in four stretches.
    let mut slow = clustered.iter_mut().enumerate().filter(|(place, _)| place % 10_000 < 200);
    slow.by_ref().for_each(|(_, value)| *value *= 50.0);
    let supported = |values: &[f64]| {
        let mut batches = Batches::default();
        values.iter().for_each(|value| batches.record(0, *value));
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Block::from_sorted(&sorted).bounded(batches.sample(None).bounds(Memory::UNKNOWN))
    };
    let (mixed, clustered) = (supported(&mixed), supported(&clustered));
    assert_eq!((mixed.count, mixed.supported), (clustered.count, Some(Percentile::P99_95)));
    assert!(!clustered.supports(Percentile::P99) && clustered.supports(Percentile::P50), "{clustered:?}");
    #[cfg(feature = "json")]
    {
        let text = serde_json::to_string(&mixed).expect("serializes");
        assert!(text.contains(r#""bounds":{"p50":[14"#) && text.contains(r#","supported":"p99_95"#), "{text}");
    }
}
