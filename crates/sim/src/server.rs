//! A server has one or several groups of workers, each with a world of its own, in one virtual
//! time. The next step is always the earliest step of any group. An idle group takes work from a
//! full group (`help.rs`).

mod help;

use super::driver::{Driver, Next};
use super::event_list::EventList;
use super::gate::{Counts, Gate};
use super::model::CostModel;
use super::{ArrivingRequest, Setup, Tally};
use forebay_base::time::Nanos;
use forebay_metrics::Work;
use forebay_runtime::samples::Samples;
use forebay_sched::WorkerId;
use std::cell::RefCell;

/// A server in virtual time.
pub(crate) struct Server<'a> {
    groups: Vec<GroupModel<'a>>,
    /// When a worker of each group acts next.
    event_list: EventList,
    /// When the groups next evaluate their measurements, and the interval; [`Nanos::MAX`] = never.
    follow_at: Nanos,
    follow_every: Nanos,
    /// The gate, if there is one. It decides next at `gate_at`; [`Nanos::MAX`] = never.
    gate: Option<Gate<'a>>,
    gate_at: Nanos,
    /// When sleepers next look for full groups; [`Nanos::MAX`] while no full group has waiting
    /// work.
    nap_until: Nanos,
    setup: &'a Setup,
    tally: &'a RefCell<Tally>,
}

struct GroupModel<'a> {
    driver: Driver<CostModel<'a>>,
    /// The number of the group's first worker in its server.
    first: WorkerId,
    /// When another group last looked at this one.
    helped_at: Nanos,
}

