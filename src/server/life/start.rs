//! What a server's life begins with, by who may touch it.

use super::stop::{Demands, StopHandle};
use super::supervisor::Supervisor;
use crate::config::Config;
use crate::metrics::OwnValue;
use crate::net::AddressFilter;
use crate::server::admin::{Metrics, Questions};
use crate::server::board::Board;
use crate::server::listening::Listening;
use crate::server::reload::Reloads;
use crate::server::shown::Read;
use crate::server::{notices, spawner};
use signal_hook::iterator::Signals;

/// A server that listens, and has no threads yet.
pub(in crate::server) struct Start {
    pub(in crate::server) bound: Bound,
    pub(in crate::server) conduct: Conduct,
    pub(in crate::server) demands: Demands,
    pub(in crate::server) signals: Option<Signals>,
    pub(in crate::server) reloads: Reloads,
    pub(in crate::server) questions: Questions,
    pub(in crate::server) metrics: Metrics,
    /// Metrics of the handler's own, in the order in which they were added.
    pub(in crate::server) own_metrics: Vec<(OwnValue, Read)>,
    pub(in crate::server) packets: usize,
}

/// What workers and control threads use to the end.
// Dropped in this order: the sockets before the spawned work that no worker takes any more.
pub(in crate::server) struct Bound {
    pub(in crate::server) listening: Listening,
    pub(in crate::server) config: Config,
    pub(in crate::server) filter: AddressFilter,
    pub(in crate::server) notices: notices::Found,
    pub(in crate::server) spawning: spawner::Owner,
    pub(in crate::server) board: Board,
}

/// How the process behaves to those around it. No worker and no page sees that.
pub(in crate::server) struct Conduct {
    pub(in crate::server) stop: StopHandle,
    pub(in crate::server) exit_when_stuck: bool,
    pub(in crate::server) log_panics: bool,
    pub(in crate::server) supervisor: Supervisor,
}
