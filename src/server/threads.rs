//! The threads of a server: how they are made, and how each worker's is prepared.

use super::pin;
use crate::config::{Burn, Config, Wait};
use crate::emulation;
use crate::emulation::overheads::Overheads;
use std::io;
use std::thread::{self, Scope, ScopedJoinHandle};

/// Applies kernel settings to a worker's thread, without which it works, only less well, and the `prices` of what an
/// emulated core does.
pub(super) fn prepare_thread(config: &Config, worker: usize, prices: Overheads) {
    if config.pin
        && let Err(error) = pin::pin_to_cpu_of(worker)
    {
        tracing::warn!(worker, %error, "the worker cannot be pinned");
    }
    if config.burn == Burn::Sleep {
        emulation::set_prices(prices, config.scaled(Wait::Adaptive.spin_for()));
    }
    if config.burn == Burn::Sleep
        && let Err(error) = nix::sys::prctl::set_timerslack(1)
    {
        tracing::warn!(worker, %error, "emulated cores will oversleep: the timer slack cannot be set");
    }
}

/// What each step costs an emulated core. Where the kernel gives no notices, a job that would wait for one looks.
pub(super) fn prices(config: &Config, notices_by_kernel: bool) -> Overheads {
    let prices = config.overheads_scaled();
    let notice = if notices_by_kernel { prices.notice } else { prices.look };
    Overheads { notice, ..prices }
}

/// Spawns a thread of the server; the error names the thread and a likely cause.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, body).map_err(|error| {
        let limits = "`ulimit -u`, TasksMax of a systemd unit, pids.max of a cgroup";
        io::Error::new(error.kind(), format!("the thread {name} cannot be started: {error}; see {limits}"))
    })
}
