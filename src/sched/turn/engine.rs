//! What a worker's turn acts on. The [`Engine`] knows what a job is, how one is received and how it
//! runs. The world ([`Acts`]) has queues, other workers and sleep. Threads have one world, virtual
//! time another. No method blocks.

use crate::sched::interface::{Outcome, Place, PoolId, Resume, Step, View, Watch, WorkerId};
use crate::sched::noticed::Noticed;
use crate::sched::policy::Policy;
use crate::time::Nanos;

/// What one worker does with jobs; every worker has its own.
pub trait Engine {
    /// What waits in queues: a fresh request or a continuation.
    type Job;

    /// Receives from the socket of worker `owner` and appends the jobs that come of it to `batch`,
    /// which is empty.
    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received;

    /// From now on owners of sockets count from worker `first`, the first of a group.
    fn visit(&mut self, _first: WorkerId) {}

    /// Runs `job` until it ends or pauses; its checkpoints pause once it has run for `at_most`.
    fn run(&mut self, job: Self::Job, at_most: Nanos) -> Ran<Self::Job>;

    /// What the turn must know of `job`.
    fn describe(&self, job: &Self::Job) -> Description;

    /// Ends `job` without running it any further.
    fn discard(&mut self, job: Self::Job, why: Discarded);

    /// Called before `job` goes into a queue, or goes on because the queues are full. If this
    /// returns false, the worker discards `job` as [`Discarded::TooMany`].
    fn requeued(&mut self, job: &mut Self::Job, why: Requeued) -> bool;

    /// The next job that the last call of [`Engine::run`] or [`Engine::discard`] made ready to run;
    /// to be asked until nothing is left.
    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        None
    }

    /// Sends the replies that wait to be sent.
    fn flush(&mut self) {}

    /// Called when the worker has come to `boundary`.
    fn boundary(&mut self, boundary: Boundary);

    /// The last reading of the clock: no earlier than the end of the last [`Engine::run`] or
    /// [`Engine::receive`].
    fn now(&self) -> Nanos;
}

/// A job that was received.
#[derive(Debug)]
pub struct Arrived<J> {
    /// The job.
    pub job: J,
    /// The class of the job, if the policy may know it.
    pub class: Option<u8>,
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of datagrams, including the ones that were no requests.
    pub datagrams: usize,
    /// Whether more datagrams are out of the socket already, where no other worker would find them:
    /// receive again.
    pub more: bool,
}

/// What the turn knows of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The class of the request, where policies may know it; the priority of a task.
    pub class: Option<u8>,
    /// CPU time that the job has taken so far, where policies ask for it.
    pub attained: Nanos,
}

/// The result of running a job.
#[derive(Debug)]
pub enum Ran<J> {
    /// The job is over, or waits outside of all queues until [`Engine::ready`] returns it.
    Ended {
        /// How long the job ran this time.
        ran: Nanos,
    },
    /// The job paused, and can go on.
    Paused {
        /// The continuation.
        job: J,
        /// How the job asks to go on.
        resume: Resume,
        /// How long the job ran this time.
        ran: Nanos,
    },
}

impl<J> Ran<J> {
    /// How long the job ran this time.
    pub fn time(&self) -> Nanos {
        let (Ran::Ended { ran } | Ran::Paused { ran, .. }) = self;
        *ran
    }
}

/// Why a job is ended by its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// More wait before it than it has time for.
    TooMany,
    /// The server stops, and its time to drain is over.
    Draining,
}

/// Why a job goes into a queue, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeued {
    /// The job stepped aside.
    Yielded,
    /// The job goes on in this pool.
    Hopped(PoolId),
    /// What the job waited for has come.
    Woken,
    /// The job waits for a permit to work uninterrupted.
    Permit,
    /// The job would leave its worker, but the queues have no room: it goes on there.
    Crowded,
}

/// What running a job, or a thread outside of the workers, made ready to run.
#[derive(Debug)]
pub enum Ready<J> {
    /// A child of the job that ran; its parent runs it where there is no room for it in the queues.
    Forked(J),
    /// A job that waited.
    Woken(J),
    /// A job from elsewhere than the sockets, which has not begun.
    Spawned(J),
    /// A job that was received before and has not begun: now it may.
    Arrived(Arrived<J>),
}

