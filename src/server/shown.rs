//! What a handler adds to `/metrics`: names of classes and reasons, and its own metrics.

use super::error::ServeError;
use crate::fate::{Malformed, REASONS, Refused};
use crate::metrics::{ALL_CLASSES, OwnKind, OwnValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The form of a name.
const WORD: &str = "a letter, then letters, digits and _";

/// Whether `name` has the form of [`WORD`].
fn is_word(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_word)
}

/// Checks a handler's names of `classes`, and of `reasons` to reject.
///
/// # Errors
/// [`ServeError::Name`] for the first name that is not allowed.
pub(super) fn check(classes: &[&'static str], reasons: &[&'static str]) -> Result<(), ServeError> {
    let of_server = [&Malformed::NAMES[..], &Refused::NAMES].concat();
    let unlike_all = "a name other than \"all\", which stands for all classes";
    words("CLASS_NAMES", classes, &[ALL_CLASSES], unlike_all)?;
    words("REASON_NAMES", reasons, &of_server, "a name that no reason of the server has")
}

/// Checks that the names have the form of [`WORD`], are all different, and are not in `taken`.
/// `unlike` says what is allowed instead of a taken name.
fn words(of: &'static str, names: &[&'static str], taken: &[&str], unlike: &'static str) -> Result<(), ServeError> {
    for (place, name) in names.iter().copied().enumerate() {
        let rules = [
            (is_word(name), WORD),
            (!taken.contains(&name), unlike),
            (!names[..place].contains(&name), "each name once"),
            (place < REASONS, "16 names"),
        ];
        if let Some(allowed) = broken(&rules) {
            return Err(ServeError::Name { of, name: name.to_owned(), allowed });
        }
    }
    Ok(())
}

/// What the first broken rule allows.
fn broken(rules: &[(bool, &'static str)]) -> Option<&'static str> {
    rules.iter().find(|(holds, _)| !holds).map(|(_, allowed)| *allowed)
}

/// The most own metrics of a handler, which bounds the page that is scraped every few seconds.
const OWN_MAX: usize = 256;

/// A handler's own count, which only grows. [`Server::counter`](crate::Server::counter) shows it.
/// A clone is the same count. Each addition writes a cache line that all workers share.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        // Ordering: relaxed here and below, because readers share only this one value.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current count.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A handler's own value, which may fall, and begins at zero.
/// [`Server::gauge`](crate::Server::gauge) shows it. A clone is the same value.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds `more`, which may be below zero.
    pub fn add(&self, more: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + more).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// The current value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// A handler's own metrics, each with its name and help.
pub(super) type Own = Vec<(OwnValue, Metric)>;

/// One of a handler's own metrics.
pub(super) enum Metric {
    Counter(Counter),
    Gauge(Gauge),
}

/// The current values of `own`.
pub(super) fn values(own: &Own) -> Vec<OwnValue> {
    let value = |metric: &Metric| match metric {
        Metric::Counter(counter) => counter.value() as f64,
        Metric::Gauge(gauge) => gauge.value(),
    };
    own.iter().map(|(own, metric)| OwnValue { value: value(metric), ..own.clone() }).collect()
}

/// Adds a metric to `own`.
///
/// # Errors
/// [`ServeError::Name`] if its name is not allowed.
pub(super) fn add(own: &mut Own, name: &str, help: &str, metric: Metric) -> Result<(), ServeError> {
    let (name, help) = (name.to_owned(), help.to_owned());
    let rules = [
        (is_word(&name), WORD),
        (!name.ends_with("_total"), "a name without _total, which a counter gets by itself"),
        (
            !["forebay_", "process_"].iter().any(|prefix| name.starts_with(prefix)),
            "a prefix that is neither forebay_ nor process_",
        ),
        (own.iter().all(|(other, _)| other.name != name), "each name once"),
        (own.len() < OWN_MAX, "256 metrics"),
    ];
    if let Some(allowed) = broken(&rules) {
        return Err(ServeError::Name { of: "metric", name, allowed });
    }
    let kind = if matches!(metric, Metric::Counter(_)) { OwnKind::Counter } else { OwnKind::Gauge };
    own.push((OwnValue { name, help, kind, value: 0.0 }, metric));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::CLASS_NAMES;

    // Are as many names allowed as there are counters? Is each broken rule reported with the name?
    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        const NAMES: [&str; REASONS + 1] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
        assert!(check(&[], &[]).is_ok() && check(&[], &NAMES[..REASONS]).is_ok() && check(&[], &["Opcode_2"]).is_ok());
        assert!(check(&CLASS_NAMES, &[]).is_ok() && check(&["magic"], &[]).is_ok());
        let bad: [(&[&'static str], &str, &str); 7] = [
            (&NAMES, "q", "16 names"),
            (&["fine", ""], "", "a letter, then"),
            (&["2nd"], "2nd", "a letter, then"),
            (&["no-cookie"], "no-cookie", "a letter, then"),
            (&["opcode", "rate", "opcode"], "opcode", "each name once"),
            (&["magic"], "magic", "a name that no reason of the server"),
            (&["cost_cap"], "cost_cap", "a name that no reason of the server"),
        ];
        for (names, name, allowed) in bad {
            let error = check(&[], names).expect_err("a bad name").to_string();
            let named = error.contains(&format!("REASON_NAMES: {name:?}: not allowed"));
            assert!(named && error.contains(&format!("allowed: {allowed}")), "{error}");
        }
        for (names, error) in [
            (["all", "b"], "CLASS_NAMES: \"all\": not allowed; allowed: a name other than \"all\""),
            (["a b", "b"], "CLASS_NAMES: \"a b\": not allowed; allowed: a letter, then"),
            (["b", "b"], "CLASS_NAMES: \"b\": not allowed; allowed: each name once"),
        ] {
            let said = check(&names, &[]).expect_err("a bad name").to_string();
            assert!(said.starts_with(error), "{said}");
        }
    }
}
