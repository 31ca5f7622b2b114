//! What is demanded of a running server: by handles that stop it, by signals, and by its own threads.

use super::handover::Asked;
use crate::time::Nanos;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The interval at which a server that waits for stuck handlers checks whether they have ended.
const INSIST_POLL: Nanos = Nanos::from_millis(10);

/// A demand on a running server.
#[derive(Debug)]
pub(in crate::server) enum Demand {
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
pub(in crate::server) struct Demands {
    receiver: Receiver<Demand>,
    /// Those that were looked at already.
    seen: VecDeque<Demand>,
}

impl Demands {
    /// Waits for the next demand. Without a handle that could make one, it is a stop.
    pub(in crate::server) fn next(&mut self) -> Demand {
        self.seen.pop_front().or_else(|| self.receiver.recv().ok()).unwrap_or(Demand::Stop)
    }

    /// The next demand on a server that stops, if one comes within `patience`. It hands over no more.
    pub(in crate::server) fn next_within(&mut self, patience: Nanos) -> Option<Demand> {
        match self.seen.pop_front().or_else(|| self.receiver.recv_timeout(patience.into()).ok()) {
            Some(Demand::HandOver(asked)) => {
                asked.refuse("it is stopping");
                None
            }
            demand => demand,
        }
    }

    /// Waits for another demand to stop, and returns true; false if `all_ended` before.
    pub(in crate::server) fn insist(&mut self, all_ended: impl Fn() -> bool) -> bool {
        while !all_ended() {
            if let Some(Demand::Stop) = self.next_within(INSIST_POLL) {
                return true;
            }
        }
        false
    }

    /// Whether a demand to stop is among those that wait.
    pub(in crate::server) fn has_stop(&mut self) -> bool {
        self.seen.extend(self.receiver.try_iter());
        self.seen.iter().any(|demand| matches!(demand, Demand::Stop | Demand::Fail(_)))
    }
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    demands: Sender<Demand>,
}

impl StopHandle {
    pub(in crate::server) fn new() -> (StopHandle, Demands) {
        let (demands, receiver) = channel();
        (StopHandle { demands }, Demands { receiver, seen: VecDeque::new() })
    }

    /// Asks the server to stop. It serves on for `lame_duck`. Then it finishes what it has received and what waits in
    /// its sockets, for at most the drain timeout. A second call ends the current phase. No effect on a server that
    /// has ended.
    pub fn stop(&self) {
        let _ = self.demands.send(Demand::Stop);
    }

    pub(in crate::server) fn demand(&self, demand: Demand) {
        let _ = self.demands.send(demand);
    }
}

/// Catches SIGTERM and SIGINT, which stop the server. SIGHUP lets it read its configuration again. SIGUSR1 and SIGUSR2 would
/// kill it without a drain. They are caught from now on; a signal that arrives before [`serve_signals`] runs is
/// kept.
pub(in crate::server) fn catch_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])
}

/// Handles caught signals until their handle is closed.
pub(in crate::server) fn serve_signals(signals: &mut Signals, stop: &StopHandle) {
    for signal in signals.forever() {
        match signal {
            SIGTERM | SIGINT => stop.stop(),
            SIGHUP => stop.demand(Demand::Reload),
            _ => tracing::warn!(signal, "a signal without a meaning here was ignored"),
        }
    }
}
