//! Demands on a running server: from stop handles, signals, and its own threads.

use crate::output::unstarted;
use crate::server::handover::Successor;
use crate::time::{Nanos, clock};
use nix::sys::signal::{SigSet, Signal};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

/// How often a server that waits for stuck handlers checks whether they have ended.
const INSIST_POLL: Nanos = Nanos::from_millis(10);
/// How long a server may still take to end after a further demand to stop, or after its patience is
/// over.
const END_WITHIN: Nanos = Nanos::from_secs(1);

/// Calls a function when dropped.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// A demand on a running server.
#[derive(Debug)]
pub(crate) enum Demand {
    /// Stop. A second demand means stop at once.
    Stop,
    /// Reload the configuration, and apply the settings that may change while the server runs.
    Reload,
    /// Hand over to this successor.
    HandOver(Successor),
    /// Stop because of a failure, for this reason.
    Fail(String),
}

/// The queue of demands on a running server.
pub(crate) struct Demands {
    receiver: Receiver<Demand>,
    /// Demands that were received early, by [`Demands::has_stop`].
    seen: VecDeque<Demand>,
}

impl Demands {
    /// Waits for the next demand, at most for `patience`.
    pub(crate) fn next(&mut self, patience: Nanos) -> Option<Demand> {
        self.seen.pop_front().or_else(|| self.receiver.recv_timeout(patience.into()).ok())
    }

    /// Waits for the next demand on a stopping server, at most for `patience`. It refuses
    /// hand-overs.
    pub(crate) fn next_within(&mut self, patience: Nanos) -> Option<Demand> {
        match self.next(patience) {
            Some(Demand::HandOver(asked)) => {
                asked.refuse("it is stopping");
                None
            }
            demand => demand,
        }
    }

    /// Waits for another demand to stop, and returns true. Returns false if `all_ended` comes
    /// first.
    pub(crate) fn insist(&mut self, all_ended: impl Fn() -> bool) -> bool {
        while !all_ended() {
            if let Some(Demand::Stop) = self.next_within(INSIST_POLL) {
                return true;
            }
        }
        false
    }

    /// Calls `exit` soon after another demand to stop, or after `patience`; dropping the returned
    /// value cancels this. It is needed because after the drain nothing else listens for demands,
    /// while the handler's destructors, tasks and callbacks may block each further step.
    pub(super) fn last_resort(mut self, patience: Option<Nanos>, exit: impl FnOnce() + Send + 'static) -> Cancel {
        let end = patience.map(|patience| clock::now().plus(patience));
        let ended = Arc::new(AtomicBool::new(false));
        let off = ended.clone();
        let watch = move || {
            // Ordering: relaxed, because the flag guards no other data.
            let has_ended = || off.load(Ordering::Relaxed);
            self.insist(|| has_ended() || end.is_some_and(|end| clock::now() >= end));
            let end = clock::now().plus(END_WITHIN);
            while !has_ended() && clock::now() < end {
                thread::sleep(INSIST_POLL.into());
            }
            if !has_ended() {
                exit();
            }
        };
        if let Err(error) = thread::Builder::new().name("forebay-stop".to_owned()).spawn(watch) {
            tracing::warn!(error = %unstarted("what bounds the rest of this stop", &error));
        }
        OnDrop(Box::new(move || ended.store(true, Ordering::Relaxed)))
    }

    /// Whether a demand to stop is waiting.
    pub(crate) fn has_stop(&mut self) -> bool {
        self.seen.extend(self.receiver.try_iter());
        self.seen.iter().any(|demand| matches!(demand, Demand::Stop | Demand::Fail(_)))
    }
}

/// Ends something when it is dropped.
pub(super) type Cancel = OnDrop<Box<dyn FnMut()>>;

/// What ends a process whose stop hangs in code of the service: in a task, a callback or a
/// destructor. Destructors run until the last state of a shard is dropped, so drop this after it.
#[derive(Default)]
pub(crate) struct Ending {
    /// Exits the process, unless it is dropped in time.
    pub(super) last_resort: Option<Cancel>,
    /// Ends the thread that turns signals into demands.
    pub(super) signals: Option<Cancel>,
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    demands: Sender<Demand>,
}

impl StopHandle {
    pub(crate) fn new() -> (StopHandle, Demands) {
        let (demands, receiver) = channel();
        (StopHandle { demands }, Demands { receiver, seen: VecDeque::new() })
    }

    /// Asks the server to stop. The server serves on for `lame_duck`. Then it finishes the
    /// datagrams that it has received and those in its sockets, within the drain timeout. A second
    /// call ends the current phase. A call has no effect on a server that has ended.
    pub fn stop(&self) {
        let _ = self.demands.send(Demand::Stop);
    }

    pub(crate) fn demand(&self, demand: Demand) {
        let _ = self.demands.send(demand);
    }
}

/// The signals that are caught. Each of them would otherwise kill the server without a drain.
const CAUGHT: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Catches signals from now on. A signal that comes before [`serve_signals`] runs is kept for it.
pub(crate) fn catch_signals() -> io::Result<Signals> {
    Signals::new(CAUGHT.map(|signal| signal as i32))
}

/// Handles caught signals until the returned value is dropped. SIGTERM, SIGINT and SIGQUIT stop the
/// server. SIGHUP reloads its configuration.
pub(super) fn serve_signals(mut signals: Signals, stop: StopHandle) -> io::Result<Cancel> {
    let name = "forebay-signals";
    let handle = signals.handle();
    let serve = move || {
        // The process that launched the server may have blocked signals. It suffices to unblock
        // them on one thread.
        if let Err(error) = SigSet::from_iter(CAUGHT).thread_unblock() {
            tracing::warn!(%error, "signals that the launcher has blocked stay blocked");
        }
        for signal in signals.forever() {
            match Signal::try_from(signal) {
                Ok(Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT) => stop.stop(),
                Ok(Signal::SIGHUP) => stop.demand(Demand::Reload),
                _ => tracing::warn!(signal, "a signal without a meaning here was ignored"),
            }
        }
    };
    // The thread is not one of the server's scope, so it handles signals even if something keeps
    // the server from ending.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(serve)
        .map_err(|error| unstarted(&format!("the thread {name}"), &error))?;
    Ok(OnDrop(Box::new(move || handle.close())))
}
