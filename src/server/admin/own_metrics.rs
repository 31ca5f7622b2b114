//! Metrics of the handler's own, on `/metrics` beside the server's.

use crate::metrics::{OwnKind, OwnValue};
use crate::server::{ServeError, Server};

/// Metrics of the handler's own, in the order in which they were added.
#[derive(Default)]
pub(in crate::server) struct OwnMetrics(Vec<Own>);

/// The most metrics of the handler's own: a page that is scraped every few seconds has a bound.
const OWN_MAX: usize = 256;

struct Own {
    name: String,
    help: String,
    kind: OwnKind,
    read: Box<dyn Fn() -> f64 + Send + Sync>,
}

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
        self.metric(Own { name: name.to_owned(), help: help.to_owned(), kind: OwnKind::Counter, read: Box::new(read) })
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
        self.metric(Own { name: name.to_owned(), help: help.to_owned(), kind: OwnKind::Gauge, read: Box::new(read) })
    }

    fn metric(mut self, own: Own) -> Result<Server, ServeError> {
        let refuse = |allowed| Err(ServeError::Metric { name: own.name.clone(), allowed });
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !own.name.starts_with(|first: char| first.is_ascii_alphabetic()) || !own.name.bytes().all(is_word) {
            return refuse("a letter, then letters, digits and _");
        }
        if own.name.ends_with("_total") {
            return refuse("a name without _total, which a counter gets by itself");
        }
        if ["forebay_", "process_"].iter().any(|prefix| own.name.starts_with(prefix)) {
            return refuse("a prefix that is neither forebay_ nor process_");
        }
        if self.bound.own_metrics.0.iter().any(|other| other.name == own.name) {
            return refuse("each name once");
        }
        if self.bound.own_metrics.0.len() == OWN_MAX {
            return refuse("256 metrics");
        }
        self.bound.own_metrics.0.push(own);
        Ok(self)
    }
}

impl OwnMetrics {
    /// The present values.
    pub(in crate::server) fn values(&self) -> Vec<OwnValue> {
        let value = |own: &Own| OwnValue {
            name: own.name.clone(),
            help: own.help.clone(),
            kind: own.kind,
            value: (own.read)(),
        };
        self.0.iter().map(value).collect()
    }
}
