//! The types of values: parsing the text of one value, and showing it again. A refusal gives the
//! reason; the allowed values are in the table of settings.

use crate::fate::labels;
use crate::sched::policy::rows;
use crate::sched::{Entry, PolicyName, name_here};
use crate::time::{DURATION_FORM, DurationError, Nanos, parse_duration};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// The most workers a server starts; far above any machine that the policies were measured or
/// simulated on.
pub const WORKERS_MAX: usize = 1_024;
/// The most pools a server has. A reply names its pool in one byte, and a workload has no more than
/// eight classes.
pub const POOLS_MAX: usize = 8;
/// The most addresses a server listens on: each receives on a socket of every worker, and a search
/// tries them all.
pub const LISTEN_MAX: usize = 16;
/// The most sockets a server has: one for each worker on each address.
pub const SOCKETS_MAX: usize = 4_096;
/// The most source ports a server rejects: the list is searched for every datagram.
pub const REJECTED_PORTS_MAX: usize = 64;
/// The most trusted networks: each request is compared with all of them.
pub const TRUSTED_NETWORKS_MAX: usize = 16;

labels! {
    /// Whether the server may look at a request's class before it has served it.
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Classify {
        /// It may not: class, cost and type of a request only label metrics, afterwards.
        None = "none",
        /// The class in the request's header chooses the pool.
        Header = "header",
    }
    /// What the client of a request hears that was shed.
    ShedAnswers {
        /// A short reply: how the request ended, and when to send it again.
        Short = "short",
        /// Nothing.
        Silence = "silence",
    }
    /// Whether the kernel turns requests away while the server is overloaded.
    Gate {
        /// A share of what comes from sources that use too much CPU time.
        Auto = "auto",
        /// None.
        Off = "off",
    }
    /// What it means to spend CPU time.
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Burn {
        /// A CPU is busy for that long.
        Cpu = "cpu",
        /// The worker sleeps for that long: emulated cores, for hosts with fewer cores than
        /// workers.
        Sleep = "sleep",
    }
    /// What is run for each request.
    HandlerName {
        /// Sends the payload back.
        Echo = "echo",
        /// Burns the CPU time that the header asks for, with a checkpoint per microsecond.
        Spin = "spin",
        /// Burns as `Spin` does, heavy requests on several workers at once.
        Fork = "fork",
    }
    /// The least severe log lines that are written.
    LogLevel {
        /// None at all.
        Off = "off",
        /// What needs a remedy.
        Error = "error",
        /// What may need one.
        Warn = "warn",
        /// What changes the state of a server.
        Info = "info",
        /// What helps to find mistakes.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
    /// How log lines are written.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

/// The notation of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// In quotes.
    Text,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
}

/// How a setting is written.
pub(super) struct Form<T> {
    pub(super) shape: Shape,
    /// The allowed values in words.
    pub(super) allowed: fn() -> String,
    pub(super) parse: fn(&str) -> Result<T, Refusal>,
    /// The text that `parse` reads as this value.
    pub(super) show: fn(&T) -> String,
}

/// One of a fixed list of names: those of the type's values.
macro_rules! choice {
    ($type:ident) => {
        Form {
            shape: Shape::Text,
            allowed: || $type::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
            parse: |text| value::chosen(text, $type::ALL.as_ref(), |one| one.name()),
            show: |one| one.name().to_owned(),
        }
    };
}
pub(super) use choice;

/// Any text that `parse` takes.
macro_rules! text {
    ($allowed:literal, $parse:expr, $show:expr $(,)?) => {
        Form { shape: Shape::Text, allowed: || $allowed.to_owned(), parse: $parse, show: $show }
    };
}
pub(super) use text;

/// `true` or `false`.
pub(super) const SWITCH: Form<bool> = Form {
    shape: Shape::Switch,
    ..text!("true, false", |text| text.parse().map_err(|_| "neither true nor false".to_owned()), ToString::to_string)
};

/// A whole number of `LOW` to `HIGH`.
pub(super) const fn count<T: TryFrom<u64> + Display, const LOW: u64, const HIGH: u64>() -> Form<T> {
    let allowed = || format!("{LOW} to {HIGH}");
    Form { shape: Shape::Count, allowed, parse: |text| number(text, LOW..=HIGH), show: T::to_string }
}

/// The reason why a text is not a value of its setting.
pub(super) type Refusal = String;

/// The one of `all` that is called `text`.
pub(super) fn chosen<T: Copy>(text: &str, all: &[T], name: fn(&T) -> &'static str) -> Result<T, Refusal> {
    let found = all.iter().find(|one| name(one) == text);
    found.copied().ok_or_else(|| format!("no such name{}", suggestion(text, all.iter().map(name))))
}

/// `, did you mean X?` for the candidate of which `written` looks like a misspelling, or nothing.
pub(super) fn suggestion<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, &candidate.to_lowercase()), candidate))
        // A misspelling changes a letter or two, not most of the word.
        .filter(|(slips, candidate)| *slips <= (candidate.len() / 3).max(1))
        .min_by_key(|(slips, _)| *slips)
        .map_or_else(String::new, |(_, candidate)| format!(", did you mean {candidate}?"))
}

