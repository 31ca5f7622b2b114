//! The end of the warm-up, found from the latency over time (`--find-warmup`).
//!
//! MSER-5 (White, 1997) leaves out as many first values as make the standard error of the mean
//! smallest. If about half of the values would have to go, they have not settled, and the rule
//! finds no warm-up. The values are medians of intervals, which a stall or a loss does not move.

use crate::drive::{Exchange, schedule};
use crate::plan::Plan;
use crate::report::seen::seen;
use forebay::time::Nanos;

/// Intervals of the measured time.
const INTERVALS: u64 = 200;
/// Errors up to this multiple of the least error count as equal to it.
const ABOUT: f64 = 1.1;
/// MSER-5 takes the means of this many neighbours.
const NEIGHBOURS: usize = 5;

/// `plan` with the warm-up that was found in the run, and the seconds by which it is longer than
/// `--warmup`. The seconds are `None` without `--find-warmup`, `Some(None)` if none was found.
pub(crate) fn left_out(plan: &Plan, exchange: &Exchange) -> (Plan, Option<Option<f64>>) {
    let found = plan.finds_warmup.then(|| found(plan, exchange));
    let more = found.flatten().unwrap_or(Nanos::ZERO);
    let (warmup, duration) = (plan.warmup.plus(more), plan.duration.minus(more));
    (Plan { warmup, duration, ..plan.clone() }, found.map(|found| found.map(Nanos::as_secs_f64)))
}

/// How much of the measured time is warm-up. `None` if the latency had not settled by half of it,
/// or an interval has no request.
fn found(plan: &Plan, exchange: &Exchange) -> Option<Nanos> {
    let late_us = schedule::timeout(plan, &exchange.schedule).as_micros_f64();
    let length = Nanos::new(plan.duration.get().div_ceil(INTERVALS));
    let mut intervals = vec![Vec::new(); INTERVALS as usize];
    for seen in seen(plan, exchange) {
        let number = seen.request.at.minus(plan.warmup).get() / length.get();
        intervals[number as usize].push(seen.latency_us().min(late_us));
    }
    let median = |mut values: Vec<f64>| {
        let middle = values.len() / 2;
        (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    let medians = intervals.into_iter().map(median).collect::<Option<Vec<f64>>>()?;
    let means: Vec<f64> = medians.chunks(NEIGHBOURS).map(|near| near.iter().sum::<f64>() / near.len() as f64).collect();
    settled(&means).map(|first| length.times((first * NEIGHBOURS) as u64))
}

/// The number of the first of `values` that belongs to the steady state, by MSER. It is the first
/// start whose error is within [`ABOUT`] of the least. The least error alone often comes later, by
/// chance, and would leave out too much. `None` if the values do not settle by half of them.
fn settled(values: &[f64]) -> Option<usize> {
    let (half, last) = (values.len() / 2, *values.last()?);
    let (mut sum, mut squares, mut errors) = (0.0, 0.0, vec![0.0; values.len()]);
    for (number, value) in values.iter().enumerate().rev() {
        let (count, above) = ((values.len() - number) as f64, value - last);
        (sum, squares) = (sum + above, squares + above * above);
        errors[number] = (squares - sum * sum / count) / (count * count);
    }
    let least = (0..=half).min_by(|one, other| errors[*one].total_cmp(&errors[*other]))?;
    let first = errors.iter().position(|error| *error <= ABOUT * errors[least])?;
    (least < half - half / NEIGHBOURS).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp1};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Means of five waiting times around `of`, for each of 40 places.
    fn noisy(seed: u64, of: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut exponential = || -> f64 { Exp1.sample(&mut rng) };
        let mut noise = || (0..5).map(|_| exponential()).sum::<f64>() / 5.0;
        (0..40).map(|place| of(f64::from(place)) * (0.9 + 0.1 * noise())).collect()
    }

    // Is a transient left out, little of a steady series, and is one that never settles told apart?
    #[test]
    fn a_transient_is_left_out_and_no_more() {
        let count = |of: fn(f64) -> f64, is_right: fn(Option<usize>) -> bool| {
            (0..100).filter(|seed| is_right(settled(&noisy(*seed, of)))).count()
        };
        let rights = [
            count(
                |place| if place < 8.0 { 30.0 } else { 10.0 },
                |first| first.is_some_and(|first| (8..12).contains(&first)),
            ),
            count(
                |place| 10.0 + 90.0 * (-place / 2.0).exp(),
                |first| first.is_some_and(|first| (5..16).contains(&first)),
            ),
            count(|_| 10.0, |first| first.is_some_and(|first| first < 4)),
            count(|place| 10.0 + place, |first| first.is_none()),
        ];
        assert!(rights.iter().all(|right| *right >= 85), "{rights:?} of 100");
        assert_eq!((settled(&[7.0; 40]), settled(&[])), (Some(0), None));
    }
}
