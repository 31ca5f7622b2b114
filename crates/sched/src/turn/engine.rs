//! The two interfaces that a worker's turn uses. An [`Engine`] knows what a job is, receives jobs
//! and runs them. A world ([`Acts`]) has the queues, and wakes or flags other workers. Threads have
//! one world, virtual time another. No method blocks.

use crate::interface::{Outcome, Place, PoolId, Resume, Step, View, Watch, WorkerId};
use crate::noticed::Noticed;
use crate::policy::Policy;
use crate::time::Nanos;

/// Receives and runs jobs for one worker; every worker has its own engine.
pub trait Engine {
    /// An entry of the queues: a fresh request or a continuation.
    type Job;

    /// Receives from the socket of worker `owner` and appends the jobs to `batch`, which is empty.
    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received;

    /// From now on, numbers of socket owners count from worker `first`, the first one of a group.
    fn visit(&mut self, _first: WorkerId) {}

    /// Runs `job` until it ends or pauses. Its checkpoints pause once it has run for `at_most`.
    fn run(&mut self, job: Self::Job, at_most: Nanos) -> Ran<Self::Job>;

    /// What a policy needs to know of `job`.
    fn describe(&self, job: &Self::Job) -> Description;

    /// Ends `job` without running it further.
    fn discard(&mut self, job: Self::Job, why: Discarded);

    /// Called before `job` enters a queue, or runs on because the queues are full. If it returns
    /// false, the worker discards `job` as [`Discarded::TooMany`].
    fn requeued(&mut self, job: &mut Self::Job, why: Requeued) -> bool;

    /// The next job that the last [`Engine::run`] or [`Engine::discard`] made ready to run. Call it
    /// until nothing is left.
    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        None
    }

    /// Whether the last receive since [`Boundary::Rest`] was from the worker's own socket, and left
    /// nothing there.
    fn has_emptied_own(&self) -> bool {
        false
    }

    /// Whether the worker may sleep without another look into sockets, where
    /// [`World::leaves_sockets`] says so.
    fn may_leave_sockets(&self) -> bool {
        true
    }

    /// Sends the finished replies.
    fn flush(&mut self) {}

    /// Called when the worker reaches `boundary`.
    fn boundary(&mut self, boundary: Boundary);

    /// The last reading of the clock: no earlier than the end of the last [`Engine::run`] or
    /// [`Engine::receive`].
    fn now(&self) -> Nanos;
}

/// A received job.
#[derive(Debug)]
pub struct Arrived<J> {
    /// The received job.
    pub job: J,
    /// The class of the job; `None` if policies may not know it.
    pub class: Option<u8>,
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of datagrams, including those that were not requests.
    pub datagrams: usize,
    /// Whether the engine holds more datagrams that have left the socket already, so that no other
    /// worker would find them. If so, receive again.
    pub more: bool,
}

/// What a policy needs to know of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The class of the request, if policies may know it; of a task, its priority.
    pub class: Option<u8>,
    /// CPU time of the job so far, if policies ask for it.
    pub attained: Nanos,
}

/// The result of running a job.
#[derive(Debug)]
pub enum Ran<J> {
    /// The job has ended, or waits outside of all queues until [`Engine::ready`] returns it.
    Ended {
        /// How long the job ran this time.
        ran: Nanos,
    },
    /// The job paused and can resume.
    Paused {
        /// The job that continues.
        job: J,
        /// How the job wants to resume.
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

/// Why a worker ends a job itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// The job would be too late, because so many others wait.
    TooMany,
    /// The server stops, and the time to drain is over.
    Draining,
}

/// Why a job enters a queue, or would enter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeued {
    /// The job yielded.
    Yielded,
    /// The job moves to this pool.
    Hopped(PoolId),
    /// The job waited for an event, and the event has happened.
    Woken,
    /// The job waits for a permit to work uninterrupted.
    Permit,
    /// The job should leave its worker, but the queues are full, so it runs on.
    Crowded,
}

/// A job that became ready to run, because another job ran or an outside thread acted.
#[derive(Debug)]
pub enum Ready<J> {
    /// A child of the job that ran. Without room in the queues, its parent runs it.
    Forked(J),
    /// A job that waited and was woken.
    Woken(J),
    /// A job from another source than the sockets, which has not begun.
    Spawned(J),
    /// A received job that could not begin before, for example because another request of its flow
    /// ran.
    Arrived(Arrived<J>),
}

impl<J> Ready<J> {
    /// The job, whatever made it ready.
    pub fn into_job(self) -> J {
        let (Ready::Forked(job) | Ready::Woken(job) | Ready::Spawned(job) | Ready::Arrived(Arrived { job, .. })) = self;
        job
    }
}

