//! Handles that stop a server, or switch the policy of a running one.

use super::handover::Asked;
use crate::config::{Classify, Config};
use crate::sched::PolicyName;
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
    /// Follow the policy of this configuration, with its sizes and its slice.
    Follow(Box<Config>),
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
    pub(in crate::server) fn new(receiver: Receiver<Demand>) -> Demands {
        Demands { receiver, seen: VecDeque::new() }
    }

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

/// Switches the policy of a running server, from any thread.
#[derive(Clone, Debug)]
pub struct PolicyHandle {
    demands: Sender<Demand>,
    /// What the server started with.
    config: Config,
}

/// Why a server cannot follow a configuration.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The configuration has another number of workers; workers are made at start.
    #[error("--workers {asked}: a server that runs keeps its workers; allowed: {has}")]
    Workers {
        /// The server's number of workers.
        has: usize,
        /// The configuration's number of workers.
        asked: usize,
    },
    /// The policy has sizes of its own, which groups exclude; groups are settled at the start.
    #[error("--policy {0}: this server's workers form groups, which have no sizes; start it with --groups 1")]
    Groups(PolicyName),
    /// The configuration has another `classify`; what a policy may know is fixed at start.
    #[error("--classify {}: what is known of a request is settled at the start; allowed: {}", .asked.name(), .has.name())]
    Classify {
        /// The server's `classify`.
        has: Classify,
        /// The configuration's `classify`.
        asked: Classify,
    },
}

crate::time::show_as_text!(FollowError);

impl StopHandle {
    pub(in crate::server) fn new() -> (StopHandle, Receiver<Demand>) {
        let (demands, receiver) = channel();
        (StopHandle { demands }, receiver)
    }

    /// A handle that switches policies of the same server.
    pub(in crate::server) fn policy_handle(&self, config: &Config) -> PolicyHandle {
        PolicyHandle { demands: self.demands.clone(), config: config.clone() }
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

impl PolicyHandle {
    /// Makes the server follow the policy of `config`, with its pools, its reserved workers and its slice; all other
    /// settings are ignored.
    /// Requests in progress continue: each worker switches when it has finished its current job. No effect on a server
    /// that is stopping or has ended.
    ///
    /// # Errors
    /// When `config` has another number of workers, or another `classify` than the server, or a policy with sizes where
    /// workers form groups.
    pub fn follow(&self, config: &Config) -> Result<(), FollowError> {
        if config.workers != self.config.workers {
            return Err(FollowError::Workers { has: self.config.workers, asked: config.workers });
        }
        if self.config.groups > 1 && !config.policy.entry().may_group() {
            return Err(FollowError::Groups(config.policy));
        }
        if config.classify != self.config.classify {
            return Err(FollowError::Classify { has: self.config.classify, asked: config.classify });
        }
        let _ = self.demands.send(Demand::Follow(Box::new(config.clone())));
        Ok(())
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
