//! One worker, as a state machine without I/O: what it tries next, where arrivals go, what becomes of a running job,
//! which workers it wakes and flags.
//!
//! [`Turn::step`] carries out one step on a [`World`] and an [`Engine`] and says what it [`Did`]. Threads call it again
//! at once; virtual time lets pass what the step costs. A step that takes time ends before anything that comes of it is
//! seen by others: a slice that was run is settled, and a job that leaves is put into a queue, by the next step.

mod engine;
mod run;
mod search;
mod world;

pub use engine::{Arrived, Boundary, Description, Discarded, Engine, Ran, Ready, Received, Requeued};
pub use world::{Stolen, World};

use super::{Event, Local, Looked, Policy, PoolId, Running, Topology, Watch, WorkerId};
use crate::time::Nanos;

/// A worker's place between two steps.
#[derive(Debug)]
pub struct Turn<J> {
    search: Local,
    hand: Hand<J>,
    /// The job at hand.
    running: Running,
    /// How long the job at hand may run on before the policy is asked.
    ask_after: Nanos,
    /// How closely the job at hand watches for fresh requests.
    watch: Watch,
    /// Whether the policy needs to know since when workers have been in their jobs.
    shows_busy: bool,
    /// Whether the worker holds a permit to work uninterrupted.
    uninterrupted: bool,
    /// The victim from which the job at hand was stolen, until it begins.
    victim: Option<WorkerId>,
    /// The lighter pool from whose queue the job at hand was taken, until it begins.
    helped: Option<PoolId>,
    /// Room for what one receive brings.
    batch: Vec<Arrived<J>>,
}

/// What the worker has in hand.
#[derive(Debug, Default)]
enum Hand<J> {
    /// Nothing: it searches.
    #[default]
    Empty,
    /// A job that it is about to begin.
    Begins(J),
    /// A job that it is about to resume.
    Resumes(J),
    /// The result of the last slice.
    Ran(Ran<J>),
    /// A job that goes elsewhere.
    Leaves(J, Event),
    /// A job that has to wait until it may work uninterrupted.
    Waits(J),
}

/// What a search did beside its find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Sockets in which the worker found nothing.
    pub polls: u64,
    /// System calls of looks at the watched sockets: one, and one more for each of them that it names.
    pub looks: u64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// The worker has found a job.
    Took {
        /// The job was stolen from another worker's deque.
        stole: bool,
        /// What was tried before.
        tried: Tried,
    },
    /// The worker has received, and put the jobs where the policy wants them.
    Received {
        /// Number of datagrams received.
        datagrams: u64,
        /// What was tried before.
        tried: Tried,
    },
    /// The worker has found nothing.
    Nothing {
        /// A competitor was met: there may be work after all.
        contended: bool,
        /// What was tried before.
        tried: Tried,
    },
    /// A job has run for this long; what comes of it is for the next step.
    Ran(Nanos),
    /// The job that ran is over.
    Ended,
    /// The job that ran is going to run on.
    Kept {
        /// What the job has looked at, or had notice of, in its last slice.
        looked: Option<Looked>,
    },
    /// The job that ran is going to leave the worker.
    Leaves {
        /// Whether the job goes to another pool.
        hops: bool,
        /// What the job has looked at, or had notice of, in its last slice.
        looked: Option<Looked>,
    },
    /// A job was put into a queue, or had no room there.
    Put,
}

impl<J> Turn<J> {
    /// The turn of `worker` in `topology`, which receives `batch` jobs at once without allocating.
    pub fn new(worker: WorkerId, topology: &Topology, batch: usize) -> Turn<J> {
        let search = Local::new(worker, topology);
        let pool = search.pool();
        Turn {
            search,
            hand: Hand::Empty,
            running: Running {
                worker,
                pool,
                class: None,
                continuation: false,
                attained: Nanos::ZERO,
                ran: Nanos::ZERO,
                flagged: false,
            },
            ask_after: Nanos::MAX,
            watch: Watch::Never,
            shows_busy: true,
            uninterrupted: false,
            victim: None,
            helped: None,
            batch: Vec::with_capacity(batch),
        }
    }

    /// The worker that takes this turn.
    pub fn worker(&self) -> WorkerId {
        self.search.worker()
    }

    /// The pool of that worker.
    pub fn pool(&self) -> PoolId {
        self.search.pool()
    }

    /// Whether the worker has a job in hand: the next step concerns that job and is no search.
    pub fn has_job(&self) -> bool {
        !matches!(self.hand, Hand::Empty)
    }

    /// Follows `policy` from now on; to be called between two jobs.
    pub fn follow(&mut self, policy: &Policy, engine: &mut impl Engine<Job = J>) {
        self.search.set_topology(policy.topology());
        self.shows_busy = policy.looks_at_busy();
        self.running.pool = self.search.pool();
        engine.boundary(Boundary::Pool(self.search.pool()));
    }

    /// Counts as a search that found nothing, where that is known beforehand.
    pub fn skip_search(&mut self) {
        self.search.skip();
    }

    /// Carries out the next step of the worker under `policy`.
    #[inline]
    pub fn step<W, E>(&mut self, policy: &Policy, world: &mut W, engine: &mut E) -> Did
    where
        W: World<Job = J>,
        E: Engine<Job = J>,
    {
        let mut actor = Actor { turn: self, policy, world, engine };
        match std::mem::take(&mut actor.turn.hand) {
            Hand::Empty => actor.search(),
            Hand::Begins(job) => {
                actor.begin(&job);
                actor.run(job)
            }
            Hand::Resumes(job) => actor.run(job),
            Hand::Ran(ran) => actor.settle(ran),
            Hand::Leaves(job, event) => actor.put(job, event),
            Hand::Waits(job) => actor.put_aside(job),
        }
    }
}

/// A turn with all that one step of it acts on.
struct Actor<'a, J, W, E> {
    turn: &'a mut Turn<J>,
    policy: &'a Policy,
    world: &'a mut W,
    engine: &'a mut E,
}
