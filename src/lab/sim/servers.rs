//! Servers side by side in one virtual time. Each request is given to one of them. The earliest step of all is the next.

use super::driver::Driver;
use super::event_list::EventList;
use super::model::CostModel;
use super::{ArrivingRequest, Setup, Tally};
use crate::time::Nanos;
use std::cell::RefCell;

/// The number of a server, counted from 0.
pub(super) type ServerId = usize;

/// Equal servers, which share nothing but what comes to them.
pub(super) struct Servers<'a> {
    servers: Vec<Driver<CostModel<'a>>>,
    /// When a worker of each server acts next.
    event_list: EventList,
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
        let mut all = Servers { servers: (0..count).map(server).collect(), event_list, tally };
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
            match next {
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

    /// Puts down when `server` acts next.
    fn schedule(&mut self, server: ServerId) {
        self.event_list.set(server, self.servers[server].next_at());
    }
}
