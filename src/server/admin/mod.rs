//! The control thread: collects every second, lets policies adapt, and answers what is asked about the server: over HTTP
//! (`GET /metrics /latency /config /healthz /readyz`, feature `admin`) and by [`Metrics`].
//!
//! One thread runs all of it, on a single-threaded tokio runtime that never handles a packet. The timers of handlers run on
//! it too. The collector and the probe are borrowed from the server's scope, while HTTP handlers may borrow nothing; so
//! questions come over a channel, and the loop in [`run`], which owns the borrows, collects once for all questions that have
//! arrived and answers them.

mod adapt;
pub(super) mod control;
pub(super) mod following;
#[cfg(feature = "admin")]
mod http;
mod in_process;
pub(super) mod own_metrics;
pub(super) mod run_queue;
mod stuck;
pub(super) mod waiting;

pub use in_process::Metrics;

use crate::metrics::{Collector, Gauges, Recent, Snapshot};
use crate::time::Nanos;
use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// The name for the thread that calls [`run`].
pub(super) const THREAD_NAME: &str = "forebay-admin";

/// The interval of collecting histograms without scrapes: the width of the finest window's slots.
const COLLECT_EVERY: Nanos = Nanos::from_secs(1);

/// The endpoint's view of its server. Called on the admin thread; no method may block.
pub(super) trait Probe {
    /// Readiness: an error from the start of a stop on, and while the server cannot serve.
    ///
    /// # Errors
    /// The reason in words, in one line.
    #[cfg(feature = "admin")]
    fn ready(&self) -> Result<(), String>;
    /// Health: an error while the server cannot recover by itself.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn healthy(&self) -> Result<(), String>;
    /// Description, kernel drops and queue depths, as of now.
    fn gauges(&self) -> Gauges;
    /// The settings in effect, and what became of the last attempt to read them again, as JSON.
    #[cfg(feature = "admin")]
    fn config(&self) -> String;
    /// Datagrams that the kernel has dropped since the start; `None` where that cannot be read.
    fn kernel_dropped(&self) -> Option<u64>;
    /// Called every second with what was measured lately, so that policies can adapt.
    fn adapt(&self, recent: &Recent);
    /// Makes a worker run through its loop once if it sleeps, so that it hands its histograms over.
    fn wake(&self, worker: usize);
}

/// Ends [`run`] when dropped, soon after; open connections are cut off.
#[derive(Debug)]
pub(super) struct Stopper {
    _dropped_to_stop: oneshot::Sender<()>,
    release: Option<oneshot::Sender<()>>,
}

impl Stopper {
    /// Lets go of the listener, which another process has too, and accepts no more connections. Open ones are answered.
    pub(super) fn release(&mut self) {
        // An endpoint that has ended has let go.
        let _ = self.release.take().map(|release| release.send(()));
    }
}

/// The receiving end of a [`Stopper`], for [`run`].
#[derive(Debug)]
pub(super) struct Stop {
    stopped: oneshot::Receiver<()>,
    released: oneshot::Receiver<()>,
}

/// Makes a stopper and its receiving end for [`run`].
pub(super) fn stop_pair() -> (Stopper, Stop) {
    let (_dropped_to_stop, stopped) = oneshot::channel();
    let (release, released) = oneshot::channel();
    (Stopper { _dropped_to_stop, release: Some(release) }, Stop { stopped, released })
}

/// The runtime on which [`run`] serves. While it does, the timers run of every thread that has entered it.
///
/// # Errors
/// When the kernel has no more descriptors.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Bounds on clients. A connection carries one request.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Open connections; one more cuts the oldest off. A healthy connection takes milliseconds, so the oldest is a
    /// stalled one.
    connections: usize,
    /// The longest time from accepting to the end of the request's header.
    #[cfg(feature = "admin")]
    header: Nanos,
    /// The longest time from accepting to the last byte of the reply.
    #[cfg(feature = "admin")]
    connection: Nanos,
}

impl Limits {
    const DEFAULT: Limits = Limits {
        connections: 32,
        #[cfg(feature = "admin")]
        header: Nanos::from_secs(5),
        #[cfg(feature = "admin")]
        connection: Nanos::from_secs(10),
    };
}

/// What [`run`] is asked.
#[derive(Debug)]
pub(super) struct Questions {
    asker: mpsc::Sender<Question>,
    asked: mpsc::Receiver<Question>,
}