/// What a worker reports to its engine between two actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// A search begins, or a slice has ended and its job runs on.
    Turn,
    /// A step of a search had this outcome.
    Tried {
        /// The step of the search.
        step: Step,
        /// What the step found.
        outcome: Outcome,
        /// Number of jobs taken, datagrams received, or sockets that a look named.
        jobs: usize,
    },
    /// The worker belongs to this pool from now on.
    Pool(PoolId),
    /// During the last slice, the job looked for waiting requests or got a notice of one.
    Looked {
        /// Number of descriptors that hold something.
        waiting: usize,
        /// Whether a notice of the kernel told of them, not a look.
        by_kernel: bool,
    },
    /// The worker has nothing to do.
    Idle {
        /// Time of the worker's first search that found nothing.
        since: Nanos,
    },
    /// The worker has something to do again, or was woken.
    Busy {
        /// How long the worker had nothing to do.
        idle: Nanos,
    },
    /// The worker is about to sleep. The engine must release all that other threads may need
    /// meanwhile.
    Rest {
        /// When the worker's last search began.
        looked_at: Nanos,
    },
}

/// What a worker reads besides a policy's view; values may be stale.
pub trait World: View {
    /// Whether any worker of `pool` sleeps.
    fn any_asleep(&self, pool: PoolId) -> bool;
    /// Whether this worker was asked to yield since [`Acts::begin_work`].
    fn is_flagged(&self) -> bool;
    /// Whether datagrams may be received.
    fn accepts(&self) -> bool;
    /// The longest recent piece of uninterrupted work ([`longest_after`]).
    ///
    /// [`longest_after`]: crate::longest_after
    fn longest_piece(&self) -> Nanos;
    /// Whether jobs are discarded instead of run.
    fn is_abandoned(&self) -> bool;
    /// Whether the worker should sleep without another look into sockets: an arrival would end the
    /// sleep, and none is likely soon.
    fn leaves_sockets(&self) -> bool {
        false
    }
}

/// What a worker does besides running jobs. Implementations should be inlined: a request needs
/// about ten calls, which would cost more than the search for the next job.
pub trait Acts: World {
    /// The type of the jobs in queues.
    type Job;

    /// Whether time passes by itself, as on threads. If so, the step that runs a job also decides
    /// what happens to it.
    const AT_ONCE: bool;

    /// Takes a job at [`Step::Own`] or [`Step::Queue`]. At [`Step::Steal`], takes half of the jobs
    /// in the victim's deque: returns the oldest and moves the others into the own deque. If the
    /// victim is this worker, takes just the oldest.
    fn take(&mut self, from: Step) -> Taken<Self::Job>;
    /// Adds a job to a deque or queue.
    ///
    /// # Errors
    /// The job, when the queues are full.
    fn put(&mut self, place: Place, job: Self::Job) -> Result<(), Self::Job>;
    /// Notes that the worker has received `datagrams` from the socket of `owner`, and put jobs
    /// where it looks itself. It has woken no other worker for them.
    fn received(&mut self, owner: WorkerId, datagrams: usize);
    /// Notes that the worker has found its own socket empty.
    fn has_emptied_own(&mut self) {}
    /// Lets other workers know of what waits in the worker's own socket.
    fn report_own(&mut self) {}
    /// Whether the kernel has told the worker of datagrams in its own socket, which it has not
    /// found empty since.
    fn own_waits(&self) -> bool {
        false
    }
    /// Advances the order of sockets that all workers share, and returns the next one.
    fn next_socket(&mut self) -> WorkerId;

    /// Called before a job that may take long. Exposes the worker's socket to other workers, and
    /// wakes one of them if there is `more` to do for the pool. If `since` is given, publishes it
    /// as the time when the worker began the job. Clears requests to yield, which were meant for
    /// the last job.
    fn begin_work(&mut self, policy: &Policy, since: Option<Nanos>, more: bool);
    /// Notes that the worker is in no job any more.
    fn end_work(&mut self);
    /// Called after a job entered the queue of `pool`: wakes a sleeping worker that serves it, if
    /// there is one.
    fn wake_for(&mut self, policy: &Policy, pool: PoolId);
    /// Asks `worker` to yield at its next checkpoint.
    fn flag(&self, worker: WorkerId);
    /// Takes one of `max` permits to work uninterrupted; false if none is left.
    fn take_permit(&mut self, max: usize) -> bool;
    /// Returns a permit to work uninterrupted, after a `piece` of this length if it was used.
    fn return_permit(&mut self, piece: Option<Nanos>);

    /// Looks which watched sockets hold datagrams; names first those that the last look did not
    /// name.
    fn look(&mut self) -> Noticed;
    /// Called before a slice of a job that watches as closely as `watch` says. Returns the longest
    /// allowed slice. A slice must end in time to send replies, to end an abandoned job, and, in
    /// some worlds, to see fresh requests.
    fn watch(&mut self, watch: Watch) -> Nanos;
    /// Called after a slice of a job that watches. Returns which watched sockets hold datagrams, or
    /// `None` if the worker has not looked.
    fn noticed(&mut self, watch: Watch, now: Nanos) -> Option<Noticed>;
}

/// The result of [`Acts::take`].
#[derive(Debug)]
pub enum Taken<J> {
    /// A job, and how many more were moved into the own deque.
    Job(J, usize),
    /// There was no job to take.
    Nothing,
    /// Another thief was taking from the victim's deque.
    Contended,
}

impl<J> From<Option<J>> for Taken<J> {
    fn from(job: Option<J>) -> Taken<J> {
        job.map_or(Taken::Nothing, |job| Taken::Job(job, 0))
    }
}
