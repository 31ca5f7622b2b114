//! From text to a [`Workload`]: the presets and the general forms.

use super::{ALPHA_MAX, BOUNDED_ALPHA_MIN, COST_MAX, Class, Cost, RECORDED_BYTES_MAX, VARIATION_MAX, Workload};
use super::{cost, lines};
use forebay_base::fate::CLASSES;
use forebay_base::time::Nanos;
use std::str::FromStr;

/// The presets: workloads on which the literature compares schedulers. Each class has its share of
/// requests and its cost in ns.
///
/// TPC-C has the five transactions of Persephone's table 1, numbered by cost: Payment, OrderStatus,
/// NewOrder, Delivery, StockLevel. A chunk of `micropools` is one SHA-1 of a short string, about a
/// microsecond. In `packet-chain`, a packet is searched for line ends and makes 60 random reads,
/// about 2 us. One in a thousand continues with two tasks of 20 ms.
pub const PRESETS: [(&str, &[(f64, u64)]); 8] = [
    ("extreme-bimodal", &[(0.995, 500), (0.005, 500_000)]),
    ("high-bimodal", &[(0.5, 1_000), (0.5, 100_000)]),
    ("zygos-bimodal-1", &[(0.9, 500), (0.1, 5_500)]),
    ("zygos-bimodal-2", &[(0.999, 500), (0.001, 500_500)]),
    ("tpcc", &[(0.44, 5_700), (0.04, 6_000), (0.44, 20_000), (0.04, 88_000), (0.04, 100_000)]),
    ("rocksdb", &[(0.5, 1_500), (0.5, 635_000)]),
    ("micropools", &[(0.9999, 1_000), (0.0001, 2_000_000)]),
    ("packet-chain", &[(0.999, 2_000), (0.001, 40_002_000)]),
];

/// The general forms, as help and errors show them. `D`, `MEAN`, `A` and `B` are durations of at
/// most [`COST_MAX`]. `P` is a share of requests, between 0 and 1. `CV` is standard deviation over
/// mean, at most [`VARIATION_MAX`]. `ALPHA` is above 1 and at most [`ALPHA_MAX`]. `bounded-pareto`:
/// costs between `A` and `B`, and `ALPHA` from [`BOUNDED_ALPHA_MIN`]. `bimodal`: share `P` costs
/// `A`, the rest `B`. `mix`: a class for each part, of share `P`, with the costs of any form of one
/// class. `file`: costs from the lines of the file at `PATH`, `COST` or `CLASS COST`. Every line is
/// equally likely. Blank lines and comments after `#` do not count.
pub const FORMS: [&str; 8] = [
    "fixed:D",
    "exponential:MEAN",
    "lognormal:MEAN:CV",
    "pareto:MEAN:ALPHA",
    "bounded-pareto:A:B:ALPHA",
    "bimodal:P:A:B",
    MIX,
    "file:PATH",
];

const MIX: &str = "mix:P@FORM+P@FORM...";

/// The sum of the shares of a mix may differ from 1 by this much.
const SHARES_TOLERANCE: f64 = 1e-6;

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        let classes = match preset(text) {
            Some(classes) => classes,
            None => form(text)?,
        };
        Ok(Workload { name: text.to_owned(), classes, beside: Nanos::ZERO })
    }
}

fn preset(name: &str) -> Option<Vec<Class>> {
    let (_, parts) = PRESETS.into_iter().find(|(preset, _)| *preset == name)?;
    Some(parts.iter().map(|&(share, ns)| Class { share, cost: Cost::Fixed(Nanos::new(ns)) }).collect())
}

/// The names of the presets, as help and errors show them.
fn preset_names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

/// The presets and the forms, explained.
pub fn forms_help() -> String {
    format!(
        "Presets: {}\nForms: {}\n\nD, MEAN, A and B are durations like 0.5us or 2ms; bimodal:P:A:B means that the share \
         P costs A, the rest B; CV is the standard deviation over the mean, 0 to 1000; ALPHA is above 1, at most 1000, \
         and for bounded-pareto, whose costs are A to B, from 0.01 on; mix:P@FORM+P@FORM... has a class for each part, like \
         mix:0.9@lognormal:3us:0.3+0.1@fixed:1ms, whose shares sum to 1; a cost is 1ns to 1h. \
         file:PATH draws from a recorded trace: a file with the CPU time of one request in each line, written as 20us, or \
         with its class as 0 20us or long 2ms; # begins a comment. Every line is as likely as any other.",
        preset_names(),
        FORMS.join(", ")
    )
}