impl<'a> Server<'a> {
    /// An idle server. Its requests are counted in `tally`, and sampled in `samples` for the gate.
    pub(crate) fn new(setup: &'a Setup, samples: Option<&'a Samples>, tally: &'a RefCell<Tally>) -> Server<'a> {
        let group = |group: usize| {
            let (workers, first) = (setup.groups[group], setup.groups[..group].iter().sum());
            let samplers =
                samples.map(|samples| (first..first + workers).map(|worker| samples.sampler(worker)).collect());
            let model = CostModel::new(setup, workers, samples.zip(samplers), tally);
            let queued = setup.limits.queued_per_worker * workers;
            let mut driver = Driver::new(setup.policy.on(workers), model, setup.rest, &setup.overheads, queued);
            driver.world.skips_empty = true;
            GroupModel { driver, first, helped_at: Nanos::ZERO }
        };
        let groups: Vec<_> = (0..setup.groups.len()).map(group).collect();
        let event_list = EventList::new(groups.len().max(1));
        let follow_at = setup.follows.as_ref().map_or(Nanos::MAX, |follows| follows.every);
        let (follow_every, nap_until) = (follow_at, Nanos::MAX);
        let gate = samples.zip(setup.gate).map(|(samples, scale)| Gate::new(samples, scale));
        let gate_at = setup.gate.map_or(Nanos::MAX, Gate::every);
        let mut server = Server { groups, event_list, follow_at, follow_every, gate, gate_at, nap_until, setup, tally };
        (0..server.groups.len()).for_each(|group| server.schedule(group));
        server
    }

    /// Serves `arrivals` until all requests have ended. They are in the order of their times.
    pub(crate) fn run(mut self, mut arrivals: impl Iterator<Item = ArrivingRequest>) {
        // Workers and their events use a time that leaves out pauses. Arrival times include pauses.
        let setup = self.setup;
        let at_of = |next: &Option<ArrivingRequest>| next.as_ref().map_or(Nanos::MAX, |came| setup.worked(came.at));
        let mut next = arrivals.next();
        loop {
            let (first_at, group) = self.first();
            let came_at = at_of(&next);
            let at = came_at.min(first_at).min(self.nap_until);
            match next {
                _ if at >= self.gate_at && at < Nanos::MAX => self.decide(),
                _ if at >= self.follow_at && at < Nanos::MAX => self.follow(at),
                Some(came) if came_at < first_at.min(self.nap_until) => {
                    self.arrive(came);
                    next = arrivals.next();
                }
                _ if self.nap_until < first_at => self.end_nap(),
                _ if first_at < Nanos::MAX => {
                    let others_at = came_at.min(self.follow_at).min(self.gate_at);
                    self.act(group, others_at.minus(Nanos::new(1)));
                }
                _ => break,
            }
        }
        for GroupModel { driver, .. } in &self.groups {
            assert!(driver.world.waiting() == 0, "{} requests were forgotten", driver.world.waiting());
            self.tally.borrow_mut().add_worked(driver.worked());
        }
    }

    /// Lets all groups evaluate their measurements and change their policies. Nothing else happens
    /// before `at`. In a silence longer than the window, only the last evaluations are carried out.
    fn follow(&mut self, at: Nanos) {
        let now = self.follow_at;
        for group in 0..self.groups.len() {
            let driver = &mut self.groups[group].driver;
            let (idle, workers, busy_since) =
                (driver.idle(now), driver.worked().workers, driver.world.busy_since.iter());
            let busy_since = busy_since.filter(|since| **since < Nanos::MAX);
            let running: Vec<Nanos> = busy_since.map(|since| now.minus(*since)).collect();
            if let Some(policy) = driver.engine.follow(now, idle, &running) {
                driver.switch(policy.on(workers as usize), now);
                self.schedule(group);
            }
        }
        let silent = at.minus(now).get() / self.follow_every.get();
        self.follow_at = now.plus(self.follow_every.times(1 + silent.saturating_sub(Work::INTERVALS + 1)));
    }

    /// Lets the gate decide.
    fn decide(&mut self) {
        let now = self.gate_at;
        if let Some(gate) = &mut self.gate {
            let mut counts = Counts { at: now, ..Counts::default() };
            for GroupModel { driver, .. } in &self.groups {
                counts.idle = counts.idle.plus(driver.idle(now));
                counts.received += driver.engine.received;
                counts.lost += driver.engine.lost;
            }
            gate.decide(counts, self.setup.workers(), &self.groups[0].driver.engine.waits, self.setup.on_clock(now));
        }
        self.gate_at = now.plus(self.setup.gate.map_or(Nanos::MAX, Gate::every));
    }

    /// Delivers `came`. The number of its socket counts the sockets of all groups.
    fn arrive(&mut self, mut came: ArrivingRequest) {
        if self.gate.as_mut().is_some_and(|gate| !gate.lets_in(came.source)) {
            return self.tally.borrow_mut().lost(came.class, None, Nanos::ZERO, came.counts);
        }
        let group = self.groups.partition_point(|group| group.first <= came.socket) - 1;
        came.socket -= self.groups[group].first;
        let at = self.setup.worked(came.at);
        self.groups[group].driver.arrive(at, came.socket, came);
        self.schedule(group);
        self.doze(group, at);
    }

    /// Lets `group` act once. If it is the only group, it acts until it rests, or until its next
    /// action is later than `until`.
    fn act(&mut self, group: usize, until: Nanos) {
        let until = (self.groups.len() == 1).then_some(until);
        let mut next = self.groups[group].driver.act_in_group(until.is_none(), until);
        if matches!(next, Next::Balance) && !self.balance(group) {
            next = self.groups[group].driver.act_in_group(false, until);
        }
        if let Next::Rest(took) = next
            && !self.help(group, took)
        {
            self.groups[group].driver.rest(took);
        }
        self.schedule(group);
        let now = self.groups[group].driver.world.now;
        self.doze(group, now);
    }

    /// The time of the next action and its group. A single group needs no event list.
    fn first(&self) -> (Nanos, usize) {
        if let [only] = &self.groups[..] { (only.driver.next_at(), 0) } else { self.event_list.first }
    }

    /// Records when `group` acts next.
    fn schedule(&mut self, group: usize) {
        if self.groups.len() > 1 {
            self.event_list.set(group, self.groups[group].driver.next_at());
        }
    }
}
