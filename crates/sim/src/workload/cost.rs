//! The cost of one request of a class: drawn from a distribution, or from recorded costs
//! (`file:PATH`: one cost per line, every line equally likely).

use super::{Class, lines};
use forebay_base::fate::{CLASS_NAMES, CLASSES};
use forebay_base::time::Nanos;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp, LogNormal, Pareto};
use std::io::Read;
use std::sync::Arc;

/// The largest cost of one request, an hour. A server's cost cap allows no more. A larger drawn
/// cost counts as an hour.
pub const COST_MAX: Nanos = Nanos::from_secs(3_600);
/// The largest coefficient of variation of a log-normal cost. At 1,000 the median is a thousandth
/// of the mean. Far above it, the distribution's parameters overflow.
pub const VARIATION_MAX: f64 = 1_000.0;
/// The largest exponent of a Pareto cost. At this exponent the cost hardly varies any more.
pub const ALPHA_MAX: f64 = 1_000.0;
/// The smallest exponent of a bounded Pareto cost. Near zero, the logarithm of the cost is
/// uniformly distributed.
pub const BOUNDED_ALPHA_MIN: f64 = 0.01;

/// The distribution of a class's CPU time. Parsing ensures the bounds of each variant; code that
/// makes one must keep to them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// All requests cost the same. Above zero and at most [`COST_MAX`], like the means below.
    Fixed(Nanos),
    /// Exponential: memoryless, coefficient of variation 1.
    Exponential {
        /// Above zero.
        mean: Nanos,
    },
    /// Log-normal: moderate tails, as measured services often have.
    LogNormal {
        /// Above zero.
        mean: Nanos,
        /// Standard deviation over mean, 0 to [`VARIATION_MAX`].
        variation: f64,
    },
    /// Pareto: a power law with a heavy tail. The variance is infinite for `alpha` up to 2.
    Pareto {
        /// Above zero.
        mean: Nanos,
        /// The exponent, at most [`ALPHA_MAX`]. Above 1, because otherwise there is no mean.
        alpha: f64,
    },
    /// Bounded Pareto: a power law between two costs. Its variance is finite. A few requests may
    /// need most of the CPU time.
    BoundedPareto {
        /// The smallest cost, above zero.
        low: Nanos,
        /// The largest cost, above `low`.
        high: Nanos,
        /// The exponent, [`BOUNDED_ALPHA_MIN`] to [`ALPHA_MAX`].
        alpha: f64,
    },
    /// One of the recorded costs, each as likely as the others.
    Recorded(Recorded),
}

impl Cost {
    /// The mean of the distribution.
    pub fn mean(&self) -> Nanos {
        Nanos::new((self.mean_seconds() * 1e9).round() as u64)
    }

    /// One request's cost, from a nanosecond to [`COST_MAX`].
    ///
    /// # Panics
    /// If a parameter is out of its variant's bounds.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Nanos {
        let ns = |time: Nanos| time.get() as f64;
        let cost_ns = match *self {
            Cost::Fixed(cost) => return cost,
            Cost::Recorded(ref recorded) => return recorded.costs[rng.random_range(0..recorded.costs.len())],
            Cost::Exponential { mean } => Exp::new(1.0 / ns(mean)).expect("a mean above zero").sample(rng),
            Cost::LogNormal { mean, variation } => {
                LogNormal::from_mean_cv(ns(mean), variation).expect("a mean above zero").sample(rng)
            }
            // The mean of a Pareto is scale * alpha / (alpha - 1).
            Cost::Pareto { mean, alpha } => {
                Pareto::new(ns(mean) * (alpha - 1.0) / alpha, alpha).expect("alpha above one").sample(rng)
            }
            // The inverse of the distribution function, (1 - (low / cost)^alpha) / (1 - (low /
            // high)^alpha).
            Cost::BoundedPareto { low, high, alpha } => {
                let below = rng.random::<f64>() * (-alpha * (ns(high) / ns(low)).ln()).exp_m1();
                (ns(low) * (-below.ln_1p() / alpha).exp()).clamp(ns(low), ns(high))
            }
        };
        Nanos::new(cost_ns.round() as u64).clamp(Nanos::new(1), COST_MAX)
    }

    /// The mean cost, in seconds.
    pub fn mean_seconds(&self) -> f64 {
        match self {
            Cost::Recorded(recorded) => recorded.mean_seconds,
            Cost::BoundedPareto { low, high, alpha } => {
                // The integral of x^-alpha from 1 to high / low, over its part that is not cut off.
                let span = (high.get() as f64 / low.get() as f64).ln();
                let exponent = 1.0 - alpha;
                let integral = if exponent.abs() < 1e-12 { span } else { (exponent * span).exp_m1() / exponent };
                low.as_secs_f64() * alpha * integral / -(-alpha * span).exp_m1()
            }
            Cost::Fixed(mean)
            | Cost::Exponential { mean }
            | Cost::LogNormal { mean, .. }
            | Cost::Pareto { mean, .. } => mean.as_secs_f64(),
        }
    }
}

