//! What the endpoint adds to the control thread: pages over HTTP, and what their clients ask of the
//! server.

pub(super) mod flight;
pub(super) mod http;

pub(super) use flight::Flight;
pub(in crate::server) use http::Limits;

use super::control::{Control, Phase};
use super::{gate, run_queue};
use crate::handler::Handler;
use crate::metrics::{Tick, Unended};
use crate::runtime::continuation::lock;
use crate::server::life::reload::Reloads;
use crate::server::path::packet::{Make, Packet};
use crate::time::clock;

/// The pages' view of their server. Called on the admin thread; no method may block.
pub(in crate::server) trait Pages {
    /// Readiness: an error from the start of a stop on, and while the server cannot serve.
    ///
    /// # Errors
    /// The reason in words, in one line.
    fn ready(&self) -> Result<(), String>;
    /// The configuration, and how it is read again.
    fn reloads(&self) -> &Reloads;
    /// What the host did to the workers, and their pools under the policy in force.
    fn tick(&self) -> Tick;
    /// The oldest requests that have not ended, at most so many, and those that are set aside.
    fn oldest(&self, most: usize) -> Vec<Unended>;
    /// Bytes that wait in the sockets of each worker.
    fn unreceived(&self) -> Vec<u64>;
}

impl<'s, H: Handler, M: Make<Packet<'s, H::Ticket>>> Pages for Control<'_, 's, '_, H, M> {
    fn ready(&self) -> Result<(), String> {
        match self.phase.load() {
            Phase::Serving => {}
            // Connections that came before the successor had the listener ask about the address,
            // which is served.
            Phase::HandedOver => return Ok(()),
            Phase::LameDuck => return Err("lame duck".to_owned()),
            Phase::Draining => return Err("draining".to_owned()),
        }
        let gone = self.bound.listening.group.gone();
        let gone = gone.map(|address| format!("gone: this host has no longer the address of {address}"));
        let reasons = self.stuck().map(|stuck| stuck.reason).into_iter();
        let reasons: Vec<_> = reasons.chain(self.bound.transport.trouble(clock::now())).chain(gone).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    fn tick(&self) -> Tick {
        let topology = self.shared.topology();
        Tick {
            at: clock::now(),
            every: gate::DECIDE_EVERY,
            off_cpu: run_queue::waits(&self.bound.threads).into_iter().map(Option::unwrap_or_default).collect(),
            pools: (0..topology.workers()).map(|worker| topology.pool_of(worker)).collect(),
        }
    }

    fn oldest(&self, most: usize) -> Vec<Unended> {
        let mut all: Vec<Unended> = self.common.serving.unfinished.all().collect();
        all.sort_unstable_by_key(|(about, _)| about.came_at);
        all.truncate(most);
        all
    }

    fn unreceived(&self) -> Vec<u64> {
        self.dropped_by_socket();
        let waiting: Vec<u64> = lock(&self.drops).waiting().map(u64::from).collect();
        // The sockets of a worker are next to one another.
        let each = waiting.len() / self.bound.config.workers;
        waiting.chunks(each.max(1)).map(|sockets| sockets.iter().sum()).collect()
    }
}
