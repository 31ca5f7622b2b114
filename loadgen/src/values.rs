//! Values of flags that several commands have.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use forebay::config::{Config, Objective};
use forebay::time::Nanos;
use std::ops::RangeBounds;

/// The policies that `simulate`, `plan` and `compare` take by default. They are what most servers
/// do today, the two that share work in other ways, and the default policy.
pub(crate) const COMPARED: &str = "isolated,steal,pools,auto";

/// What `auto` optimises, by its name.
pub(crate) fn objective() -> impl TypedValueParser<Value = Objective> {
    let value = |objective: Objective| {
        PossibleValue::new(objective.name()).help(match objective {
            Objective::Latency => {
                "p99.9 of the latency of all requests. First come, first served; short requests first, the longest \
                 0.05 % last"
            }
            _ => {
                "p99.9 of the slowdown (latency over service time), and the mean latency. The longer a request has \
                 run, the later it goes"
            }
        })
    };
    let named = |name: String| Objective::ALL.into_iter().find(|objective| objective.name() == name);
    PossibleValuesParser::new(Objective::ALL.map(value)).map(move |name| named(name).expect("a possible value"))
}

/// A number in `range`.
///
/// # Errors
/// The `remedy` for any other text.
pub(crate) fn number(text: &str, range: impl RangeBounds<f64>, remedy: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| remedy.to_owned())
}

/// Requests per second.
///
/// # Errors
/// What is allowed.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let remedy = "write requests per second, 0.001 to 1000000000, like 8000 or 8000/s";
    number(text.strip_suffix("/s").unwrap_or(text), 0.001..=1e9, remedy)
}

/// The most values of a list of ranges.
const LISTED_MAX: usize = 1_000;

/// Parses a list such as `0.1..0.5:0.2,0.9`, each number by `one`. A range without a step has the
/// `usual` step.
///
/// # Errors
/// The error of `one`, or a message that names the wrong range.
pub(crate) fn list(text: &str, usual: Option<&str>, one: fn(&str) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        let Some((from, rest)) = part.split_once("..") else {
            values.push(one(part)?);
            continue;
        };
        let no_range = || format!("`{part}` is no range: write FROM..TO:STEP with at most {LISTED_MAX} steps");
        let (to, step) = rest.split_once(':').or(usual.map(|step| (rest, step))).ok_or_else(no_range)?;
        let (from, to, step) = (one(from)?, one(to)?, one(step)?);
        let steps = ((to - from) / step + 1e-9).floor();
        if steps < 0.0 || values.len() as f64 + steps >= LISTED_MAX as f64 {
            return Err(no_range());
        }
        // Rounded, so that 0.1 + 2 x 0.1 is written as 0.3.
        values.extend((0..=steps as u32).map(|n| ((from + f64::from(n) * step) * 1e9).round() / 1e9));
    }
    Ok(values)
}

/// Parses a duration above zero, such as `20us`.
///
/// # Errors
/// A message for the user, if `text` is no duration or zero.
pub(crate) fn positive(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>().map_err(|error| error.to_string())? {
        Nanos::ZERO => Err("it must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// The number of workers: as `given` by `flag`, else the sum of the workers `in_pools`.
///
/// # Errors
/// A message for the user, if both are given and differ.
pub(crate) fn workers(flag: &str, given: Option<u16>, in_pools: Option<usize>) -> Result<Option<usize>, String> {
    let given = given.map(usize::from);
    match (given, in_pools) {
        (Some(workers), Some(sum)) if workers != sum => {
            Err(format!("{flag} is {workers}, but the pools of --pools have {sum} workers: correct one of them"))
        }
        _ => Ok(given.or(in_pools)),
    }
}

/// The workers of each pool of `front=3,heavy=11`, as a server reads it.
///
/// # Errors
/// What a server says to it.
pub(crate) fn pools(text: &str) -> Result<Vec<usize>, String> {
    let config = Config::from_pairs([("pools", text)]);
    let config =
        config.map_err(|problems| problems.iter().map(|problem| &*problem.message).collect::<Vec<_>>().join("; "))?;
    Ok(config.pools.iter().map(|pool| pool.workers).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_sizes() {
        assert_eq!(pools("front=3, heavy=11"), Ok(vec![3, 11]));
        for text in ["", "3", "best", "front=0", "front=x", "a=1000,b=25", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"] {
            assert!(pools(text).is_err_and(|error| error.contains("like front=3,heavy=11")), "{text} was taken");
        }
    }
}
