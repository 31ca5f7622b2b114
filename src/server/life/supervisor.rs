//! Reports to systemd, or to another supervisor that set `NOTIFY_SOCKET` (sd_notify(3)).

use crate::config::Config;
use crate::time::Nanos;
use sd_notify::NotifyState;
use std::time::Duration;

/// How often a watchdog is fed in its interval. More than once, because a feed is left out if a
/// worker seems to stand still, for example while it wakes up.
const FEEDS: u32 = 4;

/// The supervisor of this process, such as systemd, if it listens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Supervisor {
    listens: bool,
    /// The interval in which the watchdog must be fed; `None` = no watchdog.
    pub(crate) watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads the environment. systemd sets the watchdog's interval only for the main process that
    /// it starts. A successor of this process has no such variable but is watched too, so it uses
    /// `predecessor`, the interval of its predecessor.
    pub(crate) fn from_environment(predecessor: Option<Duration>) -> Supervisor {
        let listens = std::env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = sd_notify::watchdog_enabled().filter(|time| !time.is_zero()).or(predecessor);
        Supervisor { listens, watchdog: watchdog.filter(|_| listens) }
    }

    /// How often to feed the watchdog; `None` = no watchdog.
    pub(crate) fn watchdog_every(&self) -> Option<Nanos> {
        self.watchdog.map(|time| Nanos::from((time / FEEDS).max(Duration::from_millis(1))))
    }

    /// Reports that the server serves, or has reloaded its configuration.
    pub(crate) fn ready(&self, config: &Config) {
        let status = format!("serving: policy {}, {} workers", config.policy.name(), config.workers);
        self.tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    /// Reports that a reload begins; [`Supervisor::ready`] ends it.
    pub(crate) fn reloading(&self) {
        // The message has the time, because without it systemd aborts the reload.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the supervisor does not learn of the reload"),
        }
    }

    /// Reports that the server stops.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping: finishing what was received")]);
    }

    /// Reports that this process is the service's main process, because its predecessor hands over,
    /// or because it has taken the sockets back.
    pub(crate) fn main_process(&self) {
        self.tell(&[NotifyState::MainPid(std::process::id())]);
    }

    /// Feeds the supervisor's watchdog, which means that the workers make progress.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_four_times_in_its_interval() {
        let every = |ms| Supervisor { listens: true, watchdog: ms }.watchdog_every();
        let fed = [None, Some(0), Some(3), Some(10_000)].map(|ms| every(ms.map(Duration::from_millis)));
        assert_eq!(fed, [None, Some(1), Some(1), Some(2_500)].map(|ms| ms.map(Nanos::from_millis)));
    }
}
