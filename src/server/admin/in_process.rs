//! Measurements for the program that the server is part of.

use super::{About, Answer, Question};
use crate::metrics::Snapshot;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest wait for an answer: ten times what a busy server takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks a server what it has measured, from any thread, with or without an admin endpoint. Made by
/// [`Server::metrics`](crate::server::Server::metrics).
#[derive(Clone, Debug)]
pub struct Metrics {
    /// One question at a time, so that there is always room for it.
    asker: Arc<Mutex<mpsc::Sender<Question>>>,
}

impl Metrics {
    pub(super) fn new(asker: mpsc::Sender<Question>) -> Metrics {
        Metrics { asker: Arc::new(Mutex::new(asker)) }
    }

    /// All counters and measurements as of now; [`Snapshot::to_json`] and [`Snapshot::to_prometheus`] (feature `admin`) make
    /// of it what the endpoint shows. `None` while the server does not run: before [`Server::run`](crate::server::Server::run)
    /// and when it has returned, with the totals in its report.
    ///
    /// Blocks for up to 100 ms, before [`Server::run`](crate::server::Server::run) for a second: not for a handler, whose
    /// worker it would hold, nor for an asynchronous task other than by `spawn_blocking`.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (said, answered) = sync_channel(1);
        let answer = Box::new(move |answer| drop(said.try_send(answer)));
        let asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        // A question from before the start that nobody has answered may still stand there.
        asker.try_send(Question { about: About::Measurements, answer }).ok()?;
        match answered.recv_timeout(PATIENCE).ok()? {
            Answer::Measurements(snapshot) => Some(snapshot),
            #[cfg(feature = "admin")]
            _ => None,
        }
    }
}
