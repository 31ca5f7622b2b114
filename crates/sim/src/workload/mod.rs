//! Workloads: classes of requests, with their shares and costs.
//!
//! A [`Workload`] is parsed from the name of a preset (the field's standard workloads, [`PRESETS`])
//! or from one of the general [`FORMS`]. Parsing needs only the text, except for the form
//! `file:PATH`, which reads that file. The caller of `draw` gives the random numbers, so the same
//! seed gives the same requests.
//!
//! ```
//! use forebay_sim::workload::Workload;
//! use forebay_base::time::Nanos;
//!
//! let workload: Workload = "bimodal:0.99:20us:2ms".parse()?;
//! assert_eq!(workload.smallest_cost(), Nanos::from_micros(20));
//! assert_eq!(workload.mean(), Nanos::new(39_800));
//! # Ok::<(), String>(())
//! ```

mod arrivals;
mod cost;
pub mod lines;
mod parse;
mod shape;
mod trace;

pub use arrivals::{Arrival, Arrivals};
pub use cost::{
    ALPHA_MAX, BOUNDED_ALPHA_MIN, COST_MAX, Cost, RECORDED_BYTES_MAX, RECORDED_COSTS_MAX, Recorded, VARIATION_MAX,
};
pub use parse::{FORMS, PRESETS, forms_help};
pub use shape::Shape;
pub use trace::{Recording, TRACE_LINES_MAX, Trace, TraceRequest};

use forebay_base::time::Nanos;
use rand::{Rng, RngExt};

/// A workload: one to [`forebay_base::fate::CLASSES`] classes whose shares sum to 1.
///
/// A class's number is its index: `short` is number 0. Presets number their classes by cost, the
/// cheapest first. In `bimodal:P:A:B`, `short` is the class of cost `A`.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    name: String,
    classes: Vec<Class>,
    beside: Nanos,
}

/// One class of a [`Workload`].
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The share of requests that belong to this class, above 0 and at most 1.
    pub share: f64,
    /// The cost of one request.
    pub cost: Cost,
}

impl Workload {
    /// Requests of classes with these shares, whose costs are not known. They have no load.
    pub fn without_costs(name: String, shares: &[f64]) -> Workload {
        let class = |share: &f64| Class { share: *share, cost: Cost::Fixed(Nanos::ZERO) };
        Workload { name, classes: shares.iter().map(class).collect(), beside: Nanos::ZERO }
    }

    /// The same requests, whose name begins with `name`.
    pub fn named(self, name: &str) -> Workload {
        Workload { name: format!("{name}{}", self.name), ..self }
    }

    /// Whether the costs of requests are known.
    pub fn has_costs(&self) -> bool {
        self.mean_seconds() > 0.0
    }

    /// The preset's name, or the form as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The classes, in the order of their numbers; at least one.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Mean CPU time of one request, rounded to a nanosecond.
    pub fn mean(&self) -> Nanos {
        Nanos::new((self.mean_seconds() * 1e9).round() as u64)
    }

    /// The mean cost of the cheapest class, taken as the cost of "a cheap request".
    pub fn smallest_cost(&self) -> Nanos {
        self.classes.iter().map(|class| class.cost.mean()).min().expect("a workload has a class")
    }

    /// The same workload. Each request takes a worker `beside` more than its cost, to be received
    /// and answered. Rates and loads include this time; costs do not.
    pub fn with_time_beside(self, beside: Nanos) -> Workload {
        Workload { beside, ..self }
    }

    /// The time that each request takes of a worker beside its cost.
    pub fn time_beside(&self) -> Nanos {
        self.beside
    }

    /// Requests per second that occupy the share `load` of `workers` workers. Each cost, and the
    /// time beside it, takes `time_scale` times as long.
    pub fn rate_at(&self, load: f64, workers: usize, time_scale: u64) -> f64 {
        load * workers as f64 / ((self.mean_seconds() + self.beside.as_secs_f64()) * time_scale as f64)
    }

    /// The share of `workers` workers that `rate` requests per second occupy: the inverse of
    /// [`Workload::rate_at`].
    pub fn load_at(&self, rate: f64, workers: usize, time_scale: u64) -> f64 {
        rate * (self.mean_seconds() + self.beside.as_secs_f64()) * time_scale as f64 / workers as f64
    }

