//! The control thread: collects measurements every second, lets policies adapt, and answers
//! questions about the server. Questions come over HTTP (`/ /metrics /latency /latency.hlog
//! /history /slow /capture /config /healthz /readyz`, feature `admin`) and by [`Metrics`].
//!
//! One thread does all this, on a single-threaded tokio runtime that never handles a datagram. The
//! timers of handlers run on it too. Collector and probe are borrowed from the server's scope, but
//! the tasks of HTTP connections may borrow nothing. So questions come over a channel to the loop
//! in [`run`], which holds the borrows. The loop collects measurements once for all questions that
//! have arrived.

pub(super) mod adapt;
pub(super) mod cpus;
#[cfg(feature = "admin")]
pub(super) mod endpoint;
pub(super) mod gate;
pub(super) mod helpers;
#[cfg(test)]
mod logged;
#[cfg(not(feature = "admin"))]
pub(super) mod no_endpoint;
pub(super) mod said;
pub(super) mod stuck;
pub(super) mod waiting;

use crate::metrics::{Collector, Gauges, Snapshot};
use crate::runtime::activity::Activity;
use crate::sched::Recent;
use crate::sched::overload::sources::DECIDE_EVERY;
use crate::time::Nanos;
use endpoint::{ClientLimits, Flight, Pages, http};
#[cfg(not(feature = "admin"))]
pub(super) use no_endpoint as endpoint;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, timeout};

/// How often histograms are collected if there are no scrapes: the slot width of the finest window.
const COLLECT_EVERY: Nanos = Nanos::from_secs(1);

/// How often captured requests are read during a capture. The queues hold little more than the
/// requests of this time.
const CAPTURES_EVERY: Nanos = Nanos::from_millis(20);

/// At the end of a server: how long no client asks before it answers no more.
const SILENCE: Nanos = Nanos::from_millis(5);

/// The most connections of HTTP clients.
const CONNECTIONS: usize = 32;

/// The control thread's view of its server. Called on the admin thread, so no method may block.
pub(super) trait Probe: Pages {
    /// Looks at all pools. The server is not healthy if it cannot recover by itself. Logs when that
    /// begins and when it is over.
    ///
    /// # Errors
    /// The reason, in one line of text.
    fn check_health(&self) -> Result<(), String>;
    /// Description, kernel drops and queue lengths, as of now.
    fn gauges(&self) -> Gauges;
    /// Datagrams that the kernel has dropped since the start; `None` if unreadable.
    fn kernel_dropped(&self) -> Option<u64>;
    /// How often to feed the supervisor's watchdog; `None` = no watchdog.
    fn watchdog_every(&self) -> Option<Nanos>;
}

/// What the control thread does for its server again and again. No method may block.
pub(super) trait Upkeep: Probe {
    /// Lets policies adapt to recent measurements. Called every second.
    fn adapt(&self, recent: &Recent);
    /// Lets the gate decide what the kernel drops. Called every [`DECIDE_EVERY`].
    fn turn_away(&self);
    /// Feeds the watchdog if every worker makes progress.
    fn feed_watchdog(&self);
    /// Begins a rest if the server has had nothing to do since the last call, and the kernel turns
    /// nothing away. Returns whether it has begun; the [`Activity`] then tells when it is over.
    fn begin_rest(&self) -> bool;
    /// What tells of the workers' work.
    fn activity(&self) -> &Activity;
}

/// Stops [`run`] when this is dropped: [`run`] returns soon, and open connections are closed. To
/// send true makes [`run`] drop its listener, because another process has a copy. It then accepts
/// no more connections, but still answers open ones.
pub(super) type Stopper = watch::Sender<bool>;

/// The tokio runtime on which [`run`] works. While [`run`] works, the runtime also serves the
/// timers of all threads that have entered it.
///
/// # Errors
/// When the kernel has no descriptors left.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The questions that [`run`] answers.
pub(super) type Questions = mpsc::Receiver<Question>;

/// How long to wait for an answer. A busy server takes a tenth of it.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// Asks a running server for its measurements, from any thread, with or without an admin endpoint.
/// Made by [`Server::metrics`](crate::server::Server::metrics).
#[derive(Clone, Debug)]
pub struct Metrics {
    asker: mpsc::Sender<Question>,
}