impl<J> Ready<J> {
    /// The job, whatever made it ready.
    pub fn into_job(self) -> J {
        let (Ready::Forked(job) | Ready::Woken(job) | Ready::Spawned(job) | Ready::Arrived(Arrived { job, .. })) = self;
        job
    }
}

/// Where a worker stands between two actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// A search begins, or a slice is over whose job runs on.
    Turn,
    /// This step of a search had this outcome; `jobs` were stolen.
    Tried {
        /// The step.
        step: Step,
        /// Its outcome.
        outcome: Outcome,
        /// Jobs that were taken, datagrams that were received, sockets that a look has named.
        jobs: usize,
    },
    /// The worker belongs to this pool from now on.
    Pool(PoolId),
    /// A job has looked for waiting requests, or had notice of one, in the slice that is over.
    Looked {
        /// Number of descriptors in which something waits.
        waiting: usize,
        /// Whether the kernel gave notice.
        by_kernel: bool,
    },
    /// The worker has nothing to do, since its first search that found nothing.
    Idle {
        /// When that was.
        since: Nanos,
    },
    /// The worker has something to do again, or was woken.
    Busy {
        /// How long it had nothing to do.
        idle: Nanos,
    },
    /// The worker is about to sleep: it must hold nothing that other threads may miss meanwhile.
    Rest {
        /// When its last search began.
        looked_at: Nanos,
    },
}

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

/// What a worker does beside its jobs. Each verb is called in line: handed out one by one, the ten
/// or so of a request would cost more than a search.
pub trait Acts: World {
    /// What waits in queues.
    type Job;

    /// Whether time passes by itself: what becomes of a job that has run is then decided in the
    /// step that runs it.
    const AT_ONCE: bool;

    /// Takes a job at [`Step::Own`] or [`Step::Queue`]. At [`Step::Steal`] takes the oldest job
    /// from the deque of the victim, and moves more into the own one: half of them in all. Takes
    /// one where the victim is this worker.
    fn take(&mut self, from: Step) -> Taken<Self::Job>;
    /// Adds a job to a deque or queue.
    ///
    /// # Errors
    /// The job, when the queues are full.
    fn put(&mut self, place: Place, job: Self::Job) -> Result<(), Self::Job>;
    /// Notes that the worker has put jobs where it looks itself, for which it has woken no other
    /// worker. `datagrams` of them were received from the socket of `owner`.
    fn received(&mut self, owner: WorkerId, datagrams: usize);
    /// Moves the turn of all workers on, and returns its next socket.
    fn next_socket(&mut self) -> WorkerId;

    /// Before a job that may be long: exposes the socket. Wakes another worker if there is `more`
    /// to do for the pool than this job. Publishes since when the worker has been in the job, where
    /// the policy asks. Forgets requests to step aside: they were meant for the last job.
    fn begin_work(&mut self, policy: &Policy, since: Option<Nanos>, more: bool);
    /// The worker is in no job any more.
    fn end_work(&mut self);
    /// After a job was put into the queue of `pool`: wakes a worker that serves it, if one sleeps.
    fn wake_for(&mut self, policy: &Policy, pool: PoolId);
    /// Asks `worker` to step aside at its next checkpoint.
    fn flag(&self, worker: WorkerId);
    /// Takes one of `max` permits to work uninterrupted; false if none is left.
    fn take_permit(&mut self, max: usize) -> bool;
    /// Gives a permit back.
    fn return_permit(&mut self);

    /// A watched socket in which something waits, if any: one that was not named in the last look,
    /// where there are several.
    fn look(&mut self) -> Noticed;
    /// Before a slice of a job that watches as closely as `watch` says. Returns how long the slice
    /// may be: replies must leave, an abandoned job must end, and some worlds notice requests only
    /// between slices.
    fn watch(&mut self, watch: Watch) -> Nanos;
    /// After a slice of a job that watches: the watched sockets in which something waits; `None`
    /// where the worker has not looked.
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