    /// The next request: its class's number, and its cost, at least a nanosecond.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> (u8, Nanos) {
        let mut left: f64 = rng.random();
        let last = self.classes.len() - 1;
        for (number, class) in self.classes[..last].iter().enumerate() {
            left -= class.share;
            if left < 0.0 {
                return (number as u8, class.cost.draw(rng));
            }
        }
        (last as u8, self.classes[last].cost.draw(rng))
    }

    fn mean_seconds(&self) -> f64 {
        self.classes.iter().map(|class| class.share * class.cost.mean_seconds()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn parsed(text: &str) -> Workload {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn presets_have_the_published_means_and_shares_of_one() {
        let published_ns = [
            ("extreme-bimodal", 2_997.5),
            ("high-bimodal", 50_500.0),
            ("zygos-bimodal-1", 1_000.0),
            ("zygos-bimodal-2", 1_000.0),
            ("tpcc", 19_068.0),
            ("rocksdb", 318_250.0),
            ("micropools", 1_199.9),
            // The mean cost by the costs of its tasks. The packet benchmark from which it comes has
            // no published mean.
            ("packet-chain", 42_000.0),
        ];
        assert_eq!(published_ns.map(|(name, _)| name), PRESETS.map(|(name, _)| name));
        for (name, mean_ns) in published_ns {
            let workload = parsed(name);
            let mean = workload.mean_seconds() * 1e9;
            assert!((mean - mean_ns).abs() < 0.01, "{name}: mean {mean} ns, published {mean_ns} ns");
            let sum: f64 = workload.classes().iter().map(|class| class.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}: shares sum to {sum}");
            assert!(workload.classes().len() <= forebay_base::fate::CLASSES);
            let cheapest = workload.classes()[0].cost.mean();
            assert_eq!(cheapest, workload.smallest_cost(), "{name}: `short` is not the cheapest class");
        }
    }

    #[test]
    fn drawn_means_and_shares_converge() {
        let forms = [
            "fixed:20us",
            "exponential:20us",
            "lognormal:20us:1.5",
            "pareto:20us:3",
            "bounded-pareto:1us:1ms:1.1",
            "bounded-pareto:1us:1ms:1",
            "bounded-pareto:1us:100us:0.01",
            "bounded-pareto:1us:1h:1000",
            "bimodal:0.9:5us:0.1ms",
            "mix:0.95@lognormal:3us:0.25+0.045@lognormal:120us:0.25+0.005@lognormal:1ms:0.25",
        ];
        for text in PRESETS.map(|(name, _)| name).into_iter().chain(forms) {
            let workload = parsed(text);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
            let draws = 2_000_000;
            let (mut sum_ns, mut shorts) = (0.0, 0.0);
            for _ in 0..draws {
                let (class, cost) = workload.draw(&mut rng);
                sum_ns += cost.get() as f64;
                shorts += f64::from(u8::from(class == 0));
            }
            let (mean, expected) = (sum_ns / f64::from(draws), workload.mean_seconds() * 1e9);
            // The rarest class, 0.01 % of micropools with a sixth of its mean, is drawn about 200
            // times. So its sixth is exact to 7 %. All other classes are more exact.
            assert!((mean / expected - 1.0).abs() < 0.03, "{text}: drew a mean of {mean} ns, expected {expected} ns");
            assert!((shorts / f64::from(draws) - workload.classes()[0].share).abs() < 0.002, "{text}: share of short");
        }
    }

    #[test]
    fn rate_and_load_are_inverses_and_the_time_beside_takes_capacity() {
        let workload = parsed("extreme-bimodal");
        let rate = workload.rate_at(0.7, 14, 1_000);
        assert!((rate - 3_269.4).abs() < 0.1 && (workload.load_at(rate, 14, 1_000) - 0.7).abs() < 1e-12, "{rate}");
        let workload = parsed("fixed:1us").with_time_beside(Nanos::from_micros(3));
        assert!((workload.rate_at(0.5, 2, 10) - 25_000.0).abs() < 1e-6);
        assert!((workload.load_at(25_000.0, 2, 10) - 0.5).abs() < 1e-12);
        assert_eq!((workload.mean(), workload.time_beside()), (Nanos::from_micros(1), Nanos::from_micros(3)));
    }
}
