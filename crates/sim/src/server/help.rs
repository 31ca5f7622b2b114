//! Groups of one server help one another, by the rule of `runtime/sleep/README.md`, section 7.
//! Threads follow the same rule.

use super::{GroupModel, Server};
use forebay_base::time::Nanos;
use forebay_sched::View;
use forebay_sched::grouping::{HELP_EVERY, HELP_NAP, is_longer};

impl GroupModel<'_> {
    /// Whether the group is full: no worker of it sleeps.
    fn is_full(&self) -> bool {
        !self.driver.world.has_sleepers()
    }
}

impl Server<'_> {
    /// A worker of `group` searched for `took` and found nothing. Takes work of a full group of the
    /// server; returns false if there is none.
    pub(crate) fn help(&mut self, group: usize, took: Nanos) -> bool {
        if self.groups.len() == 1 || !self.groups[group].driver.helps() {
            return false;
        }
        let now = self.groups[group].driver.world.now.plus(took);
        self.others(group).any(|full| {
            let other = &mut self.groups[full];
            let is_due = now.minus(other.helped_at) >= HELP_EVERY;
            if !other.is_full() || other.driver.world.waiting() == 0 || !is_due {
                return false;
            }
            other.helped_at = now;
            self.take(full, group, took)
        })
    }

    /// The worker of `group` is about to search rare places. It takes a job of the group with the
    /// longest queues, if these are far longer than its own. Returns false if it takes nothing.
    pub(crate) fn balance(&mut self, group: usize) -> bool {
        let held = |group: usize| self.groups[group].driver.world.held();
        let Some(longest) = self.others(group).max_by_key(|other| held(*other)) else { return false };
        self.groups[group].driver.helps()
            && is_longer(held(longest), held(group))
            && self.take(longest, group, Nanos::ZERO)
    }

    /// The other groups of the server, beginning with the one after `group`.
    fn others(&self, group: usize) -> impl Iterator<Item = usize> + use<> {
        let all = self.groups.len();
        (1..all).map(move |further| (group + further) % all)
    }

    /// The worker of `group` takes a job of the group `full`, or a batch of datagrams from one of
    /// its sockets.
    fn take(&mut self, full: usize, group: usize, took: Nanos) -> bool {
        let [GroupModel { driver: idle, .. }, GroupModel { driver: busy, .. }] =
            self.groups.get_disjoint_mut([group, full]).expect("two groups of one server");
        if idle.engine.packets == 0 {
            return false;
        }
        let now = idle.world.now.plus(took);
        let Some((given, delay)) = busy.world.give(now) else { return false };
        let job = match given {
            Ok(job) => Some(busy.engine.give(job, &mut idle.engine)),
            Err(owner) => {
                let datagrams = busy.engine.give_datagrams(owner, &mut idle.engine);
                busy.world.moved(owner, datagrams, &mut idle.world);
                None
            }
        };
        // Taking work of another group costs as much as a steal.
        idle.go_on(job, took.plus(delay).plus(idle.engine.setup.overheads.steal));
        if busy.world.queued() > 0 {
            idle.world.wake_next();
        }
        true
    }

    /// Called after a step of `group` at `now`. If work waits in this group and the group is full,
    /// a sleeper of another group will look after [`HELP_NAP`].
    pub(crate) fn doze(&mut self, group: usize, now: Nanos) {
        let several = self.groups.len() > 1;
        let group = &self.groups[group];
        if several && self.nap_until == Nanos::MAX && group.driver.world.waiting() > 0 && group.is_full() {
            self.nap_until = now.plus(HELP_NAP);
        }
    }

    /// Wakes a sleeper of another group for each full group with waiting work.
    pub(crate) fn end_nap(&mut self) {
        let now = std::mem::replace(&mut self.nap_until, Nanos::MAX);
        for full in 0..self.groups.len() {
            if self.groups[full].driver.world.waiting() == 0 || !self.groups[full].is_full() {
                continue;
            }
            self.nap_until = now.plus(HELP_NAP);
            let idle = (0..self.groups.len()).find(|group| !self.groups[*group].is_full());
            if let Some(idle) = idle {
                let driver = &mut self.groups[idle].driver;
                driver.world.now = now;
                driver.world.wake_next();
                self.schedule(idle);
            }
        }
    }
}