/// A policy; one under another name is told the name here.
pub(super) fn policy(text: &str) -> Result<PolicyName, Refusal> {
    chosen(text, PolicyName::ALL, |policy| policy.name()).map_err(|refusal| match &*name_here(text) {
        "" => refusal,
        here => format!("no policy is called {text:?}{here}"),
    })
}

/// What `--help` says of a policy.
pub(super) fn policy_line(policy: &PolicyName) -> String {
    let Entry { help, not_for, .. } = policy.entry();
    format!("{policy}: {help}. Not for {not_for}.")
}

/// A whole number within `bounds`.
pub(super) fn number<T: TryFrom<u64>>(text: &str, bounds: RangeInclusive<u64>) -> Result<T, Refusal> {
    // Digits alone: no sign, and a number too long for a u64 is out of range rather than no number.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number".to_owned());
    }
    let within = text.parse().ok().filter(|number| bounds.contains(number));
    within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| "out of range".to_owned())
}

/// A number of workers.
fn workers(text: &str) -> Result<usize, Refusal> {
    number(text, 1..=WORKERS_MAX as u64)
}

/// A number of groups; 0 for `auto`.
pub(super) fn groups(text: &str) -> Result<usize, Refusal> {
    if text == "auto" { Ok(0) } else { workers(text) }
}

/// The text of `value`, or the name for none.
pub(super) fn option_text(value: Option<impl Display>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

/// The texts of `values`, separated by commas.
pub(crate) fn list_text(values: &[impl Display]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The same, and `none` where there is none.
pub(super) fn list_or_none(values: &[impl Display]) -> String {
    if values.is_empty() { "none".to_owned() } else { list_text(values) }
}

/// A duration with its unit, within `bounds`.
pub(super) fn duration(text: &str, bounds: RangeInclusive<Nanos>) -> Result<Nanos, Refusal> {
    match parse_duration(text) {
        Ok(duration) if bounds.contains(&duration) => Ok(duration),
        Ok(_) | Err(DurationError::TooLong(_)) => Err("out of range".to_owned()),
        Err(DurationError::Form(_)) => Err(format!("not a duration; write {DURATION_FORM}")),
    }
}

/// What `parse` makes of the parts of `text`, which commas separate. There are at most `most` of
/// these `things`, and `clash` says why two cannot be in one list.
pub(super) fn list<T>(
    text: &str,
    (most, things): (usize, &str),
    parse: impl Fn(&str) -> Result<T, Refusal>,
    clash: impl Fn(&T, &T) -> Option<Refusal>,
) -> Result<Vec<T>, Refusal> {
    let mut values = Vec::new();
    for part in text.split(',') {
        let value = parse(part.trim())?;
        if let Some(refusal) = values.iter().find_map(|earlier| clash(earlier, &value)) {
            return Err(refusal);
        }
        if values.len() == most {
            return Err(format!("more than {most} {things}"));
        }
        values.push(value);
    }
    Ok(values)
}

/// A group of workers that serves one weight of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Pool {
    /// A lower-case letter, then lower-case letters, digits and `-`.
    pub name: String,
    /// The number of workers in the pool, at least 1.
    pub workers: usize,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.workers)
    }
}

/// What [`rows::default_pools`] says, with names.
pub(super) fn default_pools(workers: usize) -> Vec<Pool> {
    let pool = |(name, workers): (&str, usize)| Pool { name: name.to_owned(), workers };
    ["front", "heavy"].into_iter().zip(rows::default_pools(workers)).map(pool).collect()
}

