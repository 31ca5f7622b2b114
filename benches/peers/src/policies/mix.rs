//! The mixes of requests, each with a light and a heavy kind.

use crate::offer::workload;
use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay::time::Nanos;
use forebay::wire::CLASS_NAMES;
use forebay::workload::{Arrivals, Workload};

/// A mix, by the name in flags and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mix {
    /// 99 % of 10 us, 1 % of 1 ms.
    #[value(name = "1ms")]
    Ms1,
    /// 99.5 % of 20 us, 0.5 % of 10 ms.
    #[value(name = "10ms")]
    Ms10,
    /// A third each of 5, 50 and 500 us.
    Trimodal,
    /// Log-normal with a mean of 50 us and a coefficient of variation of 3.
    Lognormal,
}

/// The class of light requests.
pub(super) const LIGHT: &str = CLASS_NAMES[0];

/// From this cost on a log-normal request counts as heavy: ten times the mean.
const HEAVY_FROM: Nanos = Nanos::from_micros(500);
/// Costs that stand for the log-normal distribution: their mean has a standard error of 1 %.
const DRAWS: usize = 100_000;

impl Mix {
    /// Every mix, in the order of the tables.
    pub(super) const ALL: [Mix; 4] = [Mix::Ms1, Mix::Ms10, Mix::Trimodal, Mix::Lognormal];

    /// The name in flags and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mix::Ms1 => "1ms",
            Mix::Ms10 => "10ms",
            Mix::Trimodal => "trimodal",
            Mix::Lognormal => "lognormal",
        }
    }

    /// As headings show it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Mix::Ms1 => "99/1 % of 10 us/1 ms",
            Mix::Ms10 => "99.5/0.5 % of 20 us/10 ms",
            Mix::Trimodal => "a third each of 5, 50 and 500 us (light: 5 us, heavy: 500 us)",
            Mix::Lognormal => "log-normal, mean 50 us, CV 3 (light: below 0.5 ms, heavy: the others, about 1 %)",
        }
    }

    /// The class of heavy requests.
    pub(super) fn heavy(self) -> &'static str {
        CLASS_NAMES[if self == Mix::Trimodal { 2 } else { 1 }]
    }

    /// The requests. Those of the log-normal mix are drawn from 100,000 recorded costs, divided into two classes.
    ///
    /// # Errors
    /// Never, as long as the constants are right.
    pub(super) fn workload(self) -> Result<Workload> {
        let us = |us| vec![Nanos::from_micros(us)];
        match self {
            Mix::Ms1 => workload("bimodal:0.99:10us:1ms"),
            Mix::Ms10 => workload("bimodal:0.995:20us:10ms"),
            Mix::Trimodal => {
                Workload::measured("trimodal", vec![(1, us(5)), (1, us(50)), (1, us(500))]).context("three classes")
            }
            Mix::Lognormal => {
                let drawn = workload("lognormal:50us:3")?;
                let costs = Arrivals::new(&drawn, 1.0, 1, 1).take(DRAWS).map(|arrival| arrival.cost);
                let (light, heavy): (Vec<Nanos>, Vec<Nanos>) = costs.partition(|cost| *cost < HEAVY_FROM);
                let class = |costs: Vec<Nanos>| (costs.len() as u64, costs);
                Workload::measured("lognormal", vec![class(light), class(heavy)]).context("two classes")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Has each mix the mean and the shares that its title says?
    #[test]
    fn mixes_are_what_their_titles_say() {
        for (mix, mean_us, tolerance, heavy_share) in [
            (Mix::Ms1, 19.9, 1e-6, 0.01),
            (Mix::Ms10, 69.9, 1e-6, 0.005),
            (Mix::Trimodal, 185.0, 1e-6, 1.0 / 3.0),
            (Mix::Lognormal, 50.0, 0.03, 0.0114),
        ] {
            let workload = mix.workload().expect("a workload");
            let mean = workload.mean().as_micros_f64();
            assert!((mean / mean_us - 1.0).abs() <= tolerance, "{mix:?}: {mean}");
            let heavy = CLASS_NAMES.iter().position(|name| *name == mix.heavy()).expect("a class");
            let share = workload.classes()[heavy].share;
            assert!((share / heavy_share - 1.0).abs() < 0.05, "{mix:?}: {share}");
            assert_eq!(workload.classes().len(), heavy + 1, "the last class is the heavy one");
        }
    }
}
