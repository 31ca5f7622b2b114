//! What a worker reads and acts on: queues, other workers, sleep. Threads have one world, virtual time another. No method
//! blocks.

use crate::sched::{Noticed, Place, Policy, PoolId, Step, View, Watch, WorkerId};
use crate::time::Nanos;

/// What a worker reads beside what its policy does; values may be stale.
pub trait World: View {
    /// Whether any worker of `pool` sleeps.
    fn any_asleep(&self, pool: PoolId) -> bool;
    /// Whether this worker was asked to step aside since [`Acts::begin_work`].
    fn is_flagged(&self) -> bool;
    /// Whether datagrams may be received.
    fn accepts(&self) -> bool;
    /// Whether jobs are discarded instead of run.
    fn is_abandoned(&self) -> bool;
}

/// What a worker does beside its jobs. Each verb is called in line: handed out one by one, the ten or so of a request
/// would cost more than a search.
pub trait Acts: World {
    /// What waits in queues.
    type Job;

    /// Takes a job at [`Step::Own`] or [`Step::Queue`]. At [`Step::Steal`] takes the oldest job from the deque of the
    /// victim, and moves more into the own one: half of them in all. Takes one where the victim is this worker.
    fn take(&mut self, from: Step) -> Taken<Self::Job>;
    /// Adds a job to a deque or queue.
    ///
    /// # Errors
    /// The job, when the queues are full.
    fn put(&mut self, place: Place, job: Self::Job) -> Result<(), Self::Job>;
    /// Notes that the worker has put jobs where it looks itself, for which it has woken no other worker. `datagrams`
    /// of them were received from the socket of `owner`.
    fn received(&mut self, owner: WorkerId, datagrams: usize);
    /// Moves the turn of all workers on, and returns its next socket.
    fn next_socket(&mut self) -> WorkerId;

    /// Before a job that may be long: exposes the socket. Wakes another worker if there is `more` to do for the pool
    /// than this job. Publishes since when the worker has been in the job, where the policy asks. Forgets requests to
    /// step aside: they were meant for the last job.
    fn begin_work(&mut self, policy: &Policy, since: Option<Nanos>, more: bool);
    /// The worker is in no job any more.
    fn end_work(&mut self);
    /// After a job was put into the queue of `pool`: wakes a worker that serves it, if one sleeps.
    fn wake_for(&mut self, policy: &Policy, pool: PoolId);
    /// Asks `worker` to step aside at its next checkpoint.
    fn flag(&self, worker: WorkerId);
    /// Adds what giving way has `cost` to the debt of all workers.
    fn spend(&mut self, cost: Nanos);
    /// Takes one of `max` permits to work uninterrupted; false if none is left.
    fn take_permit(&mut self, max: usize) -> bool;
    /// Gives a permit back.
    fn return_permit(&mut self);

    /// A watched socket in which something waits, if any: one that was not named in the last look, where there are
    /// several.
    fn look(&mut self) -> Noticed;
    /// Before a slice of a job that watches as closely as `watch` says. Returns how long the slice may be: replies must
    /// leave, an abandoned job must end, and some worlds notice requests only between slices.
    fn watch(&mut self, watch: Watch) -> Nanos;
    /// After a slice of a job that watches: the watched sockets in which something waits; `None` where the worker has not
    /// looked.
    fn noticed(&mut self, watch: Watch, now: Nanos) -> Option<Noticed>;
}

/// What was taken.
#[derive(Debug)]
pub enum Taken<J> {
    /// A job, and how many more are now in the own deque.
    Job(J, usize),
    /// Nothing was there.
    Nothing,
    /// Another thief was at the victim's deque.
    Contended,
}

impl<J> From<Option<J>> for Taken<J> {
    fn from(job: Option<J>) -> Taken<J> {
        job.map_or(Taken::Nothing, |job| Taken::Job(job, 0))
    }
}