/// The most costs that one file may hold: 80 MB in memory.
pub const RECORDED_COSTS_MAX: usize = 10_000_000;
/// The largest file that is read. It has room for 10 M lines with class names and some comments.
pub const RECORDED_BYTES_MAX: u64 = 256 << 20;

/// Costs as they were recorded, at least one, all above zero. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The costs, in the order of their lines.
    pub costs: Arc<[Nanos]>,
    /// Their mean, in seconds.
    pub mean_seconds: f64,
}

impl Recorded {
    pub(crate) fn new(costs: Vec<Nanos>) -> Recorded {
        let sum: f64 = costs.iter().map(|cost| cost.as_secs_f64()).sum();
        Recorded { mean_seconds: sum / costs.len() as f64, costs: costs.into() }
    }
}

/// The classes in `text`, of `bytes_max` bytes at most. A line is `COST` (class 0), `CLASS COST` or
/// blank; `#` begins a comment.
pub(super) fn parse(text: impl Read, bytes_max: u64) -> Result<Vec<Class>, String> {
    let mut costs: [Vec<Nanos>; CLASSES] = Default::default();
    let (mut count, too_large) = (0, format!("it is larger than {} MiB", RECORDED_BYTES_MAX >> 20));
    lines::each(text, bytes_max, &too_large, |line| {
        let (class, cost) = parse_line(line.split('#').next().unwrap_or_default())?;
        costs[class].push(cost);
        count += 1;
        if count > RECORDED_COSTS_MAX { Err(format!("more than {RECORDED_COSTS_MAX} costs")) } else { Ok(()) }
    })?;
    let Some(last) = costs.iter().rposition(|costs| !costs.is_empty()) else {
        return Err("it holds no cost: write one in each line, as COST or CLASS COST, like 20us or long 2ms".to_owned());
    };
    if let Some(missing) = costs[..last].iter().position(Vec::is_empty) {
        let (present, missing) = (CLASS_NAMES[last], CLASS_NAMES[missing]);
        return Err(format!(
            "it has costs of class {present}, but none of class {missing}: classes count from 0 without a gap"
        ));
    }
    Ok(recorded(costs.into_iter().take(last + 1)))
}

/// Makes one class of each list of costs. All costs of all lists are equally likely.
pub(super) fn recorded(costs: impl Iterator<Item = Vec<Nanos>> + Clone) -> Vec<Class> {
    let count: usize = costs.clone().map(|costs| costs.len()).sum();
    let share = |costs: &Vec<Nanos>| costs.len() as f64 / count as f64;
    costs.map(|costs| Class { share: share(&costs), cost: Cost::Recorded(Recorded::new(costs)) }).collect()
}

/// Class and cost of one line without its comment.
fn parse_line(line: &str) -> Result<(usize, Nanos), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (class, cost) = match words[..] {
        [cost] => (0, cost),
        [class, cost] => (parse_class(class)?, cost),
        _ => return Err(format!("`{}` is too much: write COST or CLASS COST, like 20us or long 2ms", line.trim())),
    };
    Ok((class, parse_cost(cost)?))
}

/// The cost of one request.
pub(super) fn parse_cost(text: &str) -> Result<Nanos, String> {
    let cost = text.parse::<Nanos>().map_err(|error| error.to_string())?;
    let allowed = cost > Nanos::ZERO && cost <= COST_MAX;
    if allowed { Ok(cost) } else { Err(format!("`{text}` is out of range: a cost is 1ns to 1h")) }
}

pub(super) fn parse_class(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|class| *class < CLASSES);
    number.or_else(|| CLASS_NAMES.iter().position(|name| *name == text)).ok_or_else(|| {
        format!("`{text}` is no class: write a number from 0 to {}, or one of {}", CLASSES - 1, CLASS_NAMES.join(", "))
    })
}

