//! The control thread: collects every second, lets policies adapt, and answers what is asked about
//! the server. Questions come over HTTP
//! (`/ /metrics /latency /latency.hlog /history /slow /capture /config /healthz /readyz`, feature
//! `admin`) and by [`Metrics`].
//!
//! One thread runs all of it, on a single-threaded tokio runtime that never handles a packet. The
//! timers of handlers run on it too. The collector and the probe are borrowed from the server's
//! scope, while HTTP handlers may borrow nothing. So questions come over a channel. The loop in
//! [`run`], which owns the borrows, collects once for all questions that have arrived.

pub(super) mod adapt;
pub(super) mod cpus;
#[cfg(feature = "admin")]
pub(super) mod endpoint;
#[cfg(not(feature = "admin"))]
#[path = "no_endpoint.rs"]
pub(super) mod endpoint;
pub(super) mod gate;
pub(super) mod said;
pub(super) mod stuck;
pub(super) mod waiting;

use crate::metrics::{Collector, Gauges, Recent, Snapshot};
use crate::server::shown::OwnMetrics;
use crate::time::Nanos;
use endpoint::{Flight, Limits, Pages, http};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior};

/// The interval of collecting histograms without scrapes: the width of the finest window's slots.
const COLLECT_EVERY: Nanos = Nanos::from_secs(1);

/// The interval of reading what workers have captured, while they do: their rings hold little more.
const CAPTURES_EVERY: Nanos = Nanos::from_millis(20);

/// The most connections of clients.
const CONNECTIONS: usize = 32;

/// The endpoint's view of its server. Called on the admin thread; no method may block.
pub(super) trait Probe: Pages {
    /// Health: an error while the server cannot recover by itself.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn healthy(&self) -> Result<(), String>;
    /// Description, kernel drops and queue depths, as of now.
    fn gauges(&self) -> Gauges;
    /// The metrics of the handler's own, whose values are in `gauges` once they are read.
    fn own(&self) -> OwnMetrics;
    /// Datagrams that the kernel has dropped since the start; `None` where that cannot be read.
    fn kernel_dropped(&self) -> Option<u64>;
    /// Called every second with what was measured lately, so that policies can adapt.
    fn adapt(&self, recent: &Recent);
    /// Called every [`gate::DECIDE_EVERY`]: decides what the kernel turns away.
    fn turn_away(&self);
    /// How often to feed the supervisor's watchdog; `None` if there is none.
    fn watchdog_every(&self) -> Option<Nanos>;
    /// Feeds the watchdog, if every worker makes progress.
    fn feed_watchdog(&self);
}

/// Ends [`run`] when it is dropped, soon after; open connections are cut off. Once it says true,
/// [`run`] lets go of the listener, which another process has too, and accepts no more connections.
/// Open ones are answered.
pub(super) type Stopper = watch::Sender<bool>;

/// The runtime on which [`run`] serves. While it does, the timers run of every thread that has
/// entered it.
///
/// # Errors
/// When the kernel has no more descriptors.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// What [`run`] is asked.
pub(super) type Questions = mpsc::Receiver<Question>;

/// The longest wait for an answer: ten times what a busy server takes.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// Asks a server what it has measured, from any thread, with or without an admin endpoint. Made by
/// [`Server::metrics`](crate::server::Server::metrics).
#[derive(Clone, Debug)]
pub struct Metrics {
    asker: mpsc::Sender<Question>,
}

impl Metrics {
    /// No questions yet, and the handle that asks from within this process.
    pub(super) fn new() -> (Metrics, Questions) {
        // One from each connection, as many from those that were cut off since, and room for this
        // process.
        let (asker, asked) = mpsc::channel(2 * CONNECTIONS + 1);
        (Metrics { asker }, asked)
    }

    /// All counters and measurements as of now; [`Snapshot::to_json`] and
    /// [`Snapshot::to_prometheus`] (feature `admin`) make of it what the endpoint shows. `None`
    /// while the server does not run: before [`Server::run`](crate::server::Server::run) and when
    /// it has returned, with the totals in its report.
    ///
    /// Blocks for up to 100 ms, before [`Server::run`](crate::server::Server::run) for a second,
    /// and for a second more where the handler's own metrics take long. So a handler must not call
    /// it, for that would hold its worker. An asynchronous task calls it by `spawn_blocking`.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.ask(|desk| desk.probe.own())?.read_now();
        self.ask(|desk| desk.snapshot())
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&mut Desk<'_, '_>) -> T + Send + 'static) -> Option<T> {
        let (said, answered) = sync_channel(1);
        let question: Question = Box::new(move |desk| drop(said.try_send(ask(desk))));
        // A question from before the start that nothing has answered may still stand there.
        self.asker.try_send(question).ok()?;
        answered.recv_timeout(PATIENCE.into()).ok()
    }
}

