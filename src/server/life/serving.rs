//! A server serves: it takes over, follows what is demanded, and hands over.

use super::handover::{Door, Farewell, HandOverError, Offer, Predecessor};
use super::latch::Latch;
use super::ownership::HandingOver;
use super::stop::{Demand, Demands};
use crate::server::admin::control::Control;
use crate::server::{Bound, ServeError};
use std::net::TcpListener;

/// Lets the threads begin once the predecessor, if there is one, has stopped receiving. Returns what became of it.
///
/// # Errors
/// When the predecessor serves on; no thread has begun then.
pub(super) fn begin<J: Send>(
    control: &Control<'_, J>,
    predecessor: Option<Predecessor>,
    latch: &Latch,
) -> Result<Farewell, ServeError> {
    let bound = control.bound;
    let dropped = predecessor.as_ref().map(Predecessor::await_begin).transpose();
    let dropped = dropped.map_err(|source| not_handed_over(bound, source))?;
    if bound.listening.used {
        control.begin_drops(&dropped.unwrap_or_default());
    }
    latch.open();
    if predecessor.is_some() {
        // Before it goes: a service without its main process is over.
        bound.supervisor.main_process();
    }
    Ok(predecessor.map_or(Farewell::Gone, Predecessor::say_serving))
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
    control.leave_to_predecessor();
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
                match asked.hand_over(offer, &mut HandingOver { control, demands }) {
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
