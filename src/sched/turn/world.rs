//! What a worker acts on: queues, other workers, sleep. Threads have one world, virtual time another.

use crate::sched::{Noticed, Policy, PoolId, View, Watch, WorkerId};
use crate::time::Nanos;

/// What one worker acts on: queues, wakes, flags, looks. No method blocks.
pub trait World: View {
    /// What waits in queues.
    type Job;

    /// The last reading of the clock outside of jobs.
    fn recent(&self) -> Nanos;
    /// Longest time between two pauses of a running job, so that replies leave, measurements are handed over and an
    /// abandoned job ends while a long one runs.
    fn heartbeat(&self) -> Nanos;
    /// Whether jobs are discarded instead of run.
    fn is_abandoned(&self) -> bool;
    /// Whether datagrams may be received.
    fn accepts(&self) -> bool;

    /// Takes the next job from the own deque.
    fn pop(&mut self) -> Option<Self::Job>;
    /// Adds a job to the own deque.
    fn push(&mut self, job: Self::Job);
    /// Jobs in the own deque.
    fn len(&self) -> usize;
    /// Whether the own deque holds no job.
    fn is_empty(&self) -> bool;

    /// Takes the oldest job from the deque of `victim`, and moves more into the own one: half of them in all. Takes one
    /// where the victim is this worker.
    fn steal(&mut self, victim: WorkerId) -> Stolen<Self::Job>;

    /// Takes a job from the queue of `pool`.
    fn pop_queue(&mut self, pool: PoolId) -> Option<Self::Job>;
    /// Adds a job to the queue of `pool`.
    ///
    /// # Errors
    /// The job, when the queues are full.
    fn push_queue(&mut self, pool: PoolId, job: Self::Job) -> Result<(), Self::Job>;

    /// Notes that the worker has received this many datagrams from the socket of `owner`.
    fn received(&mut self, owner: WorkerId, datagrams: usize);
    /// Notes that the worker has put jobs where it looks itself, for which it has woken no other worker.
    fn has_unannounced(&mut self) {}
    /// Publishes since when the worker has been in a job; `None` = it is in none.
    fn set_busy(&mut self, since: Option<Nanos>);
    /// Before a job that may be long: exposes the socket and, if there is `more` to do for the worker's pool than the
    /// job at hand, wakes another worker.
    fn begin_work(&mut self, policy: &Policy, more: bool);
    /// After a job was put into the queue of `pool`: wakes a worker that serves it, if one sleeps.
    fn wake_for(&mut self, policy: &Policy, pool: PoolId);
    /// Whether any worker of `pool` sleeps; may be stale.
    fn any_asleep(&self, pool: PoolId) -> bool;

    /// Asks `worker` to step aside at its next checkpoint.
    fn flag(&self, worker: WorkerId);
    /// Whether this worker was asked to step aside since [`World::lower_flag`].
    fn is_flagged(&self) -> bool;
    /// Before the worker takes another job: forgets requests to step aside, which were meant for the last one.
    fn lower_flag(&mut self);
    /// Takes one of `max` permits to work uninterrupted; false if none is left.
    fn begin_uninterrupted(&mut self, max: usize) -> bool;
    /// Gives a permit back.
    fn end_uninterrupted(&mut self);
    /// A watched socket in which something waits, if any: one that was not named in the last look, where there are several.
    fn look(&mut self) -> Noticed;
    /// Before a slice of a job that watches as closely as `watch` says. Returns how long it may run at most before
    /// [`World::noticed`] is asked, where its checkpoints do not themselves pause it for waiting requests.
    fn watch(&mut self, watch: Watch) -> Nanos;
    /// After a slice of a job that watches: the watched sockets in which something waits; `None` where the worker has not
    /// looked.
    fn noticed(&mut self, watch: Watch) -> Option<Noticed>;
}

/// The outcome of a steal.
#[derive(Debug)]
pub enum Stolen<J> {
    /// A job, and how many more are now in the own deque.
    Some(J, usize),
    /// The victim's deque was empty.
    Empty,
    /// Another thief was at the victim's deque.
    Contended,
}