impl Questions {
    /// No questions yet, and the handle that asks from within this process.
    pub(super) fn new() -> (Questions, Metrics) {
        // One from each connection, as many from those that were cut off since, and room for this process, which asks one at
        // a time.
        let (asker, asked) = mpsc::channel(2 * Limits::DEFAULT.connections + 1);
        (Questions { asker: asker.clone(), asked }, Metrics::new(asker))
    }
}

/// Collects every second and answers `questions`, also those of HTTP clients on `listener` if there is one, until `stop`.
/// Runs on the calling thread.
///
/// Answers within 100 ms while every worker is busy: collecting waits 20 ms at most, once for all pending questions. A
/// client that stalls is cut off and delays no other.
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
    probe: &impl Probe,
    questions: Questions,
    stop: Stop,
) -> io::Result<()> {
    run_limited(runtime, listener, collector, probe, questions, stop, Limits::DEFAULT)
}

fn run_limited(
    runtime: &Runtime,
    listener: Option<TcpListener>,
    collector: &mut Collector<'_>,
    probe: &impl Probe,
    questions: Questions,
    stop: Stop,
    limits: Limits,
) -> io::Result<()> {
    let Questions { asker, asked } = questions;
    let Stop { stopped, released } = stop;
    runtime.block_on(async {
        let accepting = tokio::spawn(accept(listener, asker, limits, released));
        tokio::select! {
            () = control(collector, probe, asked, stopped) => Ok(()),
            // The accept loop ends only by an error or a panic.
            ended = accepting => ended.unwrap_or_else(|panic| Err(io::Error::other(panic))),
        }
    })
}

/// Accepts until released, and then stays as it is: without a listener.
#[cfg_attr(not(feature = "admin"), expect(unused_variables, reason = "there is no HTTP"))]
async fn accept(
    listener: Option<TcpListener>,
    asker: mpsc::Sender<Question>,
    limits: Limits,
    released: oneshot::Receiver<()>,
) -> io::Result<()> {
    #[cfg(feature = "admin")]
    if let Some(listener) = listener {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = http::serve(listener, asker, limits) => {}
            Ok(()) = released => {}
        }
    }
    pending().await
}

/// A question, and what to do with the answer.
struct Question {
    about: About,
    answer: Box<dyn FnOnce(Answer) + Send>,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Question").field(&self.about).finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    #[cfg(feature = "admin")]
    Readiness,
    #[cfg(feature = "admin")]
    Health,
    #[cfg(feature = "admin")]
    Config,
    Measurements,
}

/// As the question is about.
#[derive(Debug)]
enum Answer {
    #[cfg(feature = "admin")]
    State(Result<(), String>),
    #[cfg(feature = "admin")]
    Config(String),
    Measurements(Arc<Snapshot>),
}

async fn control(
    collector: &mut Collector<'_>,
    probe: &impl Probe,
    mut questions: mpsc::Receiver<Question>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut tick = tokio::time::interval(COLLECT_EVERY.into());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => return,
            Some(question) = questions.recv() => {
                let mut asked = vec![question];
                while let Ok(question) = questions.try_recv() {
                    asked.push(question);
                }
                answer(collector, probe, asked);
            }
            _ = tick.tick() => {
                // Also because scrapes may be rarer than a wrap of the kernel's counters.
                collector.set_kernel_dropped(probe.kernel_dropped());
                collector.collect(|worker| probe.wake(worker));
                probe.adapt(&collector.recent());
            }
        }
    }
}

fn answer(collector: &mut Collector<'_>, probe: &impl Probe, asked: Vec<Question>) {
    let mut snapshot = None;
    for Question { about, answer } in asked {
        answer(match about {
            #[cfg(feature = "admin")]
            About::Readiness => Answer::State(probe.ready()),
            #[cfg(feature = "admin")]
            About::Health => Answer::State(probe.healthy()),
            #[cfg(feature = "admin")]
            About::Config => Answer::Config(probe.config()),
            About::Measurements => {
                let snapshot = snapshot.get_or_insert_with(|| Arc::new(scrape(collector, probe)));
                Answer::Measurements(Arc::clone(snapshot))
            }
        });
    }
}

fn scrape(collector: &mut Collector<'_>, probe: &impl Probe) -> Snapshot {
    collector.set_kernel_dropped(probe.kernel_dropped());
    collector.collect(|worker| probe.wake(worker));
    collector.snapshot(probe.gauges())
}

#[cfg(all(test, feature = "admin"))]
mod tests;
