//! A server serves: it takes over, follows what is demanded, and hands over. One process has the sockets at a time, and
//! counts what the kernel drops at them.

use super::handover::{Door, HandOverError, Offer, Predecessor};
use super::stop::{Demand, Demands};
use crate::server::admin::control::Control;
use crate::server::{Bound, ServeError};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{OnceLock, PoisonError};

/// Lets the threads begin once the predecessor, if there is one, has stopped receiving. Returns the reason
/// if it serves on after all.
///
/// # Errors
/// When the predecessor serves on; no thread has begun then.
pub(super) fn take_over<J: Send>(
    control: &Control<'_, J>,
    predecessor: Option<Predecessor>,
    begin: &OnceLock<bool>,
) -> Result<Option<String>, ServeError> {
    let bound = control.bound;
    let dropped = predecessor.as_ref().map(Predecessor::await_begin).transpose();
    let dropped = dropped.map_err(|source| not_handed_over(bound, source))?;
    if bound.listening.used {
        control.begin_drops(&dropped.unwrap_or_default());
    }
    let _ = begin.set(true);
    if predecessor.is_some() {
        // Before it goes: a service without its main process is over.
        bound.supervisor.main_process();
    }
    Ok(predecessor.and_then(Predecessor::say_serving))
}

/// Serves until the server must end; returns the failure that ends it, if it is one. `listener` is the admin listener that a
/// successor gets, and `release` lets go of this server's own.
pub(super) fn serve<J: Send>(
    control: &Control<'_, J>,
    demands: &mut Demands,
    listener: Option<&TcpListener>,
    serving: impl FnOnce(),
    release: impl FnOnce(),
) -> Option<ServeError> {
    let Bound { config, listening, supervisor, .. } = control.bound;
    listening.door.iter().for_each(Door::make_own);
    tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
    supervisor.ready(config);
    serving();
    follow_demands(control, demands, offer(control.bound, listener).as_ref(), release)
}

/// Leaves the service to the predecessor, which serves on for `reason`.
pub(super) fn leave_service<J: Send>(control: &Control<'_, J>, reason: String) -> ServeError {
    control.set_handed_over(true);
    not_handed_over(control.bound, HandOverError::Stays(reason))
}

/// What a successor gets.
fn offer<'a>(bound: &'a Bound, admin_listener: Option<&'a TcpListener>) -> Option<Offer<'a>> {
    let Bound { config, listening, ways, supervisor, .. } = bound;
    let (door, admin_listener) = listening.door.as_ref().zip(admin_listener)?;
    let address = admin_listener.local_addr().ok()?;
    Some(Offer {
        listen: [&config.listen[..], listening.group.addresses()],
        admin: [config.admin.unwrap_or(address), address],
        group: &listening.group,
        admin_listener,
        door,
        receive: ways.receive,
        kept: listening.kept,
        watchdog: supervisor.watchdog(),
    })
}

/// Does what is demanded until the server must end; returns the failure that ends it, if it is one.
fn follow_demands<J: Send>(
    control: &Control<'_, J>,
    demands: &mut Demands,
    offer: Option<&Offer<'_>>,
    release: impl FnOnce(),
) -> Option<ServeError> {
    loop {
        match (demands.next(), offer) {
            (Demand::Follow(config), _) => control.follow(&config),
            (Demand::Reload, _) => control.reload(),
            (Demand::HandOver(asked), Some(offer)) => {
                let (pause, resume) = (|| control.pause(), || control.resume());
                match asked.hand_over(offer, pause, resume, || demands.has_stop()) {
                    Ok(()) => {
                        tracing::info!("the successor serves: this server finishes what it has received");
                        release();
                        return None;
                    }
                    Err(reason) => tracing::warn!(reason, "not handed over, and serving on"),
                }
            }
            (Demand::HandOver(asked), None) => asked.refuse("it has nothing to hand over"),
            (Demand::Fail(reason), _) => {
                tracing::error!(reason, "the admin endpoint has ended: a server that cannot be looked at stops");
                return Some(ServeError::Admin(reason));
            }
            (Demand::Stop, _) => return None,
        }
    }
}

fn not_handed_over(bound: &Bound, source: HandOverError) -> ServeError {
    ServeError::HandOver { path: bound.config.handover.clone().unwrap_or_default(), source }
}

impl<J> Control<'_, J> {
    /// Whether what waits in the sockets at the end is another process's to serve.
    pub(in crate::server) fn leaves_sockets(&self) -> bool {
        self.bound.listening.kept || self.is_handed_over()
    }

    pub(in crate::server) fn is_handed_over(&self) -> bool {
        // Ordering: relaxed, written under the lock of `drops` where it guards anything.
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Counts what the kernel drops from `counters` on, by socket; what is not among them from now on.
    pub(in crate::server) fn begin_drops(&self, counters: &[Option<u32>]) {
        self.drops.lock().unwrap_or_else(PoisonError::into_inner).begin_at(counters);
    }

    /// Gives what the kernel drops from now on to a successor to count, or takes it back. Returns the kernel's counters as
    /// of now, by socket.
    fn set_handed_over(&self, handed_over: bool) -> Vec<Option<u32>> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        if handed_over {
            // Where they cannot be read they are unknown, here and there.
            let _ = drops.read();
        }
        self.handed_over.store(handed_over, Ordering::Relaxed);
        drops.counters()
    }

    /// Datagrams that the kernel dropped at each socket; `None` where that cannot be read now.
    pub(in crate::server) fn dropped_by_socket(&self) -> Vec<Option<u64>> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_handed_over()
            && let Err(error) = drops.read()
        {
            self.drops_unread.call_once(|| {
                tracing::warn!(
                    %error,
                    "what the kernel drops at our sockets cannot be read: it is null on /latency and absent on /metrics"
                );
            });
        }
        drops.totals().collect()
    }
}

impl<J: Send> Control<'_, J> {
    /// Receives no more. Returns the kernel's drop counters as of then, by socket.
    fn pause(&self) -> Vec<Option<u32>> {
        self.shared.stop_receiving();
        self.set_handed_over(true)
    }

    /// Undoes [`Control::pause`], also where it was not called.
    fn resume(&self) {
        self.set_handed_over(false);
        self.shared.start_receiving();
        // The successor may have said that it is the one.
        self.bound.supervisor.main_process();
    }
}
