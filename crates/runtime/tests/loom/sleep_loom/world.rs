//! A small server: workers that search as their policy says and sleep by the protocol, queues, a
//! stop, a switch.

pub(crate) use super::flaw::Flaw;
use super::idle::{Idle, Readiness};
use super::kernel::{Fault, Forgotten, Kernel};
use super::sleeper::{Rests, Sleeper, WakeCauses, sleep};
use crate::sched::{Local, Policy, PoolId, Step, View, WorkerId};
use crate::time::Nanos;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The queues that the scenarios use. All others are empty.
const QUEUES_USED: usize = 4;

/// The queue of heavy jobs. They run until all others have begun, and yield to them.
pub(crate) const HEAVY: PoolId = 2;

/// The queue of heavy jobs that end before their first checkpoint.
pub(crate) const OVER_SOON: PoolId = 3;

pub(crate) struct World {
    pub(crate) idle: Idle<Kernel>,
    /// Waiting jobs in each queue. Relaxed, because the protocol itself must carry the news.
    queues: [AtomicUsize; QUEUES_USED],
    /// The same for the deque of each worker.
    deques: Vec<AtomicUsize>,
    policies: Vec<Policy>,
    /// The index of the present policy.
    epoch: AtomicUsize,
    stopping: AtomicBool,
    /// The number of jobs. None ends before all have begun, unless there are fewer workers.
    jobs: usize,
    flaw: Flaw,
}

impl World {
    /// Workers under the first of `policies`; there are `threads` threads in all. They stop once
    /// `jobs` jobs have begun.
    pub(crate) fn new(policies: &[Policy], threads: usize, jobs: usize, flaw: Flaw) -> Arc<World> {
        let fault = if let Flaw::Kernel(fault) = flaw { fault } else { Fault::None };
        let policy = &policies[0];
        Arc::new(World {
            idle: Idle::new(policy, policy.queues(), Kernel::new(policy.topology.workers, threads, fault)),
            queues: std::array::from_fn(|_| AtomicUsize::new(0)),
            deques: (0..policy.topology.workers).map(|_| AtomicUsize::new(0)).collect(),
            policies: policies.to_vec(),
            epoch: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            jobs,
            flaw,
        })
    }

    /// Lets a thread that is no worker call `does` once.
    pub(crate) fn lets(&self, does: fn(&World)) {
        does(self);
        self.idle.readiness.leave();
    }

    /// Puts a job into the queue of `pool`, like a worker that follows the policy with this number.
    pub(crate) fn put(&self, number: usize, pool: PoolId) {
        let push = || self.queues[pool].fetch_add(1, Ordering::Relaxed);
        if self.flaw == Flaw::WakesFirst {
            self.idle.wake_for(&self.policies[number], pool);
            push();
        } else {
            push();
            self.idle.wake_for(&self.policies[number], pool);
        }
    }

    /// Puts this many jobs at once, like a received batch, and wakes once.
    pub(crate) fn put_together(&self, jobs: usize) {
        self.queues[0].fetch_add(jobs, Ordering::Relaxed);
        self.idle.wake_for(&self.policies[0], 0);
    }

    /// Puts a job into the last queue of the present policy, which may change meanwhile.
    pub(crate) fn put_last(&self) {
        let number = self.epoch();
        self.put(number, self.policies[number].topology.pools() - 1);
    }

    pub(crate) fn arrive(&self, worker: WorkerId, datagrams: usize) {
        assert!(self.idle.readiness.arrive(worker, datagrams) <= 1, "one worker wakes for one arrival");
    }

