//! Answers the questions of the admin endpoint's pages about the server.

use super::control::{Control, Phase};
use super::helpers;
use crate::handler::Service;
use crate::metrics::{Open, Tick, Unended, Wait};
use crate::runtime::continuation::lock;
use crate::runtime::cpus::run_queue;
use crate::runtime::cpus::throttled;
use crate::sched::overload::sources::DECIDE_EVERY;
use crate::server::admin::endpoint::Pages;
use crate::server::path::packet::Packet;
use crate::server::path::serving::Make;
use crate::server::reload::Reloads;
use crate::time::{Nanos, clock};
use std::collections::BTreeSet;

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> Pages for Control<'_, 's, '_, H, M> {
    fn ready(&self) -> Result<(), String> {
        match self.phase.load() {
            Phase::Serving => {}
            // The client asks about the address, which the successor serves now. Its connection was
            // accepted before the successor had the listener.
            Phase::HandedOver => return Ok(()),
            Phase::LameDuck => return Err("lame duck".to_owned()),
            Phase::Draining => return Err("draining".to_owned()),
        }
        let gone = self.bound.listening.group.gone();
        let gone = gone.map(|address| format!("gone: this host has no longer the address of {address}"));
        let reasons = self.look_for_stuck().map(|stuck| stuck.reason).into_iter();
        let deaf = lock(&self.said).receiving_fails().map(|errors| format!("receiving fails: {errors}"));
        let reasons: Vec<_> = reasons.chain(deaf).chain(gone).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    fn tick(&self) -> Tick {
        let topology = self.shared.topology();
        Tick {
            at: clock::now(),
            every: DECIDE_EVERY,
            off_cpu: run_queue::waits(&self.bound.board.threads).into_iter().map(Option::unwrap_or_default).collect(),
            throttled: throttled().map_or(Nanos::ZERO, |(_, time)| time),
            pools: (0..topology.workers).map(|worker| topology.pool_of(worker)).collect(),
        }
    }

    fn oldest(&self, most: usize) -> Vec<Unended> {
        let (mut all, now): (Vec<_>, _) = (self.common.serving.unfinished.all().collect(), clock::now());
        all.sort_unstable_by_key(|open| open.about.came_at);
        let mut rest = all.split_off(most.min(all.len()));
        let waits_for = |open: &Open| if let Some(Wait::Flow(shard)) = open.wait { Some(shard) } else { None };
        let held: BTreeSet<_> = all.iter().filter_map(waits_for).collect();
        rest.retain(|of| waits_for(of).is_none() && of.shard.is_some_and(|shard| held.contains(&shard)));
        all.into_iter().chain(rest).map(|of| helpers::unended(of, now)).collect()
    }

    fn helpers(&self) -> Vec<Option<Nanos>> {
        helpers::running(clock::now())
    }

    fn unreceived(&self) -> Vec<u64> {
        self.dropped_by_socket();
        let waiting: Vec<u64> = lock(&self.drops).waiting().map(u64::from).collect();
        // The sockets of a worker are adjacent.
        let each = waiting.len() / self.bound.config.workers;
        waiting.chunks(each.max(1)).map(|sockets| sockets.iter().sum()).collect()
    }
}
