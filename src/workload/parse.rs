//! From text to a [`Workload`]: the presets and the general forms.

use super::recorded::{self, RecordingError};
use super::{ALPHA_MAX, COST_MAX, Class, Cost, VARIATION_MAX, Workload};
use crate::time::{DurationError, Nanos, parse_duration};
use std::str::FromStr;

/// Names of the presets: the workloads that the literature compares schedulers on.
pub const PRESETS: [&str; 8] = [
    "extreme-bimodal",
    "high-bimodal",
    "zygos-bimodal-1",
    "zygos-bimodal-2",
    "tpcc",
    "rocksdb",
    "micropools",
    "packet-chain",
];

/// The general forms, as help and errors show them. `D`, `MEAN`, `A` and `B` are durations; `P` is a share of requests,
/// between 0 and 1; `CV` is standard deviation over mean, at most [`VARIATION_MAX`]; `ALPHA` is above 1 and at most
/// [`ALPHA_MAX`]. Durations are at most [`COST_MAX`]. `bimodal`: share `P` costs `A`, the rest
/// `B`. `file`: each request costs what one line of the file at `PATH` says, written `COST` or `CLASS COST`; every line
/// is equally likely, blank lines and what follows a `#` do not count.
pub const FORMS: [&str; 6] =
    ["fixed:D", "exponential:MEAN", "lognormal:MEAN:CV", "pareto:MEAN:ALPHA", "bimodal:P:A:B", "file:PATH"];

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Neither a preset nor a form.
    #[error(
        "`{0}` is not a workload: name one of {presets}, or write a form: {forms}",
        presets = PRESETS.join(", "),
        forms = FORMS.join(", ")
    )]
    Unknown(String),
    /// A form with too few or too many parts.
    #[error("`{text}` has too few or too many parts: write {form}")]
    Parts {
        /// The whole text.
        text: String,
        /// The form that the text begins like.
        form: &'static str,
    },
    /// A part that should be a duration is not one.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A cost of nothing, or above [`COST_MAX`].
    #[error("`{value}` in `{text}` is out of range: a cost is 1ns to 1h")]
    Cost {
        /// The whole text.
        text: String,
        /// The part that is out of range.
        value: String,
    },
    /// A file of recorded costs that cannot be used.
    #[error("file {path}: {problem}")]
    File {
        /// The path as written.
        path: String,
        /// The problem with the file.
        problem: RecordingError,
    },
    /// A number out of its range.
    #[error("`{value}` in `{text}` is not {allowed}")]
    Number {
        /// The whole text.
        text: String,
        /// The part that is out of range.
        value: String,
        /// The allowed values, in words.
        allowed: &'static str,
    },
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Workload, WorkloadError> {
        let classes = match preset(text) {
            Some(classes) => classes,
            None => form(text)?,
        };
        Ok(Workload { name: text.to_owned(), classes, beside: Nanos::ZERO })
    }
}

/// Persephone's table 1 names TPC-C's five transactions; ours are numbered by cost: Payment, OrderStatus, NewOrder,
/// Delivery, StockLevel. A chunk of `micropools` is one SHA-1 of a short string, about a microsecond.
/// A packet of `packet-chain` is searched for ends of lines and makes 60 random reads, about 2 us; one in a thousand goes on
/// with two tasks of 20 ms.
fn preset(name: &str) -> Option<Vec<Class>> {
    let shares_and_costs_ns: &[(f64, u64)] = match name {
        "extreme-bimodal" => &[(0.995, 500), (0.005, 500_000)],
        "high-bimodal" => &[(0.5, 1_000), (0.5, 100_000)],
        "zygos-bimodal-1" => &[(0.9, 500), (0.1, 5_500)],
        "zygos-bimodal-2" => &[(0.999, 500), (0.001, 500_500)],
        "tpcc" => &[(0.44, 5_700), (0.04, 6_000), (0.44, 20_000), (0.04, 88_000), (0.04, 100_000)],
        "rocksdb" => &[(0.5, 1_500), (0.5, 635_000)],
        "micropools" => &[(0.9999, 1_000), (0.0001, 2_000_000)],
        "packet-chain" => &[(0.999, 2_000), (0.001, 40_002_000)],
        _ => return None,
    };
    Some(shares_and_costs_ns.iter().map(|&(share, ns)| Class { share, cost: Cost::Fixed(Nanos::new(ns)) }).collect())
}

