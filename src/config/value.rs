//! The types of values: parses and shows the text of one value. An error gives the reason; the
//! table of settings has the allowed values.

use crate::fate::labels;
use crate::sched::policy::rows;
use crate::sched::{Entry, PolicyName, name_here};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// The most workers of a server, far above any machine on which the policies were measured or
/// simulated.
pub const WORKERS_MAX: usize = 1_024;
/// The most pools of a server: a reply names the pool in one byte, and a workload has at most eight
/// classes.
pub const POOLS_MAX: usize = 8;
/// The most addresses of a server. Every worker has a socket on each, and a search for work tries
/// them all.
pub const LISTEN_MAX: usize = 16;
/// The most sockets of a server: one per worker and address.
pub const SOCKETS_MAX: usize = 4_096;
/// The most source ports that a server rejects. Every datagram is compared with all of them.
pub const REJECTED_PORTS_MAX: usize = 64;
/// The most trusted networks of a server. Every request is compared with all of them.
pub const TRUSTED_NETWORKS_MAX: usize = 16;

labels! {
    /// Whether a policy may use a request's class before the request has been served.
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Classify {
        /// Policies may not use the class: it only labels metrics, after the request has been
        /// served.
        None = "none",
        /// The class in the request's header chooses the pool or level.
        Header = "header",
    }
    /// What the client of a shed request receives.
    ShedAnswers {
        /// A short reply that says how the request ended and when to send it again.
        Short = "short",
        /// Shed requests get no reply.
        Silence = "silence",
    }
    /// Whether the kernel drops requests while the server is overloaded.
    Gate {
        /// Drops a share of the requests from sources that use too much CPU time.
        Auto = "auto",
        /// Drops nothing, except what finds a full socket buffer.
        Off = "off",
    }
    /// How the bench service spends CPU time.
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Burn {
        /// The CPU computes for that long.
        Cpu = "cpu",
        /// The worker sleeps for that long, which emulates a core. For hosts with fewer cores than
        /// workers.
        Sleep = "sleep",
    }
    /// What the bench service does for each request.
    HandlerName {
        /// Sends the payload back.
        Echo = "echo",
        /// Burns the CPU time that the header asks for, with a checkpoint every microsecond.
        Spin = "spin",
        /// Burns as `Spin` does, but splits heavy requests over several workers.
        Fork = "fork",
    }
    /// The least severe log lines that are written.
    LogLevel {
        /// No log lines.
        Off = "off",
        /// Failures that need action.
        Error = "error",
        /// Events that may need action.
        Warn = "warn",
        /// Changes of the server's state.
        Info = "info",
        /// Details for finding mistakes.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
    /// The format of log lines.
    LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

/// How the file writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text, which the file writes in quotes.
    Text,
    /// A whole number, which the file writes without quotes.
    Count,
    /// `true` or `false`, without quotes.
    Switch,
}

/// How the text of a setting is parsed and shown.
pub(super) struct Form<T> {
    pub(super) shape: Shape,
    /// The allowed values in words.
    pub(super) allowed: fn() -> String,
    pub(super) parse: fn(&str) -> Result<T, Refusal>,
    /// Shows a value as text that `parse` reads back.
    pub(super) show: fn(&T) -> String,
}

/// A [`Form`] for an enum: one of the type's names.
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

/// A [`Form`] for any text that `parse` accepts.
macro_rules! text {
    ($allowed:literal, $parse:expr, $show:expr $(,)?) => {
        Form { shape: Shape::Text, allowed: || $allowed.to_owned(), parse: $parse, show: $show }
    };
}
pub(super) use text;

/// A [`Form`] for `true` or `false`.
pub(super) const SWITCH: Form<bool> = Form {
    shape: Shape::Switch,
    ..text!("true, false", |text| text.parse().map_err(|_| "neither true nor false".to_owned()), ToString::to_string)
};

/// A [`Form`] for a whole number from `LOW` to `HIGH`.
pub(super) const fn count<T: TryFrom<u64> + Display, const LOW: u64, const HIGH: u64>() -> Form<T> {
    let allowed = || format!("{LOW} to {HIGH}");
    Form { shape: Shape::Count, allowed, parse: |text| number(text, LOW..=HIGH), show: T::to_string }
}

/// Why a text is not a value of its setting.
pub(super) type Refusal = String;

/// The element of `all` whose name is `text`.
pub(super) fn chosen<T: Copy>(text: &str, all: &[T], name: fn(&T) -> &'static str) -> Result<T, Refusal> {
    let found = all.iter().find(|one| name(one) == text);
    found.copied().ok_or_else(|| format!("no such name{}", suggestion(text, all.iter().map(name))))
}

/// The hint `, did you mean X?` for the candidate nearest to `written`, or nothing if none is near.
pub(super) fn suggestion<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (slips(&written, &candidate.to_lowercase()), candidate))
        // Few letters differ in a misspelling, not most of the word.
        .filter(|(slips, candidate)| *slips <= (candidate.len() / 3).max(1))
        .min_by_key(|(slips, _)| *slips)
        .map_or_else(String::new, |(_, candidate)| format!(", did you mean {candidate}?"))
}

