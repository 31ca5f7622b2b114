//! What a handler adds to `/metrics`: names of classes and reasons, and its own metrics.

use super::error::ServeError;
use crate::fate::{Malformed, REASONS, Refused};
use crate::handler::Service;
use crate::metrics::{ALL_CLASSES, OwnKind, OwnValue};
use crate::output::unstarted;
use crate::runtime::continuation::{guarded, lock};
use crate::time::Nanos;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::{io, iter, thread};

/// The form of a name.
const WORD: &str = "a letter, then letters, digits and _";

/// Whether `name` has the form of [`WORD`].
fn is_word(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_word)
}

/// Checks a handler's names of classes and of reasons to reject.
///
/// # Errors
/// [`ServeError::Name`] for the first name that is not allowed.
pub(super) fn check<H: Service>() -> Result<(), ServeError> {
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

/// Reads the value of a metric.
pub(super) type Read = Box<dyn Fn() -> f64 + Send + Sync>;

/// How long to wait for the handler's own metrics.
pub(super) const READ_WITHIN: Nanos = Nanos::from_secs(1);
/// The most clients that wait for one reading: twice the connections of the endpoint.
const WAITING_MAX: usize = 64;
/// The name of the thread that reads the handler's own metrics.
pub(super) const READER: &str = "forebay-metrics";

/// The handler's own metrics. A separate thread reads them, because the user's code may wait or
/// panic.
#[derive(Clone)]
pub(super) struct OwnMetrics {
    metrics: Arc<[(OwnValue, Read)]>,
    asker: SyncSender<Box<dyn FnOnce() + Send>>,
    reading: Arc<Mutex<Reading>>,
}

#[derive(Default)]
struct Reading {
    /// Index of the metric that is being read.
    at: usize,
    values: Vec<Option<f64>>,
    /// Index of the metric that the log has reported as too slow.
    told: Option<usize>,
}

impl OwnMetrics {
    /// Starts the reading thread, if there are `metrics`.
    ///
    /// # Errors
    /// When the kernel refuses the thread.
    pub(super) fn start(metrics: Vec<(OwnValue, Read)>) -> io::Result<OwnMetrics> {
        let (asker, asked) = sync_channel::<Box<dyn FnOnce() + Send>>(WAITING_MAX);
        let reading = Arc::new(Mutex::new(Reading { values: vec![None; metrics.len()], ..Reading::default() }));
        let own = OwnMetrics { metrics: metrics.into(), asker, reading };
        let (metrics, reading) = (own.metrics.clone(), own.reading.clone());
        let serve = move || {
            while let Ok(first) = asked.recv() {
                let together: Vec<_> = iter::once(first).chain(asked.try_iter()).collect();
                for (at, (_, read)) in metrics.iter().enumerate() {
                    lock(&reading).at = at;
                    let value = guarded(read).ok();
                    lock(&reading).values[at] = value;
                }
                lock(&reading).told = None;
                together.into_iter().for_each(|then| then());
            }
        };
        if !own.metrics.is_empty() {
            // Outside of the server's scope, whose end would wait for the user's code.
            let thread = thread::Builder::new().name(READER.to_owned()).spawn(serve);
            thread.map_err(|error| unstarted("the thread of the handler's metrics", &error))?;
        }
        Ok(own)
    }

    /// Reads the metrics, then calls `then`. Without metrics, `then` is dropped.
    pub(super) fn read(&self, then: impl FnOnce() + Send + 'static) {
        // The queue is full if a metric has hung for long. Then the wait for `then` ends at once.
        let _ = self.asker.try_send(Box::new(then));
    }

    /// Reads the metrics on a thread that may wait.
    pub(super) fn read_now(&self) {
        let (said, done) = sync_channel(1);
        self.read(move || {
            let _ = said.try_send(());
        });
        if done.recv_timeout(READ_WITHIN.into()) == Err(RecvTimeoutError::Timeout) {
            self.late();
        }
    }

    /// Marks metrics as absent that were not read within [`READ_WITHIN`].
    pub(super) fn late(&self) {
        let Reading { at, values, told } = &mut *lock(&self.reading);
        values[*at..].fill(None);
        if told.replace(*at) != Some(*at) {
            let metric = &self.metrics[*at].0.name;
            tracing::warn!(metric, "reading it takes too long: it and the handler's metrics after it are absent");
        }
    }

    /// The values of the last reading.
    pub(super) fn values(&self) -> Vec<OwnValue> {
        let reading = lock(&self.reading);
        let read = self.metrics.iter().zip(&reading.values);
        read.filter_map(|((own, _), value)| Some(OwnValue { value: (*value)?, ..own.clone() })).collect()
    }
}

/// Adds a metric to `own`.
///
/// # Errors
/// [`ServeError::Name`] if its name is not allowed.
pub(super) fn add(
    own: &mut Vec<(OwnValue, Read)>,
    kind: OwnKind,
    [name, help]: [&str; 2],
    read: Read,
) -> Result<(), ServeError> {
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
    own.push((OwnValue { name, help, kind, value: 0.0 }, read));
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