fn form(text: &str) -> Result<Vec<Class>, WorkloadError> {
    if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
        return recorded::read(path).map_err(|problem| WorkloadError::File { path: path.to_owned(), problem });
    }
    let parts: Vec<&str> = text.split(':').collect();
    let form = FORMS.into_iter().find(|form| form.split(':').next() == Some(parts[0]));
    let form = form.ok_or_else(|| WorkloadError::Unknown(text.to_owned()))?;
    if parts.len() != form.split(':').count() || parts.contains(&"") {
        return Err(WorkloadError::Parts { text: text.to_owned(), form });
    }
    let cost = |part: &str| match parse_duration(part)? {
        Nanos::ZERO => Err(WorkloadError::Cost { text: text.to_owned(), value: part.to_owned() }),
        cost if cost > COST_MAX => Err(WorkloadError::Cost { text: text.to_owned(), value: part.to_owned() }),
        cost => Ok(cost),
    };
    let number = |part: &str, allowed: &'static str, fits: fn(f64) -> bool| {
        let error = || WorkloadError::Number { text: text.to_owned(), value: part.to_owned(), allowed };
        part.parse().ok().filter(|&number: &f64| number.is_finite() && fits(number)).ok_or_else(error)
    };
    let cost = match parts[..] {
        ["fixed", constant] => Cost::Fixed(cost(constant)?),
        ["exponential", mean] => Cost::Exponential { mean: cost(mean)? },
        ["lognormal", mean, variation] => Cost::LogNormal {
            mean: cost(mean)?,
            variation: number(variation, "a coefficient of variation, 0 to 1000", |cv| {
                (0.0..=VARIATION_MAX).contains(&cv)
            })?,
        },
        ["pareto", mean, alpha] => Cost::Pareto {
            mean: cost(mean)?,
            alpha: number(alpha, "an exponent above 1, below which there is no mean, and at most 1000", |alpha| {
                alpha > 1.0 && alpha <= ALPHA_MAX
            })?,
        },
        ["bimodal", share, short, long] => {
            let share = number(share, "a share between 0 and 1", |share| 0.0 < share && share < 1.0)?;
            return Ok(vec![
                Class { share, cost: Cost::Fixed(cost(short)?) },
                Class { share: 1.0 - share, cost: Cost::Fixed(cost(long)?) },
            ]);
        }
        _ => return Err(WorkloadError::Unknown(text.to_owned())),
    };
    Ok(vec![Class { share: 1.0, cost }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Numbers and durations of which some are right, some at a bound, and some far beyond all sense.
    fn part() -> impl Strategy<Value = String> {
        prop_oneof![
            "[0-9]{1,24}(ns|us|ms|s|min|h)",
            "[0-9]{0,3}[.]?[0-9]{0,3}(e-?[0-9]{1,3})?",
            prop::sample::select(vec![
                "1ns",
                "1us",
                "1h",
                "1000h",
                "0us",
                "1e300",
                "nan",
                "inf",
                "-1",
                "1000",
                "0.5",
                "1.0000000001"
            ])
            .prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        // Is any text either a workload of which every draw is a cost within its bounds, or refused with what is
        // allowed?
        #[test]
        fn any_form_is_drawn_from_or_refused(
            form in prop::sample::select(vec!["fixed", "exponential", "lognormal", "pareto", "bimodal", "uniform"]),
            parts in prop::collection::vec(part(), 0..4),
        ) {
            let text = [&[form.to_owned()], parts.as_slice()].concat().join(":");
            match text.parse::<Workload>() {
                Ok(workload) => {
                    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
                    for _ in 0..50 {
                        let (class, cost) = workload.draw(&mut rng);
                        prop_assert!(usize::from(class) < workload.classes().len());
                        prop_assert!(Nanos::ZERO < cost && cost <= COST_MAX, "{}: {}", text, cost);
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn a_bimodal_form_numbers_its_classes_as_written() {
        let workload: Workload = "bimodal:0.25:2ms:20us".parse().expect("a workload");
        let costs: Vec<Nanos> = workload.classes().iter().map(|class| class.cost.mean()).collect();
        assert_eq!(costs, [Nanos::from_millis(2), Nanos::from_micros(20)]);
        assert_eq!(workload.name(), "bimodal:0.25:2ms:20us");
    }

    #[test]
    fn errors_name_what_is_allowed() {
        for (text, expected) in [
            ("extreme", "extreme-bimodal"),
            ("extreme", "bimodal:P:A:B"),
            ("", "is not a workload"),
            ("bimodal:0.5:1us", "write bimodal:P:A:B"),
            ("bimodal:1.5:1us:2us", "a share between 0 and 1"),
            ("bimodal:0.5:1:2us", "`1` is not a duration"),
            ("fixed:0us", "`0us` in `fixed:0us` is out of range: a cost is 1ns to 1h"),
            ("fixed:61min", "`61min` in `fixed:61min` is out of range: a cost is 1ns to 1h"),
            ("bimodal:0.5:1us:99999999999999h", "`99999999999999h` is too long"),
            ("pareto:1us:1", "above 1"),
            ("lognormal:1us:nan", "`nan` in `lognormal:1us:nan` is not a coefficient of variation, 0 to 1000"),
            ("lognormal:1us:1e300", "`1e300` in `lognormal:1us:1e300` is not a coefficient of variation, 0 to 1000"),
            ("pareto:1us:1e9", "at most 1000"),
            ("file", "write file:PATH"),
            ("file:", "write file:PATH"),
            ("fixed:", "write fixed:D"),
        ] {
            let error = Workload::from_str(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
