//! The threads of a server: how each is made, what it does, and what ends it.

use super::latch::Latch;
use super::stop::Unasked;
use super::{handover, signals};
use crate::metrics::Collector;
use crate::server::Bound;
use crate::server::admin::control::Control;
use crate::server::admin::{self, Questions, Stopper};
use signal_hook::iterator::Signals;
use std::io::{self, PipeWriter};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use tokio::runtime::Runtime;

/// The failure reported for a thread that panicked; the panic hook has printed the details.
pub(super) const PANICKED: &str = "its thread panicked";

/// Starts threads that wait for one another: none begins before all run, so whatever can fail in making them has not failed
/// then.
pub(super) struct Starter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    latch: &'scope Latch,
    ran: Sender<()>,
    running: Receiver<()>,
    started: usize,
}

/// The part of a [`Starter`] that each of its threads has.
pub(super) struct Starting<'a> {
    ran: Sender<()>,
    latch: &'a Latch,
}

impl Starting<'_> {
    /// Says that the thread runs.
    fn runs(&self) {
        let _ = self.ran.send(());
    }

    /// Says that the thread runs, and waits for the latch; true if the thread may begin.
    pub(super) fn begins(&self) -> bool {
        self.runs();
        self.latch.wait()
    }
}

impl<'scope, 'env> Starter<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, latch: &'scope Latch) -> Starter<'scope, 'env> {
        let (ran, running) = channel();
        Starter { scope, latch, ran, running, started: 0 }
    }

    /// Starts a thread, whose `body` says that it runs. The error names the thread and a likely cause.
    pub(super) fn start<T: Send + 'scope>(
        &mut self,
        name: &str,
        body: impl FnOnce(Starting<'scope>) -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let starting = Starting { ran: self.ran.clone(), latch: self.latch };
        let builder = thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn_scoped(self.scope, move || body(starting)).map_err(|error| {
            let limits = "`ulimit -u`, TasksMax of a systemd unit, pids.max of a cgroup";
            io::Error::new(error.kind(), format!("the thread {name} cannot be started: {error}; see {limits}"))
        })?;
        self.started += 1;
        Ok(thread)
    }

    /// Waits until all threads run; a worker that panics before ends the process.
    pub(super) fn await_all(&self) {
        self.running.iter().take(self.started).for_each(drop);
    }
}

/// The threads beside the workers', each with what ends it.
// Dropped in this order.
pub(super) struct Threads<'scope, 'm> {
    /// Ends the thread that accepts successors.
    pub(super) successors_end: Option<PipeWriter>,
    pub(super) signals: Option<CloseSignals>,
    watchdog_end: Sender<()>,
    admin: ScopedJoinHandle<'scope, Collector<'m>>,
    pub(super) admin_stopper: Stopper,
}

impl<'scope, 'm: 'scope> Threads<'scope, 'm> {
    /// Starts the threads. `caught` are the signals that this server waits for, also before the latch opens.
    pub(super) fn start<J: Send>(
        starter: &mut Starter<'scope, '_>,
        control: &'scope Control<'_, J>,
        runtime: &'scope Runtime,
        (listener, questions): (Option<TcpListener>, Questions),
        mut collector: Collector<'m>,
        caught: Option<Signals>,
    ) -> io::Result<Threads<'scope, 'm>> {
        let Bound { stop, supervisor, listening, .. } = control.bound;
        let (admin_stopper, admin_stop) = admin::stop_pair();
        let unasked = Unasked::new(stop.clone(), PANICKED);
        let admin = starter.start(admin::THREAD_NAME, move |starting| {
            unasked.ended(if starting.begins() {
                admin::run(runtime, listener, &mut collector, control, questions, admin_stop)
            } else {
                Ok(())
            });
            collector
        })?;
        let (watchdog_end, watchdog_ended) = channel();
        if let Some(every) = supervisor.watchdog_every() {
            starter.start("forebay-watchdog", move |starting| {
                if starting.begins() {
                    control.feed_watchdog(every, &watchdog_ended);
                }
            })?;
        }
        let signals = caught.map(|mut caught| {
            let close = CloseSignals(caught.handle());
            let serve = move |starting: Starting<'_>| {
                starting.runs();
                signals::serve(&mut caught, stop);
            };
            starter.start("forebay-signals", serve).map(|_| close)
        });
        let signals = signals.transpose()?;
        let (ended, successors_end) = io::pipe()?;
        if let Some(door) = &listening.door {
            starter.start("forebay-handover", move |starting| {
                if starting.begins() {
                    handover::serve(door, &ended, |asked| stop.hand_over(asked));
                }
            })?;
        }
        Ok(Threads { successors_end: Some(successors_end), signals, watchdog_end, admin, admin_stopper })
    }

    /// Ends the threads. Returns what the admin thread had, if it has not panicked.
    pub(super) fn end(self) -> thread::Result<Collector<'m>> {
        drop(self.admin_stopper);
        drop((self.signals, self.watchdog_end));
        self.admin.join()
    }
}

/// Ends the thread that waits for signals when dropped.
pub(super) struct CloseSignals(signal_hook::iterator::Handle);

impl Drop for CloseSignals {
    fn drop(&mut self) {
        self.0.close();
    }
}
