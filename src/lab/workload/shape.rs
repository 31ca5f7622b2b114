//! How arrivals deviate from a Poisson process of independent requests.

use crate::time::{Nanos, parse_duration};
use rand::{Rng, RngExt};
use std::fmt;
use std::str::FromStr;

/// How requests follow one another. All shapes have the same rate, the same shares and the same costs in the long run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Poisson arrivals, each with a cost of its own.
    #[default]
    Poisson,
    /// A Poisson process whose rate is 1.5 times the mean in bursts, and half the mean between them. Both last this long in
    /// the mean, exponentially distributed (a Markov-modulated Poisson process of two states).
    Bursts(Nanos),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Poisson => f.write_str("poisson"),
            Shape::Bursts(mean) => write!(f, "bursts:{mean}"),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let mean = |text| parse_duration(text).ok().filter(|mean| (MEAN_MIN..=MEAN_MAX).contains(mean));
        match text.split_once(':') {
            None if text == "poisson" => Some(Shape::Poisson),
            Some(("bursts", text)) => mean(text).map(Shape::Bursts),
            _ => None,
        }
        .ok_or_else(|| {
            format!(
                "`{text}` is no way for requests to follow one another: write poisson, or bursts:MEAN with a mean of \
                 {MEAN_MIN} to {MEAN_MAX}, like bursts:2ms"
            )
        })
    }
}

/// The shortest and the longest mean length of bursts. Each is drawn: in an hour with one per microsecond billions.
const MEAN_MIN: Nanos = Nanos::from_micros(1);
const MEAN_MAX: Nanos = Nanos::from_secs(3_600);

/// How much higher the rate is in a burst, and how much lower between bursts, as a share of the mean rate.
const SWING: f64 = 0.5;

/// The phases of bursts.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    mean_seconds: f64,
    is_burst: bool,
    ends_at: f64,
}

impl Phases {
    /// Phases that last `mean` in the mean, about to begin.
    pub(super) fn new(mean: Nanos) -> Phases {
        Phases { mean_seconds: mean.as_secs_f64(), is_burst: true, ends_at: 0.0 }
    }

    /// The time of the next arrival after the one at `at`, in seconds, with `rate` arrivals per second in the mean.
    pub(super) fn after<R: Rng + ?Sized>(&mut self, mut at: f64, rate: f64, random: &mut R) -> f64 {
        loop {
            let swing = if self.is_burst { SWING } else { -SWING };
            let next = at + exponential(random) / (rate * (1.0 + swing));
            if next <= self.ends_at {
                return next;
            }
            // Exponential gaps have no memory: what is left of one begins anew with the phase.
            at = self.ends_at;
            self.is_burst = !self.is_burst;
            self.ends_at += exponential(random) * self.mean_seconds;
        }
    }
}

/// A draw from the exponential distribution with mean 1.
pub(super) fn exponential<R: Rng + ?Sized>(random: &mut R) -> f64 {
    // The inverse of the distribution function; 1 - u is never 0.
    -(1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workload::{Arrival, Arrivals, Workload};

    const REQUESTS: usize = 400_000;
    const RATE: f64 = 1e6;

    fn arrivals(shape: Shape) -> Vec<Arrival> {
        let workload: Workload = "bimodal:0.9:1us:50us".parse().expect("a form");
        Arrivals::new(&workload, RATE, 16, 7).shaped(shape).take(REQUESTS).collect()
    }

    // Is the rate that of the mean, and do counts in a burst's time vary as those of the process do? Its index of dispersion
    // for long counts is 1 + rate * swing^2 * mean length (both phases as long: Fischer and Meier-Hellstern, 1993).
    #[test]
    fn bursts_keep_the_rate_and_vary_it() {
        let dispersion = |shape: Shape| {
            let arrivals = arrivals(shape);
            let seconds = arrivals.last().expect("arrivals").at.as_secs_f64();
            assert!((REQUESTS as f64 / seconds / RATE - 1.0).abs() < 0.03, "{shape:?}: {REQUESTS} in {seconds} s");
            let window = Nanos::from_micros(1_000);
            let mut counts = vec![0.0_f64; (seconds * 1e3) as usize];
            for arrival in &arrivals {
                if let Some(count) = counts.get_mut((arrival.at.get() / window.get()) as usize) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
        };
        assert!((0.7..1.3).contains(&dispersion(Shape::Poisson)));
        let bursts = dispersion(Shape::Bursts(Nanos::from_micros(40)));
        assert!((8.0..14.0).contains(&bursts), "{bursts}, expected 11");
    }

    #[test]
    fn a_shape_is_its_text() {
        for text in ["poisson", "bursts:2ms", "bursts:1us", "bursts:3600s"] {
            assert_eq!(text.parse().map(|shape: Shape| shape.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "bursts", "bursts:", "bursts:0s", "bursts:2", "bursts:999ns", "bursts:2h", "clusters", "poisson:1ms"]
        {
            let error = text.parse::<Shape>().expect_err(text);
            assert!(error.contains("poisson, or bursts:MEAN"), "{error}");
        }
    }
}