pub(super) fn pools(text: &str) -> Result<Vec<Pool>, Refusal> {
    let clash =
        |one: &Pool, other: &Pool| (one.name == other.name).then(|| format!("two pools are called {}", other.name));
    let pools = list(text, (POOLS_MAX, "pools"), pool, clash)?;
    let workers: usize = pools.iter().map(|pool| pool.workers).sum();
    if workers > WORKERS_MAX {
        return Err(format!("{workers} workers in all, more than {WORKERS_MAX}"));
    }
    Ok(pools)
}

fn pool(part: &str) -> Result<Pool, Refusal> {
    let (name, count) = part.split_once('=').ok_or_else(|| format!("{part:?} is not a name, = and a count"))?;
    let (name, count) = (name.trim(), count.trim());
    let well_named = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    if !well_named {
        return Err(format!("{name:?} is no name for a pool: it starts with a-z and goes on with a-z, 0-9 or -"));
    }
    let workers = workers(count).map_err(|refusal| match count {
        "0" => format!("pool {name} has no worker"),
        _ => format!("the count of pool {name}, {count:?}, is {refusal}, with 1 to {WORKERS_MAX} allowed"),
    })?;
    Ok(Pool { name: name.to_owned(), workers })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a misspelling recognised, and a different word left alone?
    #[test]
    fn suggestions_are_for_slips_only() {
        let policies = ["isolated", "global", "steal", "pools"];
        for (written, meant) in [("pool", "pools"), ("stael", "steal"), ("Pools", "pools"), ("gloabl", "global")] {
            assert_eq!(suggestion(written, policies), format!(", did you mean {meant}?"));
        }
        for written in ["", "x", "darc", "round-robin"] {
            assert_eq!(suggestion(written, policies), "", "{written}");
        }
    }

    // What is accepted as a number, and where do its bounds lie?
    #[test]
    fn counts_are_digits_within_bounds() {
        assert_eq!(workers("1"), Ok(1));
        assert_eq!(workers("1024"), Ok(1_024));
        for text in ["0", "1025", "18446744073709551616"] {
            assert_eq!(workers(text), Err("out of range".to_owned()), "{text}");
        }
        for text in ["", "-1", "+1", "1.5", "two", "1 ", "0x10"] {
            assert_eq!(workers(text), Err("not a whole number".to_owned()), "{text:?}");
        }
    }

    // Does a duration need its unit, and are both bounds inclusive?
    #[test]
    fn durations_have_units_and_bounds() {
        let bounds = || Nanos::from_micros(1)..=Nanos::from_secs(1);
        for (text, nanos) in [("1us", 1_000), ("50us", 50_000), ("0.5ms", 500_000), ("1s", 1_000_000_000)] {
            assert_eq!(duration(text, bounds()), Ok(Nanos::new(nanos)), "{text}");
        }
        for text in ["0s", "999ns", "1001ms", "2h"] {
            assert_eq!(duration(text, bounds()), Err("out of range".to_owned()), "{text}");
        }
        for text in ["", "50", "us", "50 parsecs", "-1s"] {
            assert!(duration(text, bounds()).unwrap_err().starts_with("not a duration"), "{text:?}");
        }
    }

    // Which lists of pools are refused, and for which reason?
    #[test]
    fn pools_are_named_staffed_and_few() {
        let pool = |name: &str, workers| Pool { name: name.to_owned(), workers };
        assert_eq!(pools("front=3, heavy=11"), Ok(vec![pool("front", 3), pool("heavy", 11)]));
        assert_eq!(pools("a-1=1024"), Ok(vec![pool("a-1", 1_024)]));
        for (text, reason) in [
            ("", "is not a name"),
            ("front", "is not a name"),
            ("front=1,", "is not a name"),
            ("front=0", "no worker"),
            ("front=-1", "not a whole number"),
            ("front=1=2", "not a whole number"),
            ("=1", "no name for a pool"),
            ("Front=1", "no name for a pool"),
            ("1st=1", "no name for a pool"),
            ("a=1,b=1,a=2", "two pools are called a"),
            ("a=1000,b=25", "1025 workers"),
            ("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "more than 8 pools"),
        ] {
            let refusal = pools(text).unwrap_err();
            assert!(refusal.contains(reason), "{text:?}: {refusal}");
        }
    }

    // Does a misspelt name get a suggestion?
    #[test]
    fn choices_suggest() {
        assert_eq!(policy("pools").map(PolicyName::name), Ok("pools"));
        assert_eq!(policy("polls"), Err("no such name, did you mean pools?".to_owned()));
        assert_eq!(policy("srpt"), Err("no such name".to_owned()));
    }
}
