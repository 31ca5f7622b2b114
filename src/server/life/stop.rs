//! What is demanded of a running server: by handles that stop it, by signals, and by its own
//! threads.

use crate::output::unstarted;
use crate::server::handover::Asked;
use crate::time::{Nanos, clock};
use nix::sys::signal::{SigSet, Signal};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

/// The interval at which a server that waits for stuck handlers checks whether they have ended.
const INSIST_POLL: Nanos = Nanos::from_millis(10);
/// The time in which a server ends once nothing is left to wait for.
const END_WITHIN: Nanos = Nanos::from_secs(1);

/// Calls its function when it is dropped.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// A demand on a running server.
#[derive(Debug)]
pub(crate) enum Demand {
    /// Stop; a second demand means stop at once.
    Stop,
    /// Read the configuration again, and follow what may change.
    Reload,
    /// Hand over to this successor.
    HandOver(Asked),
    /// Stop because of a failure, for this reason.
    Fail(String),
}

/// The demands on a running server, in their order.
pub(crate) struct Demands {
    receiver: Receiver<Demand>,
    /// Those that were looked at already.
    seen: VecDeque<Demand>,
}

impl Demands {
    /// The next demand, if one comes within `patience`.
    pub(crate) fn next(&mut self, patience: Nanos) -> Option<Demand> {
        self.seen.pop_front().or_else(|| self.receiver.recv_timeout(patience.into()).ok())
    }

    /// The next demand on a server that stops, if one comes within `patience`. It hands over no
    /// more.
    pub(crate) fn next_within(&mut self, patience: Nanos) -> Option<Demand> {
        match self.next(patience) {
            Some(Demand::HandOver(asked)) => {
                asked.refuse("it is stopping");
                None
            }
            demand => demand,
        }
    }

    /// Waits for another demand to stop, and returns true; false if `all_ended` before.
    pub(crate) fn insist(&mut self, all_ended: impl Fn() -> bool) -> bool {
        while !all_ended() {
            if let Some(Demand::Stop) = self.next_within(INSIST_POLL) {
                return true;
            }
        }
        false
    }

    /// Calls `exit` soon after another demand to stop, or after `patience` if there is one.
    /// Dropping the returned value cancels this. After the drain nothing else hears a demand, and
    /// the handler's destructors, tasks and callbacks may block each further step.
    pub(super) fn last_resort(mut self, patience: Option<Nanos>, exit: impl FnOnce() + Send + 'static) -> LastResort {
        let end = patience.map(|patience| clock::now().plus(patience));
        let ended = Arc::new(AtomicBool::new(false));
        let off = ended.clone();
        let watch = move || {
            // Ordering: relaxed, a flag that guards nothing.
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

    /// Whether a demand to stop is among those that wait.
    pub(crate) fn has_stop(&mut self) -> bool {
        self.seen.extend(self.receiver.try_iter());
        self.seen.iter().any(|demand| matches!(demand, Demand::Stop | Demand::Fail(_)))
    }
}

/// Ends a process that hangs while it stops; dropping this value cancels it.
pub(super) type LastResort = OnDrop<Box<dyn FnMut()>>;

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

    /// Asks the server to stop. It serves on for `lame_duck`. Then it finishes what it has received
    /// and what waits in its sockets, for at most the drain timeout. A second call ends the current
    /// phase. No effect on a server that has ended.
    pub fn stop(&self) {
        let _ = self.demands.send(Demand::Stop);
    }

    pub(crate) fn demand(&self, demand: Demand) {
        let _ = self.demands.send(demand);
    }
}

/// The signals that are caught. Uncaught, each would kill the server without a drain.
const CAUGHT: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Catches signals from now on. One that arrives before [`serve_signals`] runs is kept.
pub(crate) fn catch_signals() -> io::Result<Signals> {
    Signals::new(CAUGHT.map(|signal| signal as i32))
}

/// Handles caught signals until the returned value is dropped. SIGTERM, SIGINT and SIGQUIT stop the
/// server; SIGHUP makes it read its configuration again.
pub(super) fn serve_signals(mut signals: Signals, stop: StopHandle) -> io::Result<OnDrop<impl FnMut()>> {
    let name = "forebay-signals";
    let handle = signals.handle();
    let serve = move || {
        // A process inherits the signals that its launcher had blocked. One thread that takes them
        // is enough.
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
    // Not of the server's scope: it hears a signal for as long as anything may keep the server.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(serve)
        .map_err(|error| unstarted(&format!("the thread {name}"), &error))?;
    Ok(OnDrop(move || handle.close()))
}
