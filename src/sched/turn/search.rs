//! How a worker looks for work, and where it puts what it receives.

use super::{Actor, Arrived, Boundary, Did, Discarded, Engine, Hand, Received, Stolen, Tried, World};
use crate::sched::{Event, Noticed, Outcome, Place, Policy, PoolId, Step, UNINTERRUPTED, WorkerId};

/// The result of trying one place.
enum Found<J> {
    Job(J),
    Stolen {
        job: J,
        victim: WorkerId,
        more: usize,
    },
    Datagrams(u64),
    /// Sockets in which something waits, so many.
    Waiting(usize),
    Nothing(Outcome),
}

impl<J, W, E> Actor<'_, J, W, E>
where
    W: World<Job = J>,
    E: Engine<Job = J>,
{
    /// One walk through the policy's order, to the first find.
    #[inline]
    pub(super) fn search(&mut self) -> Did {
        self.engine.boundary(Boundary::Turn);
        self.spread();
        let mut tried = Tried::default();
        let now = self.engine.now().max(self.world.recent());
        self.turn.search.begin();
        loop {
            let step = self.policy.next(&mut self.turn.search, now, self.world);
            // Finished replies leave before anything that may take long or find nothing. Before each job, and
            // before each batch that is received, it is the engine that decides.
            if !matches!(step, Step::Own | Step::Queue(_) | Step::Receive(_) | Step::Look) {
                self.engine.flush();
            }
            if let Step::Idle { contended } = step {
                self.on_outcome(step, Outcome::Empty, 0);
                return Did::Nothing { contended, tried };
            }
            match self.attempt(step) {
                Found::Job(job) => {
                    self.on_outcome(step, Outcome::Found, 0);
                    self.turn.helped = match step {
                        Step::Queue(pool) if pool < self.turn.pool() => Some(pool),
                        _ => None,
                    };
                    self.turn.hand = Hand::Begins(job);
                    return Did::Took { stole: false, tried };
                }
                Found::Stolen { job, victim, more } => {
                    self.on_outcome(step, Outcome::Found, 1 + more);
                    self.turn.victim = Some(victim);
                    self.turn.hand = Hand::Begins(job);
                    return Did::Took { stole: true, tried };
                }
                Found::Datagrams(datagrams) => {
                    self.on_outcome(step, Outcome::Found, 0);
                    return Did::Received { datagrams, tried };
                }
                Found::Waiting(sockets) => {
                    tried.looks += 1 + sockets as u64;
                    let outcome = if sockets > 0 { Outcome::Found } else { Outcome::Empty };
                    self.on_outcome(step, outcome, sockets);
                }
                Found::Nothing(outcome) => {
                    tried.polls += u64::from(matches!(step, Step::Receive(_)));
                    self.on_outcome(step, outcome, 0);
                    self.policy.on_outcome(&mut self.turn.search, outcome);
                }
            }
        }
    }

    #[inline]
    fn attempt(&mut self, step: Step) -> Found<J> {
        let job = match step {
            Step::Own => self.world.pop(),
            Step::Queue(UNINTERRUPTED) => self.pop_uninterrupted(),
            Step::Queue(pool) => self.world.pop_queue(pool),
            Step::Steal(victim) => match self.world.steal(victim) {
                Stolen::Some(job, more) => return Found::Stolen { job, victim, more },
                Stolen::Empty => None,
                Stolen::Contended => return Found::Nothing(Outcome::Contended),
            },
            Step::Receive(owner) => match self.receive(owner) {
                0 => None,
                datagrams => return Found::Datagrams(datagrams),
            },
            Step::Look => return Found::Waiting(self.look()),
            Step::Idle { .. } => None,
        };
        job.map_or(Found::Nothing(Outcome::Empty), Found::Job)
    }

    /// Asks in which sockets something waits, and tells the search; returns how many are named.
    fn look(&mut self) -> usize {
        let noticed = if self.world.accepts() { self.world.look() } else { Noticed::default() };
        let waiting = noticed.waiting();
        self.turn.search.expect(noticed);
        waiting
    }

    /// Takes a job that waits to work uninterrupted, with a permit for it.
    fn pop_uninterrupted(&mut self) -> Option<J> {
        if self.world.queue_is_empty(UNINTERRUPTED) || !self.begin_uninterrupted() {
            return None;
        }
        let job = self.world.pop_queue(UNINTERRUPTED);
        if job.is_none() {
            self.end_uninterrupted();
        }
        job
    }

    fn on_outcome(&mut self, step: Step, outcome: Outcome, jobs: usize) {
        self.engine.boundary(Boundary::Tried { step, outcome, jobs });
    }

    /// Receives from the socket of `owner`, and puts each job where the policy wants it; returns the number of
    /// datagrams.
    fn receive(&mut self, owner: WorkerId) -> u64 {
        let Actor { turn, policy, world, engine } = self;
        if !world.accepts() {
            return 0;
        }
        let pool = turn.pool();
        let mut total = 0;
        loop {
            let Received { datagrams, more } = engine.receive(owner, &mut turn.batch);
            turn.batch.drain(..).for_each(|arrived| arrive(policy, *world, *engine, pool, arrived));
            total += datagrams;
            if !more {
                break;
            }
        }
        world.received(owner, total);
        if total > 0 && !world.any_asleep(pool) {
            let waiting = world.len();
            policy.on_arrivals(&**world, engine.now(), turn.worker(), waiting, true, |other| world.flag(other));
        }
        total as u64
    }
}

/// Puts a job that has not begun where the policy wants it, on a worker of `pool`; no room there ends it.
#[inline]
pub(super) fn arrive<J, W, E>(
    policy: &Policy,
    world: &mut W,
    engine: &mut E,
    pool: PoolId,
    Arrived { job, class }: Arrived<J>,
) where
    W: World<Job = J>,
    E: Engine<Job = J>,
{
    match policy.place(pool, Event::Arrived { class, backlog: world.len() }) {
        Place::Own => world.push(job),
        Place::Queue(target) => match world.push_queue(target, job) {
            // The worker's own pool is woken when a job begins.
            Ok(()) if target == pool => {}
            Ok(()) => world.wake_for(policy, target),
            Err(job) => engine.discard(job, Discarded::QueueFull),
        },
    }
}
