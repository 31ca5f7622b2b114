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
        let sockets = sockets && !(self.world.leaves_sockets() && self.engine.has_room());
        let mut contended = false;
        let mut walk = self.policy.search(&mut self.turn.search, self.now, &*self.world);
        while let Some(step) = walk.next(&mut self.turn.search, self.now, &*self.world) {
            let (outcome, jobs) = match step {
                Step::Look | Step::Receive(_) | Step::ReceiveNext if !sockets => continue,
                Step::Look => (Outcome::Empty, self.look()),
                Step::Receive(owner) => self.receive_in_turn(owner),
                Step::ReceiveNext => {
                    let owner = self.world.next_socket();
                    self.receive_in_turn(owner)
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
        if self.world.queue_len(UNINTERRUPTED) == 0 || !self.begin_uninterrupted() {
            return Taken::Nothing;
        }
        let taken = self.world.take(Step::Queue(UNINTERRUPTED));
        if matches!(taken, Taken::Nothing) {
            self.end_uninterrupted();
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

    /// Receives from the socket of `owner`, a worker of the own group, and places each job. Returns
    /// the number of datagrams.
    #[inline]
    fn receive_in_turn(&mut self, owner: WorkerId) -> (Outcome, usize) {
        let (received, outcome, datagrams) = self.receive(owner);
        if received.emptied && owner == self.turn.worker() {
            self.world.has_emptied_own();
        }
        (outcome, datagrams)
    }

    /// As [`Actor::receive_in_turn`], from any socket. Also returns the last receive.
    #[inline]
    pub(super) fn receive(&mut self, owner: WorkerId) -> (Received, Outcome, usize) {
        if !self.world.accepts() {
            return (Received::default(), Outcome::Empty, 0);
        }
        match self.engine.receive(owner, &mut self.turn.batch) {
            received @ Received { datagrams: 0, more: false, .. } => (received, Outcome::Empty, 0),
            received => self.place_received(owner, received),
        }
    }

    #[inline(never)]
    fn place_received(&mut self, owner: WorkerId, mut received: Received) -> (Received, Outcome, usize) {
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
            return (received, Outcome::Empty, 0);
        }
        self.world.received(owner, total);
        if !self.world.any_asleep(self.turn.pool()) {
            let waiting = self.world.backlog(self.turn.worker()).saturating_sub(1);
            if waiting > 0 {
                let left = self.policy.left_to_others(self.world, self.now, &self.turn.search);
                self.flag_others(waiting.saturating_sub(left));
            }
        }
        (received, Outcome::Found, total)
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
