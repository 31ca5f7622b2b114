//! The data with which a server starts, grouped by its users.

use super::stop::{Demands, StopHandle};
use super::supervisor::Supervisor;
use crate::config::Config;
use crate::net::AddressFilter;
use crate::server::admin::{Metrics, Questions};
use crate::server::board::Board;
use crate::server::listening::Listening;
use crate::server::reload::Reloads;
use crate::server::{notices, shown, spawner};
use signal_hook::iterator::Signals;

/// A bound server without threads.
pub(crate) struct Start {
    pub(crate) bound: Bound,
    pub(crate) conduct: Conduct,
    pub(crate) demands: Demands,
    pub(crate) signals: Option<Signals>,
    pub(crate) reloads: Reloads,
    pub(crate) questions: Questions,
    pub(crate) metrics: Metrics,
    pub(crate) packets: usize,
}

/// The data that workers and control threads use until the server ends.
// Fields are dropped in this order, so that the sockets are closed before spawned work is dropped
// that no worker has taken.
pub(crate) struct Bound {
    pub(crate) listening: Listening,
    pub(crate) config: Config,
    pub(crate) filter: AddressFilter,
    pub(crate) notices: notices::NoticeWay,
    pub(crate) spawning: spawner::Owner,
    pub(crate) board: Board,
    /// The handler's own metrics, in the order in which they were added.
    pub(crate) own: shown::Own,
}

/// How the process behaves towards the operating system and its supervisor. Workers and pages do
/// not use it.
pub(crate) struct Conduct {
    pub(crate) stop: StopHandle,
    pub(crate) exit_when_stuck: bool,
    pub(crate) log_panics: bool,
    pub(crate) supervisor: Supervisor,
}
