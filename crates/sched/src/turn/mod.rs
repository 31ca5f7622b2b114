//! A worker as a state machine without I/O. It decides where the worker searches next, where
//! received jobs wait, and what happens to a running job. It also decides which workers to wake,
//! and which to ask to yield.
//!
//! A worker's next [`Action`] is a value. [`Turn::step`] carries it out on a world ([`Acts`]) and
//! an [`Engine`], and decides the next action. A thread calls it again at once. The simulator first
//! advances virtual time by the cost of the action; until then other workers do not see its result.

mod engine;
mod run;
mod search;

pub use engine::{
    Acts, Arrived, Boundary, Description, Discarded, Engine, Ran, Ready, Received, Requeued, Taken, World,
};

use super::interface::{Place, PoolId, Resume, RunningJob, Step, Topology, Watch, WorkerId};
use super::noticed::Noticed;
use super::policy::{Local, Policy};
use crate::time::Nanos;

/// The next action of a worker.
#[derive(Debug, Default)]
pub enum Action<J> {
    /// Search for a job, in the policy's order.
    #[default]
    Find,
    /// Sleep, as nothing was found; then search again.
    Sleep {
        /// Whether another worker was taking from a place that this one searched. That place may
        /// still hold jobs, so search again before sleeping.
        contended: bool,
    },
    /// Begin this job, found by this step.
    Begin(J, Step),
    /// Run this job for another slice.
    Run(J),
    /// Decide what happens to the job that has run.
    Settle(Ran<J>),
    /// Put this job where other workers may take it.
    Put(J, Place, Requeued),
}

/// A worker's state between two actions.
#[derive(Debug)]
pub struct Turn<J> {
    /// What the worker remembers between searches.
    pub search: Local,
    next: Action<J>,
    /// The current job.
    running: RunningJob,
    /// How long the current job may still run before the policy is asked.
    ask_after: Nanos,
    /// How closely the current job watches for fresh requests.
    watch: Watch,
    /// Whether the worker holds a permit to work uninterrupted.
    uninterrupted: bool,
    /// Buffer for the jobs of one receive.
    batch: Vec<Arrived<J>>,
}

impl<J> Turn<J> {
    /// The turn of `worker` in `topology`. It can receive `batch` jobs at once without allocating.
    pub fn new(worker: WorkerId, topology: &Topology, batch: usize) -> Turn<J> {
        let search = Local::new(worker, topology);
        let pool = search.pool;
        let [attained, ran] = [Nanos::ZERO; 2];
        Turn {
            search,
            next: Action::Find,
            running: RunningJob { worker, pool, class: None, attained, ran, flagged: false },
            ask_after: Nanos::MAX,
            watch: Watch::Never,
            uninterrupted: false,
            batch: Vec::with_capacity(batch),
        }
    }

    /// The worker that takes this turn.
    pub fn worker(&self) -> WorkerId {
        self.search.worker
    }

    /// The pool of this worker.
    pub fn pool(&self) -> PoolId {
        self.search.pool
    }

    /// The worker's next action.
    pub fn next(&self) -> &Action<J> {
        &self.next
    }

    /// Whether the worker has a job, so that the next step is no search.
    pub fn has_job(&self) -> bool {
        !matches!(self.next, Action::Find | Action::Sleep { .. })
    }

    /// The job that paused at a checkpoint, and runs on if nothing arrives. Also how long it may
    /// run until the policy is asked, and how closely it watches.
    pub fn pauses(&self) -> Option<(&J, Nanos, Watch)> {
        let Action::Settle(Ran::Paused { job, resume: Resume::Here, ran }) = &self.next else { return None };
        Some((job, self.ask_after.minus(*ran), self.watch))
    }

    /// Notes that the paused job has run on for `time` and paused again.
    pub fn ran_on(&mut self, time: Nanos) {
        self.running.ran = self.running.ran.plus(time);
        self.ask_after = self.ask_after.minus(time);
    }