    /// The index of the present policy.
    pub(crate) fn epoch(&self) -> usize {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn switch(&self, number: usize) {
        let old = self.epoch();
        let publish = || self.epoch.store(number, Ordering::Release);
        let pools = |number: usize| self.policies[number].topology.pools();
        match self.flaw {
            Flaw::WakesBeforeSwitch => {
                self.idle.switch(pools(number), || ());
                publish();
            }
            Flaw::KeepsPools => self.idle.switch(pools(old), publish),
            _ => self.idle.switch(pools(number), publish),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn pop(&self, pool: PoolId) -> bool {
        self.queues.get(pool).is_some_and(World::take)
    }

    fn take(queue: &AtomicUsize) -> bool {
        let mut length = queue.load(Ordering::Relaxed);
        while length > 0 {
            match queue.compare_exchange(length, length - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => length = now,
            }
        }
        false
    }
}

/// No policy here uses these values.
impl View for World {
    fn busy_since(&self, _: WorkerId) -> Option<Nanos> {
        None
    }

    fn backlog(&self, _: WorkerId) -> usize {
        0
    }

    fn queue_len(&self, pool: PoolId) -> usize {
        self.queues.get(pool).map_or(0, |queue| queue.load(Ordering::Relaxed))
    }

    fn queued(&self) -> usize {
        0
    }

    fn asleep(&self, _: PoolId) -> usize {
        0
    }

    fn places(&self) -> usize {
        usize::MAX
    }
}

/// A job that a search found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Light,
    Heavy,
    OverSoon,
}

pub(crate) struct Worker {
    world: Arc<World>,
    sleeper: Sleeper,
    local: Local,
    /// The index of the policy that it follows.
    epoch: usize,
    /// The worker from which it stole the job that it is about to begin.
    robbed: Option<WorkerId>,
    /// Whether it has asked for a notice.
    has_asked: bool,
    forgotten: bool,
}

impl Worker {
    pub(crate) fn new(world: &Arc<World>, id: WorkerId) -> Worker {
        let policy = &world.policies[0];
        let mut sleeper = Sleeper::new(id);
        sleeper.follow(&world.idle, policy);
        Worker {
            world: Arc::clone(world),
            sleeper,
            local: Local::new(id, &policy.topology),
            epoch: 0,
            robbed: None,
            has_asked: false,
            forgotten: false,
        }
    }

    pub(crate) fn run(mut self) {
        let world = Arc::clone(&self.world);
        self.work(&world);
        world.idle.readiness.leave();
    }

    /// The loop of `worker.rs`.
    fn work(&mut self, world: &World) {
        while !self.forgotten {
            self.follow();
            let mut stopping = world.is_stopping();
            let mut found = self.search(true);
            if world.flaw == Flaw::AsksLate {
                stopping = world.is_stopping();
            }
            if found.is_none() {
                if stopping {
                    return;
                }
                found = self.sleep(world);
            }
            if let Some(job) = found {
                self.execute(world, job);
            }
        }
    }

    fn follow(&mut self) {
        let epoch = self.world.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            let policy = &self.world.policies[epoch];
            self.local.set_topology(&policy.topology);
            if self.world.flaw == Flaw::FollowsInSilence {
                self.world.idle.follow(self.local.worker, policy);
            } else {
                self.sleeper.follow(&self.world.idle, policy);
            }
        }
    }

    /// The policy's own search, down to the last queue; also in sockets if `sockets`.
    fn search(&mut self, sockets: bool) -> Option<Job> {
        let world = Arc::clone(&self.world);
        let policy = &world.policies[self.epoch];
        let mut walk = policy.search(&mut self.local, Nanos::ZERO, &*world);
        while let Some(step) = walk.next(&mut self.local, Nanos::ZERO, &*world) {
            let found = match step {
                Step::Own => World::take(&world.deques[self.local.worker]),
                Step::Steal(victim) => self.rob(victim),
                Step::Queue(pool) => world.pop(pool),
                Step::Receive(_) | Step::ReceiveNext if !sockets => false,
                Step::Receive(owner) => self.receive(owner),
                // A look finds nothing if another worker looks at the same time. So no wake-up may
                // depend on its result.
                Step::Look => false,
                Step::ReceiveNext => self.receive(0),
            };
            if found {
                return Some(match step {
                    Step::Queue(HEAVY) => Job::Heavy,
                    Step::Queue(OVER_SOON) => Job::OverSoon,
                    _ => Job::Light,
                });
            }
        }
        None
    }

    /// Takes one of the jobs of `victim`.
    fn rob(&mut self, victim: WorkerId) -> bool {
        let found = World::take(&self.world.deques[victim]);
        if found {
            self.sleeper.has_unannounced();
            self.robbed = Some(victim).filter(|_| self.world.flaw != Flaw::ForgetsRest);
        }
        found
    }

    /// Takes the first received datagram. The others wait in its deque.
    fn receive(&mut self, owner: WorkerId) -> bool {
        let received = self.world.idle.readiness.receive(owner);
        let own = self.local.worker;
        (owner == own).then(|| self.sleeper.has_emptied_own());
        if received > 1 {
            self.world.deques[own].fetch_add(received - 1, Ordering::Relaxed);
            self.sleeper.has_unannounced();
        }
        received > 0
    }

    fn sleep(&mut self, world: &World) -> Option<Job> {
        let id = self.local.worker;
        let found = match world.flaw {
            Flaw::LooksFirst => {
                let found = self.last_look();
                world.idle.announce(id, false);
                found
            }
            Flaw::SleepsBesideIngress if world.idle.readiness.begun() > 0 => {
                world.idle.announce(id, false);
                self.last_look()
            }
            _ => return sleep(&world.idle, self),
        };
        if found.is_none() {
            self.park(false);
        }
        world.idle.withdraw(id);
        found
    }

    fn execute(&mut self, world: &World, job: Job) {
        let (policy, id) = (&world.policies[self.epoch], self.local.worker);
        let deques = [Some(id), self.robbed.take()].into_iter().flatten().map(|worker| &world.deques[worker]);
        let more = world.queues.iter().chain(deques).any(|queue| queue.load(Ordering::Relaxed) > 0);
        let hides = matches!(world.flaw, Flaw::KeepsRole | Flaw::HidesIngress);
        (!hides).then(|| self.sleeper.report_own(&world.idle));
        match world.flaw {
            Flaw::WakesNoNext => self.sleeper.begin_work(&world.idle, policy, false),
            Flaw::KeepsRole => [false, true].into_iter().for_each(|watched| world.idle.readiness.watch(id, watched)),
            Flaw::HidesIngress => world.idle.hand_on(id),
            _ => self.sleeper.begin_work(&world.idle, policy, more),
        }
        match job {
            Job::Light => self.meet(world),
            Job::Heavy => self.work_heavily(world),
            // Its poll is still in the ring when the job ends.
            Job::OverSoon => drop(world.idle.readiness.ask(id)),
        }
    }

    /// A slice of heavy work, as in `notice/mod.rs`: asks for a notice, and then may yield.
    fn work_heavily(&mut self, world: &World) {
        let (id, kernel) = (self.local.worker, &world.idle.readiness);
        let asks = world.flaw != Flaw::AsksOnce || !std::mem::replace(&mut self.has_asked, true);
        let over = if asks && kernel.ask(id) { Ok(false) } else { kernel.work(id, world.jobs) };
        match over {
            Ok(true) => {}
            Ok(false) => world.put(self.epoch, HEAVY),
            Err(Forgotten) => self.forgotten = true,
        }
    }

    fn meet(&mut self, world: &World) {
        let met = if world.jobs <= world.deques.len() {
            world.idle.readiness.meet(world.jobs)
        } else {
            Ok(world.idle.readiness.begin(world.jobs))
        };
        match met {
            Ok(true) => world.stop(),
            Ok(false) => {}
            Err(Forgotten) => self.forgotten = true,
        }
    }
}

impl Rests for Worker {
    type Found = Job;

    fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }

    fn last_look(&mut self) -> Option<Job> {
        self.search(false)
    }

    fn park(&mut self, backs_off: bool) -> WakeCauses {
        assert!(!backs_off, "no policy of these scenarios has a thief threshold");
        let waited = self.world.idle.readiness.wait(self.local.worker);
        self.forgotten = waited.is_err();
        waited.unwrap_or_default()
    }
}
