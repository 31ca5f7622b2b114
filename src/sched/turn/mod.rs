//! One worker, as a state machine without I/O. It decides what the worker tries next, where
//! arrivals go, what becomes of a running job, and which workers to wake and to flag.
//!
//! A worker's next [`Action`] is a value. [`Turn::step`] carries it out on a world ([`Acts`]) and
//! an [`Engine`], and decides the one after it. Threads call it again at once. Virtual time first
//! lets the cost of the action pass. Until then other workers see nothing of its result.

mod engine;
mod run;
mod search;

pub use engine::{
    Acts, Arrived, Boundary, Description, Discarded, Engine, Ran, Ready, Received, Requeued, Taken, World,
};

use super::interface::{Place, PoolId, Resume, Running, Step, Topology, Watch, WorkerId};
use super::noticed::Noticed;
use super::policy::{Local, Policy};
use crate::time::Nanos;

/// What a worker does next.
#[derive(Debug, Default)]
pub enum Action<J> {
    /// It searches for a job, in the order of its policy.
    #[default]
    Find,
    /// It has found nothing: it may sleep, and then searches again.
    Sleep {
        /// A competitor was met: there may be work after all, so search again before sleeping.
        contended: bool,
    },
    /// It begins this job, which it has found there.
    Begin(J, Step),
    /// It runs this job for another slice.
    Run(J),
    /// It decides what becomes of the job that has run.
    Settle(Ran<J>),
    /// It puts this job where others may take it.
    Put(J, Place, Requeued),
}

/// A worker's place between two actions.
#[derive(Debug)]
pub struct Turn<J> {
    /// What the worker knows between two searches.
    pub search: Local,
    next: Action<J>,
    /// The job at hand.
    running: Running,
    /// How long the job at hand may run on before the policy is asked.
    ask_after: Nanos,
    /// How closely the job at hand watches for fresh requests.
    watch: Watch,
    /// Whether the worker holds a permit to work uninterrupted.
    uninterrupted: bool,
    /// Room for what one receive brings.
    batch: Vec<Arrived<J>>,
}

impl<J> Turn<J> {
    /// The turn of `worker` in `topology`, which receives `batch` jobs at once without allocating.
    pub fn new(worker: WorkerId, topology: &Topology, batch: usize) -> Turn<J> {
        let search = Local::new(worker, topology);
        let pool = search.pool;
        let [attained, ran] = [Nanos::ZERO; 2];
        Turn {
            search,
            next: Action::Find,
            running: Running { worker, pool, class: None, attained, ran, flagged: false },
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

    /// The pool of that worker.
    pub fn pool(&self) -> PoolId {
        self.search.pool
    }

    /// What the worker does next.
    pub fn next(&self) -> &Action<J> {
        &self.next
    }

    /// Whether the worker has a job in hand: the next step concerns that job and is no search.
    pub fn has_job(&self) -> bool {
        !matches!(self.next, Action::Find | Action::Sleep { .. })
    }

    /// The job that has paused at a checkpoint and runs on while nothing comes. Also how long it
    /// runs until `policy` is asked, and how closely it watches.
    pub fn pauses(&self) -> Option<(&J, Nanos, Watch)> {
        let Action::Settle(Ran::Paused { job, resume: Resume::Here, ran }) = &self.next else { return None };
        Some((job, self.ask_after.minus(*ran), self.watch))
    }

    /// The paused job has run on for `time`, and has paused again.
    pub fn ran_on(&mut self, time: Nanos) {
        self.running.ran = self.running.ran.plus(time);
        self.ask_after = self.ask_after.minus(time);
    }

    /// Follows `policy` from now on; to be called between two jobs.
    pub fn follow(&mut self, policy: &Policy, engine: &mut impl Engine<Job = J>) {
        self.search.set_topology(&policy.topology);
        self.running.pool = self.search.pool;
        engine.boundary(Boundary::Pool(self.search.pool));
    }

    /// Begins `job`, which the worker of another group has put somewhere, in place of a search.
    pub fn take_over(&mut self, job: J) {
        // From no place that this worker's group has.
        self.next = Action::Begin(job, Step::Own);
    }

    /// Puts the jobs that `receive` brings from a socket of another group where `policy` wants
    /// them. Returns the number of datagrams.
    pub fn receive_over(
        &mut self,
        policy: &Policy,
        (now, owner): (Nanos, WorkerId),
        world: &mut impl Acts<Job = J>,
        engine: &mut impl Engine<Job = J>,
    ) -> usize {
        let mut actor = Actor { turn: self, policy, now, world, engine };
        let (outcome, jobs) = actor.receive(owner);
        actor.engine.boundary(Boundary::Tried { step: Step::Receive(owner), outcome, jobs });
        jobs
    }

    /// Whether the worker is about to search, and to begin at another place than usual. Until it
    /// searches, it may take over jobs of a group with far longer queues
    /// ([`is_longer`](crate::sched::grouping::is_longer)).
    #[inline]
    pub fn searches_rarely(&self) -> bool {
        !self.has_job() && self.search.is_rare()
    }

    /// Searches everything but sockets, after a search that found nothing. A socket's owner and the
    /// watcher hear of what has come to it since.
    pub fn look_again<W, E>(&mut self, policy: &Policy, now: Nanos, world: &mut W, engine: &mut E)
    where
        W: Acts<Job = J>,
        E: Engine<Job = J>,
    {
        self.next = Action::Find;
        Actor { turn: self, policy, now, world, engine }.search(false);
    }

    /// Puts what `engine` has made ready where `policy` wants it; to be called between two jobs.
    pub fn take_in_ready<W, E>(&mut self, policy: &Policy, now: Nanos, world: &mut W, engine: &mut E)
    where
        W: Acts<Job = J>,
        E: Engine<Job = J>,
    {
        Actor { turn: self, policy, now, world, engine }.spread();
    }

    /// Lets the next search begin with the worker's own socket, in which something waits.
    pub fn expect_own(&mut self) {
        self.search.noticed = Noticed::of([self.worker()]);
    }

    /// Carries out the next action of the worker under `policy`. `now` is no earlier than the end
    /// of the last one, as far as the driver knows without reading the clock.
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

    /// Sets the next action, where the last one is under way.
    #[inline]
    fn then(&mut self, next: Action<J>) {
        let before = std::mem::replace(&mut self.next, next);
        assert!(matches!(before, Action::Find), "one action follows another");
        // It holds nothing; to drop it would take a call.
        std::mem::forget(before);
    }
}

/// A turn with all that one step of it acts on.
struct Actor<'a, J, W, E> {
    turn: &'a mut Turn<J>,
    policy: &'a Policy,
    now: Nanos,
    world: &'a mut W,
    engine: &'a mut E,
}