/// Collects every second and answers `questions`, also those of HTTP clients on `listener` if there
/// is one, until the [`Stopper`] of `stop` is dropped. Runs on the calling thread.
///
/// Answers within 100 ms while every worker is busy: collecting waits 20 ms at most, once for all
/// pending questions. A client that stalls is cut off and delays no other.
///
/// After the return the caller may use the collector again: once the workers have stopped, one more
/// [`Collector::collect`] makes the totals exact.
///
/// # Errors
/// When `listener` cannot be registered with `runtime`, or connections are no longer accepted.
pub(super) fn run(
    runtime: &Runtime,
    listener: Option<TcpListener>,
    collector: &mut Collector<'_>,
    probe: &dyn Probe,
    (Metrics { asker }, questions): (Metrics, Questions),
    stop: watch::Receiver<bool>,
    limits: Limits,
) -> io::Result<()> {
    runtime.block_on(async {
        let accepting = tokio::spawn(http::accept(listener, asker, limits, stop.clone()));
        tokio::select! {
            () = control(collector, probe, questions, stop) => Ok(()),
            // The accept loop ends only by an error or a panic.
            ended = accepting => ended.unwrap_or_else(|panic| Err(io::Error::other(panic))),
        }
    })
}

/// What is called on the thread of [`run`].
type Question = Box<dyn FnOnce(&mut Desk<'_, '_>) + Send>;

/// What answers the questions that came together.
pub(super) struct Desk<'a, 'm> {
    collector: &'a mut Collector<'m>,
    probe: &'a dyn Probe,
    flight: &'a mut Flight<'m>,
    /// What is measured now, once a question was about that.
    snapshot: Option<Arc<Snapshot>>,
}

impl Desk<'_, '_> {
    fn snapshot(&mut self) -> Arc<Snapshot> {
        if self.snapshot.is_none() {
            self.collector.collect();
            self.snapshot = Some(Arc::new(self.collector.snapshot(self.gauges())));
        }
        self.snapshot.clone().expect("it was taken")
    }
}

async fn control(
    collector: &mut Collector<'_>,
    probe: &dyn Probe,
    mut questions: Questions,
    mut stop: watch::Receiver<bool>,
) {
    let (mut tick, mut gate) = (every(COLLECT_EVERY), every(gate::DECIDE_EVERY));
    let mut captures = every(CAPTURES_EVERY);
    let mut watchdog = every(probe.watchdog_every().unwrap_or(COLLECT_EVERY));
    watchdog.reset();
    let mut flight = Flight::default();
    loop {
        let mut desk = Desk { collector, probe, flight: &mut flight, snapshot: None };
        tokio::select! {
            biased;
            Err(_) = stop.wait_for(|_| false) => return,
            // Before the questions: however many come, they do not starve it.
            _ = watchdog.tick(), if probe.watchdog_every().is_some() => probe.feed_watchdog(),
            _ = gate.tick() => {
                desk.look();
                probe.turn_away();
            }
            Some(question) = questions.recv() => {
                question(&mut desk);
                while let Ok(question) = questions.try_recv() {
                    question(&mut desk);
                }
            }
            _ = captures.tick(), if desk.flight.capturing.is_some() => desk.look_at_capture(),
            _ = tick.tick() => {
                // Also because scrapes may be rarer than a wrap of the kernel's counters.
                desk.collector.collect();
                probe.adapt(&desk.collector.recent());
            }
        }
    }
}

/// Ticks at once, and then each time that this `period` has passed since the last tick.
fn every(period: Nanos) -> Interval {
    let mut interval = tokio::time::interval(period.into());
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
#[path = "tests/logged.rs"]
mod logged;
#[cfg(all(test, feature = "admin"))]
mod tests;
#[cfg(test)]
use logged::logged;
