//! Who may stop a server, or put another policy to work on it.

use crate::config::{Classify, Config};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What somebody wants of a server.
#[derive(Clone, Debug)]
pub(super) enum Demand {
    /// It shall stop; the second demand wants it at once.
    Stop,
    /// It shall follow the policy, the pools and the slice of this configuration.
    Follow(Box<Config>),
    /// It cannot go on, for this reason, and shall stop.
    Fail(String),
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    demands: Sender<Demand>,
}

/// Puts another policy to work on a server that runs, from any thread.
#[derive(Clone, Debug)]
pub struct PolicyHandle {
    demands: Sender<Demand>,
    workers: usize,
    classify: Classify,
}

/// Why a server cannot follow a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// Workers are made at start.
    #[error("--workers {asked}: a server that runs keeps its workers; allowed: {has}")]
    Workers {
        /// How many there are.
        has: usize,
        /// How many the configuration has.
        asked: usize,
    },
    /// What a policy may know is settled at start.
    #[error("--classify {}: what is known of a request is settled at the start; allowed: {}", .asked.name(), .has.name())]
    Classify {
        /// What holds.
        has: Classify,
        /// What the configuration has.
        asked: Classify,
    },
}

impl StopHandle {
    pub(super) fn new() -> (StopHandle, Receiver<Demand>) {
        let (demands, receiver) = channel();
        (StopHandle { demands }, receiver)
    }

    /// The same way in, for policies.
    pub(super) fn policy_handle(&self, config: &Config) -> PolicyHandle {
        PolicyHandle { demands: self.demands.clone(), workers: config.workers, classify: config.classify }
    }

    /// Asks the server to stop: it serves on for `lame_duck`, then finishes what it has received and what waits in its
    /// sockets, for at most the drain timeout. Asked once more, it ends the part that it is in. Does nothing to a server
    /// that has ended.
    pub fn stop(&self) {
        let _ = self.demands.send(Demand::Stop);
    }
}

impl StopHandle {
    /// Tells the server that it cannot go on.
    pub(super) fn fail(&self, reason: String) {
        let _ = self.demands.send(Demand::Fail(reason));
    }
}

impl PolicyHandle {
    /// Makes the server follow the policy of `config`, with its pools and its slice; no other setting of it is looked at.
    /// Requests under way go on: each worker follows when it has finished what it is at. Does nothing to a server that
    /// stops or has ended.
    ///
    /// # Errors
    /// When `config` has another number of workers, or another `classify` than the server.
    pub fn follow(&self, config: &Config) -> Result<(), FollowError> {
        if config.workers != self.workers {
            return Err(FollowError::Workers { has: self.workers, asked: config.workers });
        }
        if config.classify != self.classify {
            return Err(FollowError::Classify { has: self.classify, asked: config.classify });
        }
        let _ = self.demands.send(Demand::Follow(Box::new(config.clone())));
        Ok(())
    }
}