impl Metrics {
    /// The handle that asks from within this process, and the receiving end.
    pub(super) fn new() -> (Metrics, Questions) {
        // Room for one question of each connection, for as many questions of connections that were
        // closed, and for one of this process.
        let (asker, asked) = mpsc::channel(2 * CONNECTIONS + 1);
        (Metrics { asker }, asked)
    }

    /// The current counters and measurements. `Snapshot::to_json` and `Snapshot::to_prometheus`
    /// (feature `admin`) convert them to the pages of the endpoint. `None` while the server does
    /// not run: before [`Server::run`](crate::server::Server::run), and after it has returned. Its
    /// report then has the totals.
    ///
    /// Blocks for up to 100 ms; before [`Server::run`](crate::server::Server::run) for a second. So
    /// do not call it in a handler, because it would block the worker. In an asynchronous task,
    /// call it by `spawn_blocking`.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.ask(|desk| desk.snapshot())
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&mut Desk<'_, '_>) -> T + Send + 'static) -> Option<T> {
        let (said, answered) = sync_channel(1);
        let question: Question = Box::new(move |desk| drop(said.try_send(ask(desk))));
        // Questions that were asked before the start, and not answered, may still fill the channel.
        self.asker.try_send(question).ok()?;
        answered.recv_timeout(PATIENCE.into()).ok()
    }
}

/// Collects measurements every second, and answers `questions` and HTTP clients of `listener`,
/// until the [`Stopper`] of `stop` is dropped. Runs on the calling thread.
///
/// Even while every worker is busy, it answers within 100 ms: collecting takes at most 20 ms, once
/// for all pending questions. A client that stalls is disconnected and delays no other client.
///
/// After it has returned, the caller may use the collector again. Once the workers have stopped,
/// one more [`Collector::collect`] makes the totals exact.
///
/// # Errors
/// When `listener` cannot be registered with `runtime`, or accepting connections fails for good.
pub(super) fn run(
    runtime: &Runtime,
    listener: Option<TcpListener>,
    collector: &mut Collector<'_>,
    probe: &dyn Upkeep,
    (Metrics { asker }, questions): (Metrics, Questions),
    stop: watch::Receiver<bool>,
    limits: ClientLimits,
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

/// A question: a function to call on the thread of [`run`].
type Question = Box<dyn FnOnce(&mut Desk<'_, '_>) + Send>;

/// The data that a question may use. One desk serves all questions that arrived together.
pub(super) struct Desk<'a, 'm> {
    collector: &'a mut Collector<'m>,
    probe: &'a dyn Upkeep,
    flight: &'a mut Flight<'m>,
    /// The current measurements, once a question has needed them.
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
    probe: &dyn Upkeep,
    mut questions: Questions,
    mut stop: watch::Receiver<bool>,
) {
    let (mut tick, mut gate) = (every(COLLECT_EVERY), every(DECIDE_EVERY));
    let mut captures = every(CAPTURES_EVERY);
    let mut watchdog = every(probe.watchdog_every().unwrap_or(COLLECT_EVERY));
    watchdog.reset();
    let mut flight = Flight::default();
    let mut rests = false;
    loop {
        let mut desk = Desk { collector, probe, flight: &mut flight, snapshot: None };
        tokio::select! {
            biased;
            Err(_) = stop.wait_for(|_| false) => {
                // A client whose connection was accepted just before still gets its answer. Waiting
                // lets the connection's task read and write.
                for _ in 0..CONNECTIONS {
                    let Ok(Some(question)) = timeout(SILENCE.into(), questions.recv()).await else { return };
                    question(&mut desk);
                }
                return;
            }
            // The watchdog comes before the questions, so that many questions cannot starve it.
            _ = watchdog.tick(), if probe.watchdog_every().is_some() => probe.feed_watchdog(),
            () = probe.activity().stirred(), if rests => rests = false,
            _ = gate.tick(), if !rests => {
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
                // Collects even without scrapes, because the kernel's counters may wrap between
                // rare ones.
                desk.collector.collect();
                probe.adapt(&desk.collector.recent());
                rests = probe.begin_rest();
            }
        }
    }
}

/// An interval that ticks at once, then whenever `period` has passed since the last tick.
fn every(period: Nanos) -> Interval {
    let mut interval = tokio::time::interval(period.into());
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(all(test, feature = "admin"))]
mod tests;
#[cfg(test)]
use logged::logged;
