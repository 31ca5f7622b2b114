//! How a worker searches for jobs, and where it puts the jobs that it receives.

use super::{Action, Actor, Acts, Arrived, Boundary, Engine, Received, Taken};
use crate::interface::{Outcome, Place, Step, WorkerId};
use crate::noticed::Noticed;
use crate::policy::UNINTERRUPTED;

impl<J, W, E> Actor<'_, J, W, E>
where
    W: Acts<Job = J>,
    E: Engine<Job = J>,
{
    /// One search in the policy's order, up to the first job found; without sockets if `sockets` is
    /// false.
    #[inline]
    pub(super) fn search(&mut self, sockets: bool) {
        self.engine.boundary(Boundary::Turn);
        self.spread();
        let mut contended = false;
        let mut walk = self.policy.search(&mut self.turn.search, self.now, &*self.world);
        while let Some(step) = walk.next(&mut self.turn.search, self.now, &*self.world) {
            let (outcome, jobs) = match step {
                Step::Look | Step::Receive(_) | Step::ReceiveNext if !sockets || self.leaves_sockets() => continue,
                Step::Look => (Outcome::Empty, self.look()),
                Step::Receive(owner) => self.receive(owner),
                Step::ReceiveNext => {
                    let owner = self.world.next_socket();
                    self.receive(owner)
                }
                Step::Own | Step::Queue(_) | Step::Steal(_) => self.take(step),
            };
            self.engine.boundary(Boundary::Tried { step, outcome, jobs });
            if outcome == Outcome::Found {
                return;
            }
            contended |= outcome == Outcome::Contended;
        }
        self.turn.search.crowded = false;
        self.engine.flush();
        self.turn.then(Action::Sleep { contended });
    }

    /// Whether to look into no socket now: see
    /// [`World::leaves_sockets`](super::World::leaves_sockets). A worker that finds a begun job in
    /// a queue will not sleep, so it looks first. Otherwise a job that has given way to a datagram
    /// would be the next one again.
    #[inline]
    fn leaves_sockets(&mut self) -> bool {
        self.world.leaves_sockets()
            && !self.policy.has_begun_queued(self.world)
            && self.has_emptied_own()
            && self.engine.may_leave_sockets()
    }

    /// Whether the kernel would tell of all datagrams that the worker's own socket holds.
    #[cold]
    fn has_emptied_own(&mut self) -> bool {
        if self.world.own_waits() && self.engine.has_emptied_own() {
            self.world.has_emptied_own();
        }
        !self.world.own_waits()
    }

    /// Takes a job; returns the number of jobs taken.
    #[inline]
    fn take(&mut self, from: Step) -> (Outcome, usize) {
        let taken = match from {
            Step::Queue(UNINTERRUPTED) => self.take_uninterrupted(),
            Step::Steal(_) => {
                // Finished replies leave before a steal, which may take long. Before a job or a
                // received batch, the engine decides itself whether to send them.
                self.engine.flush();
                self.world.take(from)
            }
            _ => self.world.take(from),
        };
        match taken {
            Taken::Job(job, more) => {
                self.turn.then(Action::Begin(job, from));
                (Outcome::Found, 1 + more)
            }
            Taken::Nothing => (Outcome::Empty, 0),
            Taken::Contended => (Outcome::Contended, 0),
        }
    }

    /// Takes a job that waits to work uninterrupted, with a permit.
    fn take_uninterrupted(&mut self) -> Taken<J> {
        if self.world.queue_len(UNINTERRUPTED) == 0 || !self.begin_uninterrupted(true) {
            return Taken::Nothing;
        }
        let taken = self.world.take(Step::Queue(UNINTERRUPTED));
        if matches!(taken, Taken::Nothing) && self.turn.uninterrupted {
            self.end_uninterrupted(None);
        }
        taken
    }

    /// Looks which sockets hold something, and notes it for the search. Returns the number of
    /// descriptors.
    fn look(&mut self) -> usize {
        let noticed = if self.world.accepts() { self.world.look() } else { Noticed::default() };
        let waiting = noticed.waiting;
        self.turn.search.noticed = noticed;
        waiting
    }

    /// Receives from the socket of `owner` and places each job. Returns the number of datagrams.
    #[inline]
    pub(super) fn receive(&mut self, owner: WorkerId) -> (Outcome, usize) {
        if !self.world.accepts() {
            return (Outcome::Empty, 0);
        }
        let received = self.engine.receive(owner, &mut self.turn.batch);
        match received {
            Received { datagrams: 0, more: false } => (Outcome::Empty, 0),
            received => self.place_received(owner, received),
        }
    }

    #[inline(never)]
    fn place_received(&mut self, owner: WorkerId, mut received: Received) -> (Outcome, usize) {
        let mut batch = std::mem::take(&mut self.turn.batch);
        let mut total = 0;
        loop {
            batch.drain(..).for_each(|arrived| self.arrive(arrived));
            total += received.datagrams;
            if !received.more {
                break;
            }
            received = self.engine.receive(owner, &mut batch);
        }
        self.turn.batch = batch;
        if total == 0 {
            return (Outcome::Empty, 0);
        }
        self.world.received(owner, total);
        if !self.world.any_asleep(self.turn.pool()) {
            let waiting = self.world.backlog(self.turn.worker()).saturating_sub(1);
            if waiting > 0 {
                let left = self.policy.left_to_others(self.world, self.now, &self.turn.search);
                self.flag_others(waiting.saturating_sub(left));
            }
        }
        (Outcome::Found, total)
    }

    /// Places a job that has not begun. Without room, the worker keeps it.
    #[inline]
    pub(super) fn arrive(&mut self, Arrived { job, class }: Arrived<J>) {
        let place = self.policy.place_fresh(&self.turn.search, class, &*self.world);
        match (self.world.put(place, job), place) {
            // Workers of the own pool are woken later, by [`Acts::begin_work`].
            (Ok(()), Place::Queue(target)) if target != self.turn.pool() => self.world.wake_for(self.policy, target),
            (Ok(()), _) => {}
            (Err(job), _) => self.keep_own(job),
        }
    }

    /// Asks other workers to yield for `waiting` requests that this worker does not serve itself.
    pub(super) fn flag_others(&mut self, waiting: usize) {
        let world = &*self.world;
        self.policy.on_arrivals(world, self.now, &self.turn.search, waiting, |other| world.flag(other));
    }
}
