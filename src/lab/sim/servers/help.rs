//! Groups of one server help one another: `runtime/sleep/README.md` (7) has the rule, which threads follow too.

use super::{Group, Servers};
use crate::sched::View;
use crate::sched::grouping::{HELP_EVERY, HELP_NAP};
use crate::time::Nanos;

impl Group<'_> {
    /// Whether no worker of the group sleeps.
    fn is_full(&self) -> bool {
        !self.driver.world.has_sleepers()
    }
}

impl Servers<'_> {
    /// A worker of `group` has searched for `took` and found nothing: takes what waits in a full group of the same server.
    /// False if there is nothing.
    pub(super) fn help(&mut self, group: usize, took: Nanos) -> bool {
        if self.each == 1 || !self.groups[group].driver.helps() {
            return false;
        }
        let (first, own) = (group - group % self.each, group % self.each);
        (1..self.each).any(|further| self.take(first + (own + further) % self.each, group, took))
    }

    /// The worker of `group` takes a job of the group `full`, or a batch out of one of its sockets.
    fn take(&mut self, full: usize, group: usize, took: Nanos) -> bool {
        let [Group { driver: idle, .. }, other] =
            self.groups.get_disjoint_mut([group, full]).expect("two groups of one server");
        let now = idle.world.now.plus(took);
        let is_due = now.minus(other.helped_at) >= HELP_EVERY;
        if !other.is_full() || other.driver.world.waiting() == 0 || !is_due || idle.engine.packets == 0 {
            return false;
        }
        other.helped_at = now;
        let busy = &mut other.driver;
        let Some((given, delay)) = busy.world.give(now) else { return false };
        let job = match given {
            Ok(job) => Some(busy.engine.give(job, &mut idle.engine)),
            Err(owner) => {
                let datagrams = busy.engine.give_datagrams(owner, &mut idle.engine);
                busy.world.moved(owner, datagrams, &mut idle.world);
                None
            }
        };
        // It costs as much as a steal.
        idle.go_on(job, took.plus(delay).plus(idle.engine.setup.overheads.steal));
        if busy.world.queued() > 0 {
            idle.world.wake_next();
        }
        true
    }

    /// After a step of `group` at `now`: while something waits in a full group, a sleeper of another one looks in a while.
    pub(super) fn doze(&mut self, group: usize, now: Nanos) {
        let group = &self.groups[group];
        if self.each > 1 && self.nap_until == Nanos::MAX && group.driver.world.waiting() > 0 && group.is_full() {
            self.nap_until = now.plus(HELP_NAP);
        }
    }

    /// Wakes a sleeper for each full group in which something waits.
    pub(super) fn end_nap(&mut self) {
        let now = std::mem::replace(&mut self.nap_until, Nanos::MAX);
        for full in 0..self.groups.len() {
            if self.groups[full].driver.world.waiting() == 0 || !self.groups[full].is_full() {
                continue;
            }
            self.nap_until = now.plus(HELP_NAP);
            let first = full - full % self.each;
            let idle = (first..first + self.each).find(|group| !self.groups[*group].is_full());
            if let Some(idle) = idle {
                let driver = &mut self.groups[idle].driver;
                driver.world.now = now;
                driver.world.wake_next();
                self.schedule(idle);
            }
        }
    }
}
