//! Measurements for the program that the server is part of.

use super::Question;
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
    /// Blocks for up to 100 ms, before [`Server::run`](crate::server::Server::run) for a second. So a handler must not
    /// call it, for that would hold its worker. An asynchronous task calls it by `spawn_blocking`.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (said, answered) = sync_channel(1);
        let question: Question = Box::new(move |desk| drop(said.try_send(desk.snapshot())));
        // A question from before the start that nothing has answered may still stand there.
        self.asker.lock().unwrap_or_else(PoisonError::into_inner).try_send(question).ok()?;
        answered.recv_timeout(PATIENCE).ok()
    }
}
