//! What the server reports to systemd, or to another supervisor that set `NOTIFY_SOCKET`
//! (sd_notify(3)).

use crate::config::Config;
use crate::time::Nanos;
use sd_notify::NotifyState;
use std::time::Duration;

/// A watchdog is fed this many times in its time: a look that comes while a worker wakes up sees it
/// standing still.
const FEEDS: u32 = 4;

/// The supervisor of this process, if it listens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Supervisor {
    listens: bool,
    /// The time within which the watchdog must be fed; `None` without one.
    pub(crate) watchdog: Option<Duration>,
}

impl Supervisor {
    /// What the environment says. A supervisor sets a watchdog for the process that it starts as
    /// the main one. A process that succeeds the main one has none of its own, and is watched as
    /// that one was. `predecessor` is the time within which that watchdog had to be fed.
    pub(crate) fn from_environment(predecessor: Option<Duration>) -> Supervisor {
        let listens = std::env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = sd_notify::watchdog_enabled().filter(|time| !time.is_zero()).or(predecessor);
        Supervisor { listens, watchdog: watchdog.filter(|_| listens) }
    }

    /// How often the watchdog is to be fed; `None` without one.
    pub(crate) fn watchdog_every(&self) -> Option<Nanos> {
        self.watchdog.map(|time| Nanos::from((time / FEEDS).max(Duration::from_millis(1))))
    }

    /// The server serves, or has read its configuration again.
    pub(crate) fn ready(&self, config: &Config) {
        let status = format!("serving: policy {}, {} workers", config.policy.name(), config.workers);
        self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    /// The server reads its configuration again, until it is ready.
    pub(crate) fn reloading(&self) {
        // Without the time of the message systemd gives the reload up.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the supervisor does not learn of the reload"),
        }
    }

    /// The server stops.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping: finishing what was received")]);
    }

    /// This process is the service's main one: the one before it hands over, or has taken back.
    pub(crate) fn main_process(&self) {
        self.tell(&[NotifyState::MainPid(std::process::id())]);
    }

    /// The workers make progress.
    pub(crate) fn feed_watchdog(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    fn tell(&self, state: &[NotifyState<'_>]) {
        if self.listens
            && let Err(error) = sd_notify::notify(state)
        {
            tracing::warn!(%error, ?state, "the supervisor cannot be reached (NOTIFY_SOCKET)");
        }
    }
}
