//! How a worker looks for work: one walk through the policy's order for each lane.

use super::worker::Loop;
use super::{Engine, Shared};
use crate::sched::{Event, Outcome, Place, Step, WorkerId};
use crossbeam_deque::Steal;

/// What a search found.
pub(super) enum Found<J> {
    Job(J),
    /// Datagrams; where their jobs went is for the next search.
    Arrivals,
    Nothing {
        contended: bool,
    },
}

impl<J: Send> Loop<J> {
    /// One walk through the policy's order for each lane, to the first find.
    pub(super) fn search<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) -> Found<J> {
        let mut contended = false;
        for lane in self.lanes.next() {
            if lane == 0 && !shared.urgent.any() {
                continue;
            }
            match self.search_lane(shared, engine, lane) {
                Found::Nothing { contended: met } => contended |= met,
                found => return found,
            }
        }
        Found::Nothing { contended }
    }

    #[inline]
    fn search_lane<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, lane: usize) -> Found<J> {
        self.local.begin();
        loop {
            let step = self.policy.next(&mut self.local, shared);
            // What was finished leaves before anything that may take long or find nothing. Before each job, and before
            // each batch that is received, it is the engine that decides.
            if !matches!(step, Step::Own | Step::Queue(_) | Step::Receive(_)) {
                engine.flush();
            }
            let (found, outcome) = self.attempt(shared, engine, step, lane);
            engine.tried(step, outcome);
            if let Some(found) = found {
                return found;
            }
            self.policy.told(&mut self.local, outcome);
        }
    }

    #[inline]
    fn attempt<E: Engine<Job = J>>(
        &mut self,
        shared: &Shared<J>,
        engine: &mut E,
        step: Step,
        lane: usize,
    ) -> (Option<Found<J>>, Outcome) {
        let job = match step {
            Step::Own => self.deques.pop(lane),
            Step::Queue(pool) => shared.queues.pop(pool, lane, self.id()),
            Step::Steal(victim) => {
                let before = self.deques.lane_len(lane);
                // Thieves that come together begin at different deques of their victim.
                match shared.stealers[victim].steal(lane, self.id(), self.policy.sharing().amount, &self.deques) {
                    Steal::Success(job) => {
                        self.sleeper.is_laden();
                        self.robbed = Some(victim);
                        engine.stole(1 + self.deques.lane_len(lane).saturating_sub(before));
                        Some(job)
                    }
                    Steal::Empty => None,
                    Steal::Retry => return (None, Outcome::Contended),
                }
            }
            Step::Receive(owner) => {
                if shared.is_accepting() && self.receive(shared, engine, owner) > 0 {
                    return (Some(Found::Arrivals), Outcome::Found);
                }
                None
            }
            Step::Idle { contended } => return (Some(Found::Nothing { contended }), Outcome::Empty),
        };
        match job {
            Some(job) => (Some(Found::Job(job)), Outcome::Found),
            None => (None, Outcome::Empty),
        }
    }

    fn receive<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E, owner: WorkerId) -> usize {
        let (id, pool) = (self.id(), self.local.pool());
        let deques = &self.deques;
        let received = engine.receive(owner, &mut |job, class| match self
            .policy
            .place(pool, Event::Arrived { class, backlog: deques.lane_len(0) })
        {
            Place::Own => {
                deques.push(0, job);
                Ok(())
            }
            Place::Queue(target) => {
                shared.queues.push(target, 0, id, job)?;
                if target != pool {
                    shared.idle.wake_for(&self.policy, target);
                }
                Ok(())
            }
        });
        if received > 0 {
            self.sleeper.is_laden();
        }
        if received > 0 && !shared.idle.any_asleep(pool) {
            self.policy.on_arrivals(shared, id, self.deques.lane_len(0), true, |other| shared.flag(other));
        }
        received
    }
}
