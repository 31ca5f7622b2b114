//! A server while it serves: it takes over from a predecessor, follows demands, and hands over to a
//! successor. At any time exactly one process counts the kernel's drops at the sockets.

use super::control::{Control, Phase};
use super::stop::{Demand, Demands};
use crate::handler::{Inherited, Service};
use crate::net::Io;
use crate::output::unstarted;
use crate::runtime::Shared;
use crate::runtime::continuation::lock;
use crate::server::error::{HandOverError, ServeError};
use crate::server::handover::{Door, OfferContent, Predecessor, Successor};
use crate::shards::Events;

use crate::server::listening::Listening;
use crate::server::path::packet::Packet;
use crate::server::path::serving::Make;
use crate::time::Nanos;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::{io, thread};

/// How often to read the host's addresses, because interfaces come and go.
pub(super) const REFRESH_EVERY: Nanos = Nanos::from_secs(1);

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> Control<'_, 's, '_, H, M> {
    /// Lets the threads begin, once the predecessor, if there is one, has stopped receiving. If the
    /// predecessor keeps serving nevertheless, returns the failure that ends this server.
    ///
    /// # Errors
    /// If the predecessor keeps serving and no thread has begun.
    pub(super) fn take_over(
        &self,
        predecessor: Option<Predecessor>,
        begin: &OnceLock<bool>,
    ) -> Result<Option<ServeError>, ServeError> {
        let dropped = predecessor.as_ref().map(Predecessor::await_begin).transpose();
        let dropped = dropped.map_err(|source| self.not_handed_over(source))?;
        if self.bound.listening.used {
            // Counts the kernel's drops from the predecessor's last counters on; without them, from
            // now on.
            lock(&self.drops).begin_at(&self.bound.listening.group.sockets, &dropped.unwrap_or_default());
            // Detaches a filter that another process, maybe a killed one, has left.
            self.bound.listening.group.leave_gate(false);
        }
        let _ = begin.set(true);
        if predecessor.is_some() {
            // This must come before the predecessor ends, because systemd stops a service whose
            // main process has ended.
            self.conduct.supervisor.main_process();
        }
        let Some(predecessor) = predecessor else { return Ok(None) };
        if let Some(reason) = predecessor.say_serving() {
            self.set_handed_over(true);
            return Ok(Some(self.not_handed_over(HandOverError::Stays(reason))));
        }
        if let Some(heirs) = self.common.serving.room.reached() {
            inherit(predecessor, heirs)?;
        }
        Ok(None)
    }

    fn not_handed_over(&self, source: HandOverError) -> ServeError {
        ServeError::HandOver { path: self.bound.config.handover.clone().unwrap_or_default(), source }
    }

    /// Serves until the server must end. If a failure ends it, returns the failure. A successor
    /// gets `spare`: the door and the admin listener. `release` drops this server's own listener.
    pub(super) fn serve(
        &self,
        demands: &mut Demands,
        spare: Option<&(&Door, TcpListener)>,
        serving: impl FnOnce(),
        release: impl FnOnce(),
    ) -> Option<ServeError> {
        let config = &self.bound.config;
        self.bound.listening.door.iter().for_each(|door| door.own.store(true));
        tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
        self.conduct.supervisor.ready(config);
        serving();
        loop {
            match (demands.next(REFRESH_EVERY), spare) {
                (None, _) => self.refresh_addresses(),
                (Some(Demand::Reload), _) => self.reload(),
                (Some(Demand::HandOver(asked)), Some(spare)) => match self.hand_over(&asked, spare, demands) {
                    Ok(()) => {
                        *lock(&self.successor) = Some(asked);
                        tracing::info!("the successor serves: this server finishes what it has received");
                        release();
                        return None;
                    }
                    Err(reason) => tracing::warn!(reason, "not handed over, and serving on"),
                },
                (Some(Demand::HandOver(asked)), None) => asked.refuse("it has nothing to hand over"),
                (Some(Demand::Fail(reason)), _) => {
                    tracing::error!(reason, "the admin endpoint has ended: a server that cannot be looked at stops");
                    return Some(ServeError::Admin(reason));
                }
                (Some(Demand::Stop), _) => return None,
            }
        }
    }

    /// Hands over to the successor that `asked`.
    ///
    /// # Errors
    /// The reason. The server then keeps serving, and the successor has been told or has died.
    fn hand_over(
        &self,
        asked: &Successor,
        (door, listener): &(&Door, TcpListener),
        demands: &mut Demands,
    ) -> Result<(), String> {
        let (Listening { group, kept, .. }, gro) = (&self.bound.listening, self.bound.config.io == Io::Gro);
        let given =
            OfferContent { sockets: &group.sockets, kept: *kept, gro, watchdog: self.conduct.supervisor.watchdog };
        let offered = asked.offer(given, door, listener, || demands.has_stop());
        offered.and_then(|()| asked.begin(self.pause())).inspect_err(|reason| {
            // Resume before telling the successor, so that one of the two processes always
            // receives.
            self.resume();
            asked.stay(reason);
        })?;
        door.own.store(false);
        Ok(())
    }

    /// Gives the successor, if there is one, what the shards hand over.
    pub(super) fn give_state(&self) {
        let given = lock(&self.successor)
            .take()
            .map(|asked| asked.give_state(&self.common.serving.room.events.take_handed_over()));
        if let Some(Err(error)) = given {
            tracing::warn!(%error, "what the shards hand over cannot be given to the successor");
        }
    }

    /// Whether datagrams left in the sockets at the end are for another process.
    pub(crate) fn leaves_sockets(&self) -> bool {
        self.bound.listening.kept || self.is_handed_over()
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.phase.load() == Phase::HandedOver
    }

    /// If `handed_over`, a successor counts the kernel's drops from now on; otherwise this process
    /// does again. Returns the kernel's current counters, by socket.
    fn set_handed_over(&self, handed_over: bool) -> Vec<Option<u32>> {
        let mut drops = lock(&self.drops);
        if handed_over {
            // If the counters cannot be read, they are unknown in both processes.
            let _ = drops.read(&self.bound.listening.group.sockets);
        }
        self.bound.listening.group.leave_gate(handed_over);
        self.phase.store(if handed_over { Phase::HandedOver } else { Phase::Serving });
        drops.counters()
    }

    /// Datagrams that the kernel dropped at each socket; `None` if currently unreadable.
    pub(crate) fn dropped_by_socket(&self) -> Vec<Option<u64>> {
        let mut drops = lock(&self.drops);
        if !self.is_handed_over()
            && let Err(error) = drops.read(&self.bound.listening.group.sockets)
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

    /// Stops receiving. Returns the kernel's drop counters at that moment, by socket.
    fn pause(&self) -> Vec<Option<u32>> {
        self.shared.each().for_each(Shared::stop_receiving);
        self.set_handed_over(true)
    }

    /// Undoes [`Control::pause`]. Has no harmful effect if `pause` was not called.
    fn resume(&self) {
        self.set_handed_over(false);
        self.shared.each().for_each(Shared::start_receiving);
        // The successor may have told systemd that it is the main process.
        self.conduct.supervisor.main_process();
    }
}

/// Gives the shards what those of the predecessor hand over, once it has finished its requests. A
/// thread waits for it, until this server ends.
fn inherit(predecessor: Predecessor, events: &Arc<Events>) -> io::Result<()> {
    let events = Arc::downgrade(events);
    let wait = move || {
        let state = predecessor.await_state(|| events.strong_count() > 0);
        let lost = state.map(|state| events.upgrade().map_or(0, |events| events.inherit(&state, Inherited)));
        if !matches!(lost, Ok(0)) {
            tracing::warn!(bytes = ?lost, "what the predecessor's shards hand over is lost, or a part of it");
        }
    };
    let started = thread::Builder::new().name("forebay-state".to_owned()).spawn(wait);
    started.map(drop).map_err(|error| unstarted("the thread forebay-state", &error))
}
