//! Signals: SIGTERM and SIGINT stop the server, and SIGHUP lets it read its configuration again. Other signals that
//! would kill it without a drain do nothing.

use super::stop::{Demand, StopHandle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io;

/// Catches the signals from now on; a signal that arrives before [`serve`] runs is kept.
pub(in crate::server) fn catch() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])
}

/// Handles caught signals until their handle is closed.
pub(in crate::server) fn serve(signals: &mut Signals, stop: &StopHandle) {
    for signal in signals.forever() {
        match signal {
            SIGTERM | SIGINT => stop.stop(),
            SIGHUP => stop.demand(Demand::Reload),
            _ => tracing::warn!(signal, "a signal without a meaning here was ignored"),
        }
    }
}
