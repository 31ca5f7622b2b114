//! The course of events: requests come, workers take their turns, each when its time has come.

use super::Rest;
use super::world::VirtualWorld;
use crate::sched::turn::{Did, Engine, Turn};
use crate::sched::{Policy, WorkerId};
use crate::time::Nanos;

/// What workers in virtual time do with requests, all of them: one engine serves every worker.
pub(super) trait VirtualEngine: Engine {
    /// What comes to a socket.
    type Incoming;

    /// The worker to whose socket it comes.
    fn socket(incoming: &Self::Incoming) -> WorkerId;
    /// When it comes.
    fn time(incoming: &Self::Incoming) -> Nanos;
    /// It comes to its socket; false if that is full.
    fn arrive(&mut self, incoming: Self::Incoming) -> bool;
    /// The next calls are those of `worker`, at `now`.
    fn set(&mut self, worker: WorkerId, now: Nanos);
    /// How long takes what a step of that worker did. A job that the step ended has its fate now.
    fn charge(&mut self, did: Did) -> Nanos;
}

/// A server in virtual time.
pub(super) struct Driver<'a, E: VirtualEngine> {
    policy: &'a Policy,
    turns: Box<[Turn<E::Job>]>,
    world: VirtualWorld<E::Job>,
    engine: E,
    /// A search that finds nothing takes no time: it need not be made where nothing can be.
    skips_vain: bool,
}

impl<'a, E: VirtualEngine> Driver<'a, E> {
    /// A server at rest under `policy`, whose queues hold so many jobs.
    pub(super) fn new(policy: &'a Policy, engine: E, rest: Rest, wake: Nanos, queued: usize) -> Driver<'a, E> {
        let topology = policy.topology();
        let mut world = VirtualWorld::new(policy, rest, wake, queued);
        for worker in 0..topology.workers() {
            world.me = worker;
            world.rest(Nanos::ZERO);
        }
        let turns = (0..topology.workers()).map(|worker| Turn::new(worker, topology, 1, 0)).collect();
        let mut driver = Driver { policy, turns, world, engine, skips_vain: false };
        driver.skips_vain = driver.engine.charge(Did::Nothing { contended: false, polls: 1 }) == Nanos::ZERO;
        driver
    }

    /// Lets everything of `incoming` come, in the order of their times, until all is done.
    pub(super) fn run(mut self, mut incoming: impl Iterator<Item = E::Incoming>) -> E {
        let mut next = incoming.next();
        loop {
            let (time, worker) = self.world.agenda.first();
            match next {
                Some(came) if E::time(&came) < time => {
                    self.world.now = E::time(&came);
                    let socket = E::socket(&came);
                    if self.engine.arrive(came) {
                        self.world.arrived(socket);
                    }
                    next = incoming.next();
                }
                _ if time < Nanos::MAX => {
                    self.world.now = time;
                    self.act(worker);
                }
                _ => break,
            }
        }
        assert!(self.world.waiting() == 0, "{} requests were forgotten", self.world.waiting());
        self.engine
    }

    /// Lets `worker` act until it is idle or busy for a time.
    fn act(&mut self, worker: WorkerId) {
        let Driver { policy, turns, world, engine, skips_vain } = self;
        let turn = &mut turns[worker];
        world.me = worker;
        engine.set(worker, world.now);
        if !world.rise() {
            return;
        }
        loop {
            if *skips_vain && !turn.has_job() && world.is_vain() {
                if cfg!(debug_assertions) {
                    let did = turn.step(policy, world, engine);
                    assert!(matches!(did, Did::Nothing { .. }), "there is something after all: {did:?}");
                } else {
                    turn.skip_search();
                }
                return world.rest(Nanos::ZERO);
            }
            let did = turn.step(policy, world, engine);
            let took = engine.charge(did);
            if matches!(did, Did::Nothing { .. }) {
                return world.rest(took);
            }
            if took > Nanos::ZERO {
                return world.agenda.set(worker, world.now.plus(took));
            }
        }
    }
}
