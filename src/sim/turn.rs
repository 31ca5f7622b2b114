//! A worker's search for work: that of `runtime/search.rs`, one lane, without competitors.

use super::Incoming;
use super::driver::{Activity, Driver, Next};
use super::tally::Unanswered;
use crate::sched::{Amount, Event, Outcome, Place, Step, WorkerId};
use crate::time::Nanos;

/// Jobs taken from a victim at once, at most: as in the server.
const STEAL_MAX: usize = 31;

/// Jobs that theft brings the thief's deque to, at most: as in the server.
const PLACES: usize = 64;

impl<I: Iterator<Item = Incoming>> Driver<'_, I> {
    /// One walk through the policy's order, to the first find.
    pub(super) fn search(&mut self, id: WorkerId) -> Next {
        let overheads = &self.setup.overheads;
        self.workers[id].local.begin();
        if overheads.poll == Nanos::ZERO && self.is_vain(id) {
            // It would look everywhere, for nothing, in no time.
            debug_assert!(self.finds_nothing(id), "there is something after all");
            return self.rest(id, Nanos::ZERO);
        }
        let mut took = Nanos::ZERO;
        loop {
            let found = match self.policy.next(&mut self.workers[id].local, &self.sight) {
                Step::Own => self.sight.deques[id].pop_front(),
                Step::Queue(pool) => self.queues.pop(pool, id),
                Step::Steal(victim) => self.steal(id, victim).inspect(|_| took = took.plus(overheads.steal)),
                Step::Receive(owner) => {
                    let received = if self.sockets[owner].requests.is_empty() { 0 } else { self.receive(id, owner) };
                    if received > 0 {
                        return (Activity::Searching, Some(took.plus(overheads.receive.times(received))));
                    }
                    took = took.plus(overheads.poll);
                    None
                }
                Step::Idle { .. } => return self.rest(id, took),
            };
            if let Some(request) = found {
                self.waiting -= 1;
                return (Activity::Starting(request), Some(took));
            }
            self.policy.told(&mut self.workers[id].local, Outcome::Empty);
        }
    }

    /// Whether it is plain without asking the policy that nothing is anywhere that this worker may take.
    fn is_vain(&self, id: WorkerId) -> bool {
        self.waiting == self.in_sockets
            && self.queues.count() == 0
            && self.sockets[id].requests.is_empty()
            && (self.in_sockets == 0
                || !self.idle.is_candidate(id)
                // Without a threshold it may take from any socket, watched or not.
                || self.policy.thief_threshold() > Nanos::ZERO
                    && self.takeable_at().is_none_or(|at| at > self.sight.now))
    }

    /// The same by asking.
    fn finds_nothing(&self, id: WorkerId) -> bool {
        let mut local = self.workers[id].local.clone();
        loop {
            match self.policy.next(&mut local, &self.sight) {
                Step::Own | Step::Queue(_) | Step::Steal(_) => {}
                Step::Receive(owner) if self.sockets[owner].requests.is_empty() => {}
                Step::Receive(_) => return false,
                Step::Idle { .. } => return true,
            }
            self.policy.told(&mut local, Outcome::Empty);
        }
    }

    /// Takes the first job of the victim's deque and moves as many more behind the thief's as the policy wants.
    fn steal(&mut self, thief: WorkerId, victim: WorkerId) -> Option<u32> {
        let half = self.sight.deques[victim].len().div_ceil(2);
        let first = self.sight.deques[victim].pop_front()?;
        let room = PLACES.saturating_sub(self.sight.deques[thief].len());
        let stolen = match self.policy.sharing().amount {
            Amount::One => 1,
            Amount::Half => half.min(STEAL_MAX).min(room).max(1),
        };
        for _ in 1..stolen {
            let request = self.sight.deques[victim].pop_front().expect("there are as many");
            self.sight.deques[thief].push_back(request);
        }
        Some(first)
    }

    /// Receives a batch from the socket of `owner`; returns of how many.
    fn receive(&mut self, id: WorkerId, owner: WorkerId) -> u64 {
        let pool = self.workers[id].running.pool;
        let now = self.sight.now;
        let batch = self.setup.limits.batch.min(self.packets).min(self.sockets[owner].requests.len());
        for _ in 0..batch {
            let request = self.sockets[owner].requests.pop_front().expect("there are as many");
            self.in_sockets -= 1;
            self.packets -= 1;
            let known = *self.requests.of(request);
            if now >= known.expires_at {
                self.waiting -= 1;
                self.end(request, Unanswered::ShedExpired);
                continue;
            }
            let class = self.setup.classified.then_some(known.class);
            match self.policy.place(pool, Event::Arrived { class, backlog: self.sight.deques[id].len() }) {
                Place::Own => self.sight.deques[id].push_back(request),
                Place::Queue(target) if self.queues.push(target, id, request) => {
                    if target != pool {
                        self.wake_for(target);
                    }
                }
                Place::Queue(_) => {
                    self.waiting -= 1;
                    self.end(request, Unanswered::ShedQueueFull);
                }
            }
        }
        if batch > 0 && !self.idle.any_asleep(pool) {
            let flags = &mut self.flags;
            let waiting = self.sight.deques[id].len();
            self.policy.on_arrivals(&self.sight, id, waiting, true, |other| flags[other] = true);
        }
        batch as u64
    }
}