#[cfg(feature = "admin")]
use strsim::damerau_levenshtein as slips;

/// Without the feature `admin`, which brings the crate for it, no word is near another.
#[cfg(not(feature = "admin"))]
fn slips(_: &str, _: &str) -> usize {
    usize::MAX
}

/// Parses a policy's name. For a name from the literature, the error gives the name used here.
pub(super) fn policy(text: &str) -> Result<PolicyName, Refusal> {
    chosen(text, PolicyName::ALL, |policy| policy.name()).map_err(|refusal| match &*name_here(text) {
        "" => refusal,
        here => format!("no policy is called {text:?}{here}"),
    })
}

/// The line of `--help` about a policy.
pub(super) fn policy_line(policy: &PolicyName) -> String {
    let Entry { help, not_for, .. } = policy.entry();
    format!("{policy}: {help}. Not for {not_for}.")
}

/// Parses a whole number within `bounds`.
pub(super) fn number<T: TryFrom<u64>>(text: &str, bounds: RangeInclusive<u64>) -> Result<T, Refusal> {
    // Only digits: no sign. A number too long for a `u64` is out of range.
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

/// Parses a number of groups; 0 = `auto`.
pub(super) fn groups(text: &str) -> Result<usize, Refusal> {
    if text == "auto" { Ok(0) } else { workers(text) }
}

/// The text of `value`, or `none` without one.
pub(super) fn option_text(value: Option<impl Display>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

/// The texts of `values`, separated by commas.
pub(crate) fn list_text(values: &[impl Display]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The texts of `values`, separated by commas; `none` for an empty list.
pub(super) fn list_or_none(values: &[impl Display]) -> String {
    if values.is_empty() { "none".to_owned() } else { list_text(values) }
}

/// Parses each part of `text`, separated by commas. There may be at most `most` of these `things`.
/// `clash` says why two values cannot both be in the list.
pub(super) fn list<T>(
    text: &str,
    most: usize,
    things: &str,
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

/// A pool: workers that share a queue, usually for requests of similar length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The pool's name: a lower-case letter, then lower-case letters, digits and `-`.
    pub name: String,
    /// Number of workers in the pool, at least 1.
    pub workers: usize,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.workers)
    }
}

/// The pools of [`rows::default_pools`], with their names.
pub(super) fn default_pools(workers: usize) -> Vec<Pool> {
    let pool = |(name, workers): (&str, usize)| Pool { name: name.to_owned(), workers };
    ["front", "heavy"].into_iter().zip(rows::default_pools(workers)).map(pool).collect()
}

pub(super) fn pools(text: &str) -> Result<Vec<Pool>, Refusal> {
    let clash =
        |one: &Pool, other: &Pool| (one.name == other.name).then(|| format!("two pools are called {}", other.name));
    let pools = list(text, POOLS_MAX, "pools", pool, clash)?;
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

    fn hint(meant: &str) -> String {
        // Without the feature, no word is near another.
        if cfg!(feature = "admin") { format!(", did you mean {meant}?") } else { String::new() }
    }

    // Is a misspelling recognised, and a different word left alone?
    #[test]
    fn suggestions_are_for_slips_only() {
        let policies = ["isolated", "global", "steal", "pools"];
        for (written, meant) in [("pool", "pools"), ("stael", "steal"), ("Pools", "pools"), ("gloabl", "global")] {
            assert_eq!(suggestion(written, policies), hint(meant));
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

    // Which lists of pools are refused, and with which reason?
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
        assert_eq!(policy("polls"), Err(format!("no such name{}", hint("pools"))));
        assert_eq!(policy("srpt"), Err("no such name".to_owned()));
    }
}
