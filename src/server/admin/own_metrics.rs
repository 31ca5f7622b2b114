//! Metrics of the handler's own, on `/metrics` beside the server's.

use crate::metrics::{OwnKind, OwnValue};
use crate::server::{ServeError, Server, names};

/// The most metrics of the handler's own: a page that is scraped every few seconds has a bound.
const OWN_MAX: usize = 256;

/// How to read a metric.
pub(in crate::server) type Read = Box<dyn Fn() -> f64 + Send + Sync>;

impl Server {
    /// Shows what `read` gives as the counter `name` on `/metrics`, where it has the suffix `_total`. `read` is called at
    /// each scrape, on the thread of the admin endpoint: it must not wait.
    ///
    /// # Errors [`ServeError::Metric`] unless the name is new, begins with a letter, and has letters, digits and `_`
    /// alone. Names that begin as the server's own do (`forebay_`, `process_`) are not allowed, and neither are more
    /// than 256.
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
            (names::is_word(&name), names::WORD),
            (!name.ends_with("_total"), "a name without _total, which a counter gets by itself"),
            (
                !["forebay_", "process_"].iter().any(|prefix| name.starts_with(prefix)),
                "a prefix that is neither forebay_ nor process_",
            ),
            (own.iter().all(|(other, _)| other.name != name), "each name once"),
            (own.len() < OWN_MAX, "256 metrics"),
        ];
        if let Some((_, allowed)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(ServeError::Metric { name, allowed });
        }
        own.push((OwnValue { name, help, kind, value: 0.0 }, read));
        Ok(self)
    }
}