fn form(text: &str) -> Result<Vec<Class>, String> {
    if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
        let classes = lines::open(path.as_ref()).and_then(|file| cost::parse(file, RECORDED_BYTES_MAX));
        return classes.map_err(|problem| format!("file {path}: {problem}"));
    }
    if let Some(parts) = text.strip_prefix("mix:").filter(|parts| !parts.is_empty()) {
        return mix(text, parts);
    }
    let unknown = || {
        let (presets, forms) = (preset_names(), FORMS.join(", "));
        format!("`{text}` is not a workload: name one of {presets}, or write a form: {forms}")
    };
    let parts: Vec<&str> = text.split(':').collect();
    let form = FORMS.into_iter().find(|form| form.split(':').next() == Some(parts[0])).ok_or_else(unknown)?;
    if parts.len() != form.split(':').count() || parts.contains(&"") {
        return Err(wrong_parts(text, form));
    }
    let cost = |part: &str| match part.parse::<Nanos>().map_err(|error| error.to_string())? {
        cost if cost > Nanos::ZERO && cost <= COST_MAX => Ok(cost),
        _ => Err(format!("`{part}` in `{text}` is out of range: a cost is 1ns to 1h")),
    };
    let number = |part: &str, allowed: &'static str, fits: fn(f64) -> bool| number(text, part, allowed, fits);
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
        ["bounded-pareto", low, high, alpha] => {
            let (low, high) = (cost(low)?, cost(high)?);
            let alpha =
                number(alpha, "an exponent, 0.01 to 1000", |alpha| (BOUNDED_ALPHA_MIN..=ALPHA_MAX).contains(&alpha))?;
            if low >= high {
                return Err(format!("`{text}` has no range: the first cost must be below the second"));
            }
            Cost::BoundedPareto { low, high, alpha }
        }
        ["bimodal", share, short, long] => {
            let share = number(share, SHARE, is_share)?;
            return Ok(vec![
                Class { share, cost: Cost::Fixed(cost(short)?) },
                Class { share: 1.0 - share, cost: Cost::Fixed(cost(long)?) },
            ]);
        }
        _ => return Err(unknown()),
    };
    Ok(vec![Class { share: 1.0, cost }])
}

const SHARE: &str = "a share between 0 and 1";

fn is_share(share: f64) -> bool {
    0.0 < share && share < 1.0
}

fn number(text: &str, part: &str, allowed: &'static str, fits: fn(f64) -> bool) -> Result<f64, String> {
    let number = part.parse().ok().filter(|&number: &f64| number.is_finite() && fits(number));
    number.ok_or_else(|| format!("`{part}` in `{text}` is not {allowed}"))
}

fn wrong_parts(text: &str, form: &str) -> String {
    format!("`{text}` has too few or too many parts: write {form}")
}

fn mix(text: &str, parts: &str) -> Result<Vec<Class>, String> {
    let class = |part: &str| {
        let (share, form_text) = part.split_once('@').ok_or_else(|| wrong_parts(text, MIX))?;
        let share = number(text, share, SHARE, is_share)?;
        // A part of a mix may not be a file or a mix: such a form would need classes within
        // classes.
        let classes = match ["file:", "mix:"].iter().any(|several| form_text.starts_with(several)) {
            true => Vec::new(),
            false => form(form_text)?,
        };
        match <[Class; 1]>::try_from(classes) {
            Ok([Class { cost, .. }]) => Ok(Class { share, cost }),
            Err(_) => Err(format!(
                "`{form_text}` is no part of a mix, which is a form of one class: fixed, exponential, lognormal, pareto or \
                 bounded-pareto"
            )),
        }
    };
    let classes = parts.split('+').map(class).collect::<Result<Vec<Class>, String>>()?;
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if classes.len() > CLASSES || (sum - 1.0).abs() > SHARES_TOLERANCE {
        return Err(format!(
            "the shares of the {} parts of `{text}` sum to {sum:.6}: write 1 to {CLASSES} parts whose shares sum to 1",
            classes.len()
        ));
    }
    Ok(classes.into_iter().map(|class| Class { share: class.share / sum, ..class }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Numbers and durations: some are right, some are at a bound, and some are far outside all
    /// bounds.
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

        // Is any text either refused with a message about what is allowed, or a workload that draws
        // only costs within its bounds?
        #[test]
        fn any_form_is_drawn_from_or_refused(
            form in prop::sample::select(vec![
                "fixed", "exponential", "lognormal", "pareto", "bounded-pareto", "bimodal", "uniform",
            ]),
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
                Err(error) => prop_assert!(!error.is_empty()),
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
    fn a_mix_has_a_class_for_each_part() {
        let workload: Workload = "mix:0.75@fixed:20us+0.25@lognormal:2ms:0.3".parse().expect("a workload");
        let classes: Vec<(f64, Nanos)> =
            workload.classes().iter().map(|class| (class.share, class.cost.mean())).collect();
        assert_eq!(classes, [(0.75, Nanos::from_micros(20)), (0.25, Nanos::from_millis(2))]);
        let nine = ["0.111111111@fixed:1us"; 9].join("+");
        let error = format!("mix:{nine}").parse::<Workload>().expect_err("nine classes");
        assert!(error.contains("9 parts") && error.contains("1 to 8 parts"), "{error}");
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
            ("bounded-pareto:1us:100ms", "write bounded-pareto:A:B:ALPHA"),
            ("bounded-pareto:1us:1us:1.1", "the first cost must be below the second"),
            ("bounded-pareto:1us:1ms:0", "an exponent, 0.01 to 1000"),
            ("mix", "write mix:P@FORM+P@FORM..."),
            ("mix:0.5@fixed:1us", "the shares of the 1 parts of `mix:0.5@fixed:1us` sum to 0.500000"),
            ("mix:1e-8@fixed:1us+2@fixed:2us", "`2` in `mix:1e-8@fixed:1us+2@fixed:2us` is not a share"),
            ("mix:0.5@fixed:1us+0.5@bimodal:0.5:1us:2us", "`bimodal:0.5:1us:2us` is no part of a mix"),
            ("mix:0.5@fixed:1us+0.5@mix:0.5@fixed:1us", "is no part of a mix"),
            ("mix:0.5@fixed:1us+0.5@tpcc", "`tpcc` is not a workload"),
            ("mix:0.5+0.5@fixed:1us", "write mix:P@FORM+P@FORM..."),
            ("file", "write file:PATH"),
            ("file:", "write file:PATH"),
            ("fixed:", "write fixed:D"),
        ] {
            let error = Workload::from_str(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
