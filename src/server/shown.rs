//! What a handler shows on `/metrics` beside the server's own: names of classes and reasons, and metrics.

use super::{ServeError, Server};
use crate::fate::{Malformed, REASONS, Refused};
use crate::handler::Handler;
use crate::metrics::{ALL_CLASSES, OwnKind, OwnValue};

/// What a name is.
const WORD: &str = "a letter, then letters, digits and _";

/// Whether `name` is what [`WORD`] says.
fn is_word(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_word)
}

/// Checks the names of the classes and of the reasons to reject of a handler.
///
/// # Errors
/// [`ServeError::Name`] for the first name that is not allowed.
pub(super) fn check<H: Handler>() -> Result<(), ServeError> {
    classes(&H::CLASS_NAMES)?;
    reasons(H::REASON_NAMES)
}

fn classes(names: &[&'static str]) -> Result<(), ServeError> {
    words("CLASS_NAMES", names, &[ALL_CLASSES], "a name other than \"all\", which stands for all classes")
}

fn reasons(names: &[&'static str]) -> Result<(), ServeError> {
    let of_server = [&Malformed::NAMES[..], &Refused::NAMES].concat();
    words("REASON_NAMES", names, &of_server, "a name that no reason of the server has")
}

/// Whether these are words, all different, and none of them is one of `taken`, which says what is allowed then.
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

/// What the first of the rules that do not hold allows.
fn broken(rules: &[(bool, &'static str)]) -> Option<&'static str> {
    rules.iter().find(|(holds, _)| !holds).map(|(_, allowed)| *allowed)
}

/// The most metrics of the handler's own: a page that is scraped every few seconds has a bound.
const OWN_MAX: usize = 256;

/// How to read a metric.
pub(super) type Read = Box<dyn Fn() -> f64 + Send + Sync>;

impl Server {
    /// Shows what `read` gives as the counter `name` on `/metrics`, where it has the suffix `_total`. `read` is called at
    /// each scrape, on the thread of the admin endpoint: it must not wait.
    ///
    /// # Errors
    /// [`ServeError::Name`] unless the name is new, begins with a letter, and has letters, digits and `_` alone. Names
    /// that begin as the server's own do (`forebay_`, `process_`) are not allowed, and neither are more than 256.
    pub fn counter(
        self,
        name: &str,
        help: &str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<Server, ServeError> {
        self.metric(OwnKind::Counter, name, help, Box::new(read))
    }

    /// As [`Server::counter`], for a value that may fall, without a suffix.
    ///
    /// # Errors
    /// See [`Server::counter`].
    pub fn gauge(
        self,
        name: &str,
        help: &str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<Server, ServeError> {
        self.metric(OwnKind::Gauge, name, help, Box::new(read))
    }

    fn metric(mut self, kind: OwnKind, name: &str, help: &str, read: Read) -> Result<Server, ServeError> {
        let (name, help, own) = (name.to_owned(), help.to_owned(), &mut self.bound.own_metrics);
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
        own.push((OwnValue { name, help, kind, value: 0.0 }, read));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::CLASS_NAMES;

    // Are as many names allowed as there are counters, and is each rule that a name breaks said, with the name?
    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        const NAMES: [&str; REASONS + 1] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
        assert!(reasons(&[]).is_ok() && reasons(&NAMES[..REASONS]).is_ok() && reasons(&["Opcode_2"]).is_ok());
        assert!(classes(&CLASS_NAMES).is_ok() && classes(&["magic"]).is_ok());
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
            let error = reasons(names).expect_err("a bad name").to_string();
            let named = error.contains(&format!("REASON_NAMES: {name:?}: not allowed"));
            assert!(named && error.contains(&format!("allowed: {allowed}")), "{error}");
        }
        for (names, error) in [
            (["all", "b"], "CLASS_NAMES: \"all\": not allowed; allowed: a name other than \"all\""),
            (["a b", "b"], "CLASS_NAMES: \"a b\": not allowed; allowed: a letter, then"),
            (["b", "b"], "CLASS_NAMES: \"b\": not allowed; allowed: each name once"),
        ] {
            let said = classes(&names).expect_err("a bad name").to_string();
            assert!(said.starts_with(error), "{said}");
        }
    }
}
