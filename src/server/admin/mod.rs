//! The admin endpoint: `GET /metrics /latency /config /healthz /readyz` over HTTP, and the control thread that it runs on.
//!
//! One thread runs all of it, on a single-threaded tokio runtime that never handles a packet. The timers of handlers run on
//! it too. The collector and the
//! probe are borrowed from the server's scope, while HTTP handlers may borrow nothing; so connections ask over a
//! channel, and the loop in [`run`], which owns the borrows, collects once for all questions that have arrived and
//! answers them.

mod http;

use crate::metrics::{Collector, Format, Gauges, Recent, Snapshot};
use crate::time::Nanos;
use http::Limits;
use std::io;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// The name for the thread that calls [`run`].
pub const THREAD_NAME: &str = "forebay-admin";

/// The interval of collecting histograms without scrapes: the width of the finest window's slots.
const COLLECT_EVERY: Nanos = Nanos::from_secs(1);

/// The endpoint's view of its server. Called on the admin thread; no method may block.
pub trait Probe {
    /// Readiness: an error from the start of a stop on, and while the server cannot serve.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn ready(&self) -> Result<(), String>;
    /// Health: an error while the server cannot recover by itself.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn healthy(&self) -> Result<(), String>;
    /// Description, kernel drops and queue depths, as of now.
    fn gauges(&self) -> Gauges;
    /// The settings in effect, and what became of the last attempt to read them again, as JSON.
    fn config(&self) -> String;
    /// Datagrams that the kernel has dropped since the start; `None` where that cannot be read.
    fn kernel_dropped(&self) -> Option<u64>;
    /// Called every second with what was measured lately, so that policies can adapt.
    fn adapt(&self, recent: &Recent);
    /// Makes a worker run through its loop once if it sleeps, so that it hands its histograms over.
    fn wake(&self, worker: usize);
}

/// Ends [`run`], by [`Stopper::stop`] or when dropped.
#[derive(Debug)]
pub struct Stopper {
    _dropped_to_stop: oneshot::Sender<()>,
    release: Option<oneshot::Sender<()>>,
}

impl Stopper {
    /// Lets go of the listener, which another process has too, and accepts no more connections. Open ones are answered.
    pub fn release(&mut self) {
        // An endpoint that has ended has let go.
        let _ = self.release.take().map(|release| release.send(()));
    }

    /// Ends the endpoint; [`run`] returns soon after. Open connections are cut off.
    pub fn stop(self) {}
}

/// The receiving end of a [`Stopper`], for [`run`].
#[derive(Debug)]
pub struct Stop {
    stopped: oneshot::Receiver<()>,
    released: oneshot::Receiver<()>,
}

/// Makes a stopper and its receiving end for [`run`].
pub fn stop_pair() -> (Stopper, Stop) {
    let (_dropped_to_stop, stopped) = oneshot::channel();
    let (release, released) = oneshot::channel();
    (Stopper { _dropped_to_stop, release: Some(release) }, Stop { stopped, released })
}

/// The runtime on which [`run`] serves. While it does, the timers run of every thread that has entered it.
///
/// # Errors
/// When the kernel has no more descriptors.
pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Serves the endpoint on `listener` and collects every second, until `stop`. Runs on the calling thread.
///
/// Answers within 100 ms while every worker is busy: collecting waits 20 ms at most, once for all pending questions. A
/// client that stalls is cut off and delays no other.
///
/// After the return the caller may use the collector again: once the workers have stopped, one more
/// [`Collector::collect`] makes the totals exact.
///
/// # Errors
/// When `listener` cannot be registered with it, or connections are no longer accepted.
pub fn run(
    runtime: &Runtime,
    listener: std::net::TcpListener,
    collector: &mut Collector<'_>,
    probe: &impl Probe,
    stop: Stop,
) -> io::Result<()> {
    run_limited(runtime, listener, collector, probe, stop, Limits::default())
}

fn run_limited(
    runtime: &Runtime,
    listener: std::net::TcpListener,
    collector: &mut Collector<'_>,
    probe: &impl Probe,
    stop: Stop,
    limits: Limits,
) -> io::Result<()> {
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (asker, questions) = mpsc::channel(limits.connections);
        let Stop { stopped, released } = stop;
        let accepting = tokio::spawn(accept(http::serve(listener, asker, limits), released));
        tokio::select! {
            () = control(collector, probe, questions, stopped) => Ok(()),
            // The accept loop ends only by a panic.
            ended = accepting => Err(io::Error::other(format!("connections are no longer accepted: {ended:?}"))),
        }
    })
}

/// Accepts until released, and then stays as it is: without a listener, which is dropped with `serving`.
async fn accept(serving: impl Future<Output = ()>, released: oneshot::Receiver<()>) {
    tokio::select! {
        () = serving => {}
        Ok(()) = released => std::future::pending().await,
    }
}

/// A connection's question, and the channel for the answer.
#[derive(Debug)]
struct Question {
    about: About,
    answer: oneshot::Sender<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Readiness,
    Health,
    Latency,
    Config,
    Metrics(Format),
}

#[derive(Debug)]
enum Answer {
    Ready(Result<(), String>),
    Healthy(Result<(), String>),
    Text { content_type: &'static str, body: String },
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
        let text = match about {
            About::Readiness => Answer::Ready(probe.ready()),
            About::Health => Answer::Healthy(probe.healthy()),
            About::Config => Answer::Text { content_type: "application/json", body: probe.config() },
            About::Latency => {
                let snapshot = snapshot.get_or_insert_with(|| scrape(collector, probe));
                Answer::Text { content_type: "application/json", body: snapshot.to_json() }
            }
            About::Metrics(format) => {
                let snapshot = snapshot.get_or_insert_with(|| scrape(collector, probe));
                Answer::Text { content_type: format.content_type(), body: snapshot.to_prometheus(format) }
            }
        };
        // A closed connection needs no answer.
        let _ = answer.send(text);
    }
}

fn scrape(collector: &mut Collector<'_>, probe: &impl Probe) -> Snapshot {
    collector.set_kernel_dropped(probe.kernel_dropped());
    collector.collect(|worker| probe.wake(worker));
    collector.snapshot(probe.gauges())
}

#[cfg(test)]
mod tests;
