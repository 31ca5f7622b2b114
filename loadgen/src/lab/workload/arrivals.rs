//! The requests offered to a server: arrival time, cost and flow of each. The load generator and
//! the simulator draw them here, so that the same seed offers the same requests to both. [`Shape`]
//! says how they follow one another.

use super::Workload;
use forebay::time::{Nanos, parse_duration};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt;
use std::str::FromStr;

/// One request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it comes, after the start; no earlier than the one before.
    pub at: Nanos,
    /// The CPU time that it asks for.
    pub cost: Nanos,
    /// The flow that it belongs to, counted from 0.
    pub flow: u16,
    /// The number of its class.
    pub class: u8,
}

/// Arrivals without end, in the order of their times: Poisson, unless shaped otherwise.
///
/// Times, costs and flows come from three streams of one seed that do not overlap. So a different
/// workload keeps the times, and a different number of flows keeps both.
#[derive(Clone, Debug)]
pub struct Arrivals<'w> {
    workload: &'w Workload,
    rate: f64,
    flows: u16,
    /// The rank of a request's flow, counted from 1; `None` where all flows are alike.
    ranks: Option<Zipf<f64>>,
    at_seconds: f64,
    streams: [Xoshiro256PlusPlus; 3],
    phases: Option<Phases>,
}

impl<'w> Arrivals<'w> {
    /// Arrivals of `workload` at `rate` requests per second in the mean, on `flows` flows.
    ///
    /// # Panics
    /// If there is no flow, or `rate` is not above zero.
    pub fn new(workload: &'w Workload, rate: f64, flows: u16, seed: u64) -> Arrivals<'w> {
        assert!(flows > 0 && rate > 0.0, "something arrives, on a flow");
        let streams = streams(seed);
        Arrivals { workload, rate, flows, ranks: None, at_seconds: 0.0, streams, phases: None }
    }

    /// The same arrivals, not yet begun, on flows whose rates fall with their rank to the power of
    /// `exponent` (Zipf): flow 0 has the highest. With 0 all flows are alike, as without.
    ///
    /// # Panics
    /// If `exponent` is below zero, or not finite.
    pub fn with_zipf(self, exponent: f64) -> Arrivals<'w> {
        let ranks = (exponent != 0.0).then(|| Zipf::new(f64::from(self.flows), exponent).expect("a finite exponent"));
        Arrivals { ranks, ..self }
    }

    /// The same arrivals, not yet begun, in another shape.
    pub fn shaped(self, shape: Shape) -> Arrivals<'w> {
        let phases = match shape {
            Shape::Poisson => None,
            Shape::Bursts(mean) => Some(Phases::new(mean)),
        };
        Arrivals { phases, ..self }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [times, costs, flows] = &mut self.streams;
        self.at_seconds = match &mut self.phases {
            None => self.at_seconds + exponential(times) / self.rate,
            Some(phases) => phases.after(self.at_seconds, self.rate, times),
        };
        let at = Nanos::new((self.at_seconds * 1e9) as u64);
        let (class, cost) = self.workload.draw(costs);
        let flow = match &self.ranks {
            None => flows.random_range(0..self.flows),
            Some(ranks) => ranks.sample(flows) as u16 - 1,
        };
        Some(Arrival { at, cost, flow, class })
    }
}

fn streams(seed: u64) -> [Xoshiro256PlusPlus; 3] {
    let times = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut costs = times.clone();
    costs.long_jump();
    let mut flows = costs.clone();
    flows.long_jump();
    [times, costs, flows]
}

/// How requests follow one another. All shapes have the same rate, the same shares and the same
/// costs in the long run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Poisson arrivals, each with a cost of its own.
    #[default]
    Poisson,
    /// A Poisson process whose rate is 1.5 times the mean in bursts, and half the mean between
    /// them. Both last this long in the mean, exponentially distributed (a Markov-modulated Poisson
    /// process of two states).
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

/// The shortest and the longest mean length of bursts. Each is drawn: in an hour with one per
/// microsecond billions.
const MEAN_MIN: Nanos = Nanos::from_micros(1);
const MEAN_MAX: Nanos = Nanos::from_secs(3_600);

/// How much higher the rate is in a burst, and how much lower between bursts, as a share of the
/// mean rate.
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

    /// The time of the next arrival after the one at `at`, in seconds, with `rate` arrivals per
    /// second in the mean.
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

    // Do the rates of flows fall as they should, and nothing else change?
    #[test]
    fn flows_may_differ_in_their_rates() {
        let workload: Workload = "exponential:1us".parse().expect("a form");
        let arrivals = || Arrivals::new(&workload, 1e6, 100, 1);
        let mut counts = [0_u32; 100];
        for (alike, ranked) in arrivals().zip(arrivals().with_zipf(1.0)).take(200_000) {
            assert_eq!(Arrival { flow: 0, ..alike }, Arrival { flow: 0, ..ranked });
            counts[usize::from(ranked.flow)] += 1;
        }
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 10, 100] {
            let (count, expected) = (f64::from(counts[rank - 1]), 2e5 / rank as f64 / harmonic);
            assert!((count / expected - 1.0).abs() < 0.15, "rank {rank}: {count}, expected {expected}");
        }
        assert!(arrivals().with_zipf(0.0).take(1_000).eq(arrivals().take(1_000)));
    }
}

#[cfg(test)]
mod shape_tests {
    use super::*;
    use crate::lab::workload::{Arrival, Arrivals, Workload};

    const REQUESTS: usize = 400_000;
    const RATE: f64 = 1e6;

    fn arrivals(shape: Shape) -> Vec<Arrival> {
        let workload: Workload = "bimodal:0.9:1us:50us".parse().expect("a form");
        Arrivals::new(&workload, RATE, 16, 7).shaped(shape).take(REQUESTS).collect()
    }

    // Is the rate that of the mean, and do counts in a burst's time vary as those of the process
    // do? Its index of dispersion for long counts is 1 + rate * swing^2 * mean length (both phases
    // as long: Fischer and Meier-Hellstern, 1993).
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