#[cfg(test)]
mod recorded_tests {
    use super::*;
    use crate::workload::Workload;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::BTreeMap;
    use std::io::Write;

    const RECORDING: &str = "# cost of each request\n20us\n\nshort 30us # by name\n1 2ms\n0 20us\nlong 500us\r\n";

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    fn workload(file: &tempfile::NamedTempFile) -> Result<Workload, String> {
        format!("file:{}", file.path().display()).parse()
    }

    // Are classes read by number and by name, and class 0 by default? Are comments and blank lines
    // skipped?
    #[test]
    fn lines_are_costs_of_classes() {
        let classes = parse(RECORDING.as_bytes(), RECORDED_BYTES_MAX).expect("a recording");
        let [short, long] = &classes[..] else { panic!("{} classes", classes.len()) };
        assert_eq!((short.share, long.share), (0.6, 0.4));
        let costs = |class: &Class| match &class.cost {
            Cost::Recorded(recorded) => recorded.costs.iter().map(|cost| cost.get() / 1_000).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!((costs(short), costs(long)), (vec![20, 30, 20], vec![2_000, 500]));
        assert_eq!(long.cost.mean(), Nanos::from_micros(1_250));
    }

    // Does a workload from a file have the mean of its lines, and is each line drawn equally often?
    #[test]
    fn every_line_is_drawn_equally_often() {
        let workload = workload(&file(RECORDING.as_bytes())).expect("a workload");
        assert_eq!(workload.mean(), Nanos::from_micros(514));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut drawn: BTreeMap<_, f64> = BTreeMap::new();
        let draws = 100_000;
        for _ in 0..draws {
            *drawn.entry(workload.draw(&mut rng)).or_default() += 1.0 / f64::from(draws);
        }
        let expected = [((0, 20), 0.4), ((0, 30), 0.2), ((1, 500), 0.2), ((1, 2_000), 0.2)];
        assert_eq!(drawn.len(), expected.len(), "{drawn:?}");
        for ((class, us), share) in expected {
            let found = drawn[&(class, Nanos::from_micros(us))];
            assert!((found - share).abs() < 0.01, "class {class}, {us} us: {found}, not {share}");
        }
    }

    // Does each error name the line, and what would be right?
    #[test]
    fn mistakes_are_located() {
        for (text, expected) in [
            ("20us\n\n20", "line 3: `20` is not a duration: write a number and a unit"),
            ("# costs\n0us", "line 2: `0us` is out of range: a cost is 1ns to 1h"),
            ("20us\n100000000000000000000000us", "line 2: `100000000000000000000000us` is too long"),
            ("20us\n2h", "line 2: `2h` is out of range: a cost is 1ns to 1h"),
            ("8 20us", "line 1: `8` is no class: write a number from 0 to 7, or one of short, long, class2"),
            ("medium 20us", "line 1: `medium` is no class"),
            ("0 20us 30us", "line 1: `0 20us 30us` is too much: write COST or CLASS COST"),
            ("# nothing\n\n", "no cost"),
            ("0 1us\n2 1us", "costs of class class2, but none of class long"),
        ] {
            let error = parse(text.as_bytes(), RECORDED_BYTES_MAX).expect_err(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    // Does an error about the file itself name the file?
    #[test]
    fn unusable_files_are_named() {
        let binary = file(b"20us\n20us\n\xff\xfe");
        for (path, expected) in [
            ("/nowhere/costs", "it cannot be read: No such file"),
            ("/", "it cannot be read"),
            (binary.path().to_str().expect("a path"), "line 3: it is not text"),
        ] {
            let error = format!("file:{path}").parse::<Workload>().expect_err(path);
            assert!(error.contains(path) && error.contains(expected), "{error}");
        }
    }
    // Does reading stop at the bound, even in a file without an end?
    #[test]
    fn what_is_read_is_bounded() {
        let too_large = |read: Result<_, String>| read.is_err_and(|problem| problem == "it is larger than 256 MiB");
        assert!(too_large(parse(std::io::repeat(0), 1_000)));
        assert!(parse(&b"20us\n"[..], 5).is_ok());
        assert!(too_large(parse(&b"20us\n"[..], 4)));
    }
}
