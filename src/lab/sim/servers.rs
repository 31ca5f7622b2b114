//! Servers side by side in one virtual time. Each request is given to one of them. The earliest step of all is the next.

use super::driver::Driver;
use super::event_list::EventList;
use super::model::CostModel;
use super::{ArrivingRequest, Setup, Tally};
use crate::metrics::Work;
use crate::time::Nanos;
use std::cell::RefCell;

/// The number of a server, counted from 0.
pub(super) type ServerId = usize;

/// Equal servers, which share nothing but what comes to them.
pub(super) struct Servers<'a> {
    servers: Vec<Driver<CostModel<'a>>>,
    /// When a worker of each server acts next.
    event_list: EventList,
    /// When the servers follow what they have measured next, and the time between; [`Nanos::MAX`] = never.
    follow_at: Nanos,
    follow_every: Nanos,
    tally: &'a RefCell<Tally>,
}

impl<'a> Servers<'a> {
    /// `count` servers at rest, which count their requests in `tally`.
    pub(super) fn new(setup: &'a Setup, count: usize, tally: &'a RefCell<Tally>) -> Servers<'a> {
        let queued = setup.limits.queued_per_worker * setup.policy.topology().workers();
        let server = |_| {
            let model = CostModel::new(setup, tally);
            let driver = Driver::new(setup.policy.clone(), model, setup.rest, &setup.overheads, queued);
            driver.skips_vain_searches(setup.overheads.search_is_free())
        };
        let event_list = EventList::new(count.max(1));
        let follow_every = setup.follows.as_ref().map_or(Nanos::MAX, |follows| follows.every);
        let servers = (0..count).map(server).collect();
        let mut all = Servers { servers, event_list, follow_at: follow_every, follow_every, tally };
        (0..count).for_each(|server| all.schedule(server));
        all
    }

    /// Requests that `server` holds: in its sockets, in its queues and at its workers.
    pub(super) fn in_flight(&self, server: ServerId) -> usize {
        self.servers[server].engine.in_flight()
    }

    /// Lets `arrivals` come, which are requests and their flows in the order of their times, until all is done. `place`
    /// gives each a server, and a socket there. After the first `until_look` of them `look` says how many come before it
    /// is asked again; `None` = no more.
    pub(super) fn run_while(
        mut self,
        mut arrivals: impl Iterator<Item = (ArrivingRequest, u16)>,
        mut place: impl FnMut(&Servers<'a>, &mut ArrivingRequest, u16) -> ServerId,
        mut until_look: u64,
        mut look: impl FnMut() -> Option<u64>,
    ) {
        let mut next = arrivals.next();
        loop {
            let (first_at, server) = self.event_list.first();
            let at = next.as_ref().map_or(first_at, |(came, _)| came.at.min(first_at));
            match next {
                _ if at >= self.follow_at && at < Nanos::MAX => self.follow(at),
                Some((mut came, flow)) if came.at < first_at => {
                    let server = place(&self, &mut came, flow);
                    self.servers[server].arrive(came);
                    self.schedule(server);
                    until_look = until_look.saturating_sub(1);
                    let more = until_look > 0 || look().inspect(|more| until_look = *more).is_some();
                    next = if more { arrivals.next() } else { None };
                }
                _ if first_at < Nanos::MAX => {
                    self.servers[server].act();
                    self.schedule(server);
                }
                _ => break,
            }
        }
        for server in &self.servers {
            assert!(server.world.waiting() == 0, "{} requests were forgotten", server.world.waiting());
            self.tally.borrow_mut().add_worked(server.worked());
        }
    }

    /// Lets all servers follow what they have measured. Nothing else happens before `at`: of a silence beyond the window
    /// all but its end is left out.
    fn follow(&mut self, at: Nanos) {
        let now = self.follow_at;
        for server in 0..self.servers.len() {
            let driver = &mut self.servers[server];
            let (worked, busy_since) = (driver.worked(), driver.world.busy_since.iter().flatten());
            // A step counts from its beginning: that is one step too early for each worker.
            let idle = now.times(worked.workers).minus(worked.busy);
            let running: Vec<Nanos> = busy_since.map(|since| now.minus(*since)).collect();
            if let Some(policy) = driver.engine.follow(now, idle, &running) {
                driver.switch(policy, now);
                self.schedule(server);
            }
        }
        let silent = at.minus(now).get() / self.follow_every.get();
        self.follow_at = now.plus(self.follow_every.times(1 + silent.saturating_sub(Work::INTERVALS + 1)));
    }

    /// Puts down when `server` acts next.
    fn schedule(&mut self, server: ServerId) {
        self.event_list.set(server, self.servers[server].next_at());
    }
}
