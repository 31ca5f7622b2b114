//! The requests offered to a server: arrival time, cost and flow of each. The load generator and
//! the simulator draw them here, so that the same seed offers the same requests to both. [`Shape`]
//! says how they follow one another.

use super::Workload;
use forebay::time::{Nanos, parse_duration};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma, Zipf};
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
    gaps: Gaps,
}

impl<'w> Arrivals<'w> {
    /// Arrivals of `workload` at `rate` requests per second in the mean, on `flows` flows.
    ///
    /// # Panics
    /// If there is no flow, or `rate` is not above zero.
    pub fn new(workload: &'w Workload, rate: f64, flows: u16, seed: u64) -> Arrivals<'w> {
        assert!(flows > 0 && rate > 0.0, "something arrives, on a flow");
        let streams = streams(seed);
        Arrivals { workload, rate, flows, ranks: None, at_seconds: 0.0, streams, gaps: Gaps::Exponential }
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
        Arrivals { gaps: Gaps::new(shape), ..self }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [times, costs, flows] = &mut self.streams;
        self.at_seconds = match &mut self.gaps {
            Gaps::Exponential => self.at_seconds + exponential(times) / self.rate,
            Gaps::Equal => self.at_seconds + 1.0 / self.rate,
            Gaps::Gamma(gamma) => self.at_seconds + gamma.sample(times) / self.rate,
            Gaps::Phases(phases) => phases.after(self.at_seconds, self.rate, times),
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// A Poisson process.
    #[default]
    Poisson,
    /// Each comes the mean gap after the one before.
    Constant,
    /// Gaps are drawn from a gamma distribution with this coefficient of variation. 1 is Poisson;
    /// more is burstier.
    Gamma(f64),
    /// A Poisson process whose rate is `factor` times the mean in bursts, and between bursts what
    /// keeps the mean. Bursts last `on` in the mean and the times between them `off`, both
    /// exponentially distributed (a Markov-modulated Poisson process of two states).
    Bursts {
        /// The rate in a burst, over the mean rate.
        factor: f64,
        /// The mean length of a burst.
        on: Nanos,
        /// The mean time between two bursts.
        off: Nanos,
    },
}

impl Shape {
    /// Bursts of 1.5 times the rate, and times of half the rate between them that last as long.
    pub const fn mild_bursts(mean: Nanos) -> Shape {
        Shape::Bursts { factor: MILD, on: mean, off: mean }
    }

    /// The same at a time scale: bursts last that many times longer.
    pub(crate) fn scaled(self, time_scale: u64) -> Shape {
        match self {
            Shape::Bursts { factor, on, off } => {
                Shape::Bursts { factor, on: on.times(time_scale), off: off.times(time_scale) }
            }
            shape => shape,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Poisson => f.write_str("poisson"),
            Shape::Constant => f.write_str("constant"),
            Shape::Gamma(cv) => write!(f, "gamma:{cv}"),
            Shape::Bursts { factor, on, off } if *factor == MILD && on == off => write!(f, "bursts:{on}"),
            Shape::Bursts { factor, on, off } => write!(f, "bursts:{factor}:{on}:{off}"),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let mean = |text: &str| parse_duration(text).ok().filter(|mean| (MEAN_MIN..=MEAN_MAX).contains(mean));
        let number = |text: &str| text.parse::<f64>().ok();
        let shape = match *text.split(':').collect::<Vec<_>>() {
            ["poisson"] => Some(Shape::Poisson),
            ["constant"] => Some(Shape::Constant),
            ["gamma", cv] => number(cv).filter(|cv| (CV_MIN..=CV_MAX).contains(cv)).map(Shape::Gamma),
            ["bursts", length] => mean(length).map(Shape::mild_bursts),
            ["bursts", factor, on, off] => {
                number(factor).zip(mean(on).zip(mean(off))).and_then(|(factor, (on, off))| {
                    let is_rate = factor >= 1.0 && between(factor, on, off) >= 0.0;
                    is_rate.then_some(Shape::Bursts { factor, on, off })
                })
            }
            _ => None,
        };
        shape.ok_or_else(|| {
            format!(
                "`{text}` is no way for requests to follow one another: write poisson, constant, gamma:CV with a \
                 coefficient of variation of {CV_MIN} to {CV_MAX}, bursts:MEAN or bursts:FACTOR:ON:OFF with lengths of \
                 {MEAN_MIN} to {MEAN_MAX} and a factor of 1 to (ON + OFF) / ON, like bursts:2.2:10ms:20ms"
            )
        })
    }
}

/// The shortest and the longest mean length of bursts. Each is drawn: in an hour with one per
/// microsecond billions.
const MEAN_MIN: Nanos = Nanos::from_micros(1);
const MEAN_MAX: Nanos = Nanos::from_secs(3_600);
/// With less, gaps are equal. With more, most gaps are zero to a nanosecond.
const CV_MIN: f64 = 0.01;
const CV_MAX: f64 = 30.0;
/// The factor of bursts that have none.
const MILD: f64 = 1.5;

/// The rate between bursts over the mean rate.
fn between(factor: f64, on: Nanos, off: Nanos) -> f64 {
    1.0 - (factor - 1.0) * (on.as_secs_f64() / off.as_secs_f64())
}

/// What draws the gaps between requests.
#[derive(Clone, Debug)]
enum Gaps {
    Exponential,
    Equal,
    /// Its mean is 1.
    Gamma(Gamma<f64>),
    Phases(Phases),
}

impl Gaps {
    fn new(shape: Shape) -> Gaps {
        match shape {
            Shape::Poisson => Gaps::Exponential,
            Shape::Constant => Gaps::Equal,
            Shape::Gamma(cv) => Gaps::Gamma(Gamma::new(1.0 / (cv * cv), cv * cv).expect("a variation above zero")),
            Shape::Bursts { factor, on, off } => Gaps::Phases(Phases::new(factor, on, off)),
        }
    }
}

/// The phases of bursts.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    /// Of bursts, and of the times between them: the rate over the mean rate, and the mean length
    /// in seconds.
    each: [(f64, f64); 2],
    is_burst: bool,
    ends_at: f64,
}

impl Phases {
    /// Phases of bursts of `factor` times the rate, about to begin.
    pub(super) fn new(factor: f64, on: Nanos, off: Nanos) -> Phases {
        let each = [(factor, on.as_secs_f64()), (between(factor, on, off), off.as_secs_f64())];
        Phases { each, is_burst: true, ends_at: 0.0 }
    }

    /// The time of the next arrival after the one at `at`, in seconds, with `rate` arrivals per
    /// second in the mean.
    pub(super) fn after<R: Rng + ?Sized>(&mut self, mut at: f64, rate: f64, random: &mut R) -> f64 {
        loop {
            let (part, _) = self.each[usize::from(!self.is_burst)];
            // Without requests between bursts it is infinite.
            let next = at + exponential(random) / (rate * part);
            if next <= self.ends_at {
                return next;
            }
            // Exponential gaps have no memory: what is left of one begins anew with the phase.
            at = self.ends_at;
            self.is_burst = !self.is_burst;
            let (_, mean_seconds) = self.each[usize::from(!self.is_burst)];
            self.ends_at += exponential(random) * mean_seconds;
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

    // Is the rate that of the mean, and do counts over a long time vary as those of the process do?
    // The index of dispersion for long counts is the squared coefficient of variation of a renewal
    // process (Cox, Renewal Theory). Two phases have the rates a and b, and end at the rates s and
    // t. Their index is 1 + 2 s t (a - b)^2 / ((s + t)^2 (a t + b s)) (Fischer and
    // Meier-Hellstern, The MMPP cookbook, 1993).
    #[test]
    fn shapes_keep_the_rate_and_vary_it() {
        let us = Nanos::from_micros;
        let sharp = Shape::Bursts { factor: 2.2, on: us(20), off: us(40) };
        let silent = Shape::Bursts { factor: 3.0, on: us(10), off: us(20) };
        let expected = [
            (Shape::Poisson, 1.0),
            (Shape::Constant, 0.0),
            (Shape::Gamma(0.5), 0.25),
            (Shape::Gamma(2.0), 4.0),
            (Shape::mild_bursts(us(40)), 11.0),
            (sharp, 20.2),
            (silent, 27.7),
        ];
        for (shape, expected) in expected {
            let arrivals = arrivals(shape);
            let seconds = arrivals.last().expect("arrivals").at.as_secs_f64();
            assert!((REQUESTS as f64 / seconds / RATE - 1.0).abs() < 0.03, "{shape}: {REQUESTS} in {seconds} s");
            let window = us(1_000);
            let mut counts = vec![0.0_f64; (seconds * 1e3) as usize];
            for arrival in &arrivals {
                if let Some(count) = counts.get_mut((arrival.at.get() / window.get()) as usize) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let squares = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
            let dispersion = squares / counts.len() as f64 / mean;
            // Of 400 counts the variance has a standard error of 7 %, and the ends of phases cut
            // off a few percent.
            assert!((dispersion - expected).abs() <= 0.3 * expected + 0.01, "{shape}: {dispersion} for {expected}");
        }
    }

    #[test]
    fn a_shape_is_its_text() {
        let texts =
            ["poisson", "constant", "gamma:0.5", "bursts:2ms", "bursts:1us", "bursts:3600s", "bursts:2.2:10ms:20ms"];
        for text in texts {
            assert_eq!(text.parse().map(|shape: Shape| shape.to_string()), Ok(text.to_owned()));
        }
        let wrong = "|bursts|bursts:|bursts:0s|bursts:2|bursts:999ns|bursts:2h|clusters|poisson:1ms|constant:1|gamma|\
                     gamma:0|gamma:nan|gamma:31|bursts:3.1:10ms:20ms|bursts:0.9:1ms:1ms|bursts:2:1ms|bursts:x:1ms:1ms";
        for text in wrong.split('|') {
            let error = text.parse::<Shape>().expect_err(text);
            assert!(error.contains("write poisson, constant, gamma:CV"), "{error}");
        }
    }
}