    /// Follows `policy` from now on. Call it between two jobs.
    pub fn follow(&mut self, policy: &Policy, engine: &mut impl Engine<Job = J>) {
        self.search.set_topology(&policy.topology);
        self.running.pool = self.search.pool;
        engine.boundary(Boundary::Pool(self.search.pool));
    }

    /// Makes `job`, which was taken from another group, the next action instead of a search.
    pub fn take_over(&mut self, job: J) {
        // The step does not matter, because the job comes from no place of this group.
        self.next = Action::Begin(job, Step::Own);
    }

    /// Receives from the socket `owner` of another group, and places the jobs as `policy` says.
    /// Returns the number of datagrams.
    pub fn receive_over(
        &mut self,
        policy: &Policy,
        now: Nanos,
        owner: WorkerId,
        world: &mut impl Acts<Job = J>,
        engine: &mut impl Engine<Job = J>,
    ) -> usize {
        let mut actor = Actor { turn: self, policy, now, world, engine };
        let (outcome, jobs) = actor.receive(owner);
        actor.engine.boundary(Boundary::Tried { step: Step::Receive(owner), outcome, jobs });
        jobs
    }

    /// Whether the worker is about to search in the rare order. Before such a search, it may take
    /// jobs from a group with far longer queues ([`is_longer`](crate::grouping::is_longer)).
    #[inline]
    pub fn searches_rarely(&self) -> bool {
        !self.has_job() && self.search.is_rare()
    }

    /// Searches all places except sockets once more, after a search that found nothing. Sockets are
    /// left out because new datagrams wake the owner or the watcher anyway.
    pub fn look_again<W, E>(&mut self, policy: &Policy, now: Nanos, world: &mut W, engine: &mut E)
    where
        W: Acts<Job = J>,
        E: Engine<Job = J>,
    {
        self.next = Action::Find;
        Actor { turn: self, policy, now, world, engine }.search(false);
    }

    /// Places the jobs that `engine` has made ready. Call it between two jobs.
    pub fn take_in_ready<W, E>(&mut self, policy: &Policy, now: Nanos, world: &mut W, engine: &mut E)
    where
        W: Acts<Job = J>,
        E: Engine<Job = J>,
    {
        Actor { turn: self, policy, now, world, engine }.spread();
    }

    /// Makes the next search begin with the worker's own socket, which holds something.
    pub fn expect_own(&mut self) {
        self.search.noticed = Noticed::of([self.worker()]);
    }

    /// Carries out the worker's next action under `policy`. `now` is no earlier than the end of the
    /// last action, as far as known without reading the clock.
    #[inline(always)]
    pub fn step<W, E>(&mut self, policy: &Policy, now: Nanos, world: &mut W, engine: &mut E)
    where
        W: Acts<Job = J>,
        E: Engine<Job = J>,
    {
        let next = std::mem::take(&mut self.next);
        let mut actor = Actor { turn: self, policy, now, world, engine };
        match next {
            Action::Find | Action::Sleep { .. } => actor.search(true),
            Action::Begin(job, from) => {
                actor.begin(&job, from);
                actor.run(job);
            }
            Action::Run(job) => actor.run(job),
            Action::Settle(ran) => actor.settle(ran),
            Action::Put(job, place, why) => actor.put(job, place, why),
        }
    }

    /// Sets the next action. Call it once per step.
    #[inline]
    fn then(&mut self, next: Action<J>) {
        let before = std::mem::replace(&mut self.next, next);
        assert!(matches!(before, Action::Find), "one action follows another");
        // The old value, `Find`, owns nothing. To drop it would still cost a function call.
        std::mem::forget(before);
    }
}

/// A turn with everything that one step needs.
struct Actor<'a, J, W, E> {
    turn: &'a mut Turn<J>,
    policy: &'a Policy,
    now: Nanos,
    world: &'a mut W,
    engine: &'a mut E,
}
