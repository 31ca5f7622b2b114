//! What a job is, how one is received and how it runs: the part of a worker that the runtime does not know.

use super::Deques;
use crate::handler::Station;
use crate::handler::context::Pause;
use crate::sched::{Event, Outcome, PoolId, Step, WorkerId};
use crate::time::{Nanos, clock};
use std::rc::Rc;
use std::sync::Arc;

/// What one worker does with jobs; every worker has its own.
pub trait Engine {
    /// What waits in queues: a fresh request or a continuation.
    type Job: Send;

    /// Receives a batch from the ingress of worker `owner` and gives each job, with its class if the policy may know it,
    /// to `place`, which returns a job for which there is no room. Returns how many datagrams were received.
    fn receive(
        &mut self,
        owner: WorkerId,
        place: &mut dyn FnMut(Self::Job, Option<u8>) -> Result<(), Self::Job>,
    ) -> usize;

    /// Runs `job` until it ends or pauses; its checkpoints pause once it has run for `ask_after`.
    fn run(&mut self, job: Self::Job, ask_after: Nanos) -> Ran<Self::Job>;

    /// Whether `job` has run before.
    fn is_continuation(&self, job: &Self::Job) -> bool;

    /// `job` leaves the worker because of `event`.
    fn moved(&mut self, job: &mut Self::Job, event: Event);

    /// Ends a job for which there is no room.
    fn shed_full(&mut self, job: Self::Job);

    /// Ends a job because the drain timeout has passed.
    fn shed_draining(&mut self, job: Self::Job);

    /// Sends what waits to be sent.
    fn flush(&mut self);

    /// Called once per turn of the worker's loop and between two slices of one job.
    fn turn(&mut self);

    /// The worker is about to sleep: it must hold nothing that others may miss meanwhile.
    fn rest(&mut self);

    /// What came of a step, for the counters.
    fn tried(&mut self, step: Step, outcome: Outcome);

    /// The worker's loop begins; jobs that its jobs make may be put into `deques`.
    fn began(&mut self, deques: &Rc<Deques<Self::Job>>) {
        let _ = deques;
    }

    /// The worker belongs to `pool` from now on.
    fn joined(&mut self, pool: PoolId) {
        let _ = pool;
    }

    /// The lane in which `job` waits, 0 the most urgent. What was received waits in lane 0.
    fn lane(&self, job: &Self::Job) -> usize {
        let _ = job;
        0
    }

    /// The next of what the last call made ready: to be asked after each job that ran or was ended, until nothing is left.
    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        None
    }

    /// `job`, which waited, is going to be put into a queue.
    fn woken(&mut self, job: &mut Self::Job) {
        let _ = job;
    }

    /// When the last job ended or was received, or later: a reading of the clock that is at hand.
    fn now(&self) -> Nanos {
        clock::now()
    }

    /// So many jobs were taken from the deque of another.
    fn stole(&mut self, jobs: usize) {
        let _ = jobs;
    }
}

/// What came of running a job.
pub enum Ran<J> {
    /// It is over.
    Ended,
    /// It paused, and can go on.
    Paused {
        /// The continuation.
        job: J,
        /// Why: a checkpoint or a hop.
        pause: Pause,
        /// How long it ran this time.
        ran: Nanos,
    },
    /// It waits for parts of its own, which wake it.
    Waits {
        /// The continuation.
        job: J,
        /// Where.
        station: Arc<Station>,
    },
}

/// What running a job made ready to run.
pub enum Ready<J> {
    /// A job that this one forked, and that is run by this one if there is no room for it in the queues.
    Forked(J),
    /// A job that waited.
    Woken(J),
    /// The job that waits at the station of this number.
    At(usize),
}
