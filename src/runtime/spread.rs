//! What a job made ready while it ran - parts, and what waited for them - finds its place.

use super::worker::Loop;
use super::{Engine, Ready, Shared};
use crate::sched::{Event, Place};

/// A part is put into the own deque only as long as so few jobs wait there: with what one theft brings it stays within the
/// deque's smallest buffer.
const DEQUE_MAX: usize = 32;

impl<J: Send> Loop<J> {
    /// Puts what the last job made ready where the policy puts continuations.
    #[inline]
    pub(super) fn spread<E: Engine<Job = J>>(&self, shared: &Shared<J>, engine: &mut E, lane: usize) {
        while let Some(ready) = engine.ready() {
            self.spread_one(shared, engine, ready, lane);
        }
    }

    #[cold]
    fn spread_one<E: Engine<Job = J>>(&self, shared: &Shared<J>, engine: &mut E, ready: Ready<J>, lane: usize) {
        match ready {
            // Half of the room is kept for what has no other place. A part for which there is none stays with its request.
            Ready::Forked(_) if shared.queues.are_half_full() => {}
            Ready::Forked(job) => drop(self.offer(shared, job, lane)),
            Ready::Woken(job) => self.put_woken(shared, engine, job, lane),
            Ready::At(number) => {
                if let Some(job) = shared.stations.take(number) {
                    self.put_woken(shared, engine, job, lane);
                }
            }
        }
    }

    fn put_woken<E: Engine<Job = J>>(&self, shared: &Shared<J>, engine: &mut E, mut job: J, lane: usize) {
        engine.woken(&mut job);
        if let Err(job) = self.offer(shared, job, lane) {
            // It was promised to come back, so it is no candidate for shedding: this worker takes it upon itself.
            self.deques.push(lane, job);
        }
    }

    /// A bounded place for `job`, and somebody who looks there, if there is one.
    fn offer(&self, shared: &Shared<J>, job: J, lane: usize) -> Result<(), J> {
        let pool = self.local.pool();
        // It belongs to what began before, and goes on with it.
        let target = match self.policy.place(pool, Event::Yielded { again: true }) {
            Place::Own if self.deques.lane_len(lane) < DEQUE_MAX => {
                self.deques.push(lane, job);
                pool
            }
            Place::Own => return Err(job),
            Place::Queue(target) => {
                shared.queues.push(target, lane, self.id(), job)?;
                target
            }
        };
        shared.idle.wake_for(&self.policy, target);
        Ok(())
    }
}
