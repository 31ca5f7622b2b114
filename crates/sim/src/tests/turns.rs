//! Does a worker give way and wake others as its turn says? Method: a test fills the world of one
//! worker by hand. A job is only the CPU time that it has taken. It runs until it asks for a hop to
//! a pool that does not exist, which acts as a checkpoint.

use crate::Rest;
use crate::world::{Fault, VirtualWorld};
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::auto::Decision;
use forebay_sched::ladder::Ladders;
use forebay_sched::turn::{
    Action, Acts, Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued, Turn,
};
use forebay_sched::{Place, Policy, PoolId, Resume, Tuning, WorkerId};

const US: fn(u64) -> Nanos = Nanos::from_micros;
/// The worker that acts.
const ME: WorkerId = 1;

fn tuning(workers: usize) -> Tuning {
    Tuning::new(workers, US(10))
}

struct Checkpoints;

impl Engine for Checkpoints {
    type Job = Nanos;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<Nanos>>) -> Received {
        Received::default()
    }

    fn run(&mut self, job: Nanos, _: Nanos) -> Ran<Nanos> {
        Ran::Paused { job, resume: Resume::In(PoolId::MAX), ran: Nanos::ZERO }
    }

    fn describe(&self, job: &Nanos) -> Description {
        Description { class: None, attained: *job }
    }

    fn discard(&mut self, _: Nanos, why: Discarded) {
        panic!("there is room, and time: {why:?}");
    }

    fn requeued(&mut self, _: &mut Nanos, _: Requeued) -> bool {
        true
    }

    fn boundary(&mut self, _: Boundary) {}

    fn now(&self) -> Nanos {
        US(1_000)
    }
}

/// The worker [`ME`] under `policy`, with its world.
struct Scene {
    policy: Policy,
    world: VirtualWorld<Nanos>,
    turn: Turn<Nanos>,
}

impl Scene {
    /// A world in which the workers `asleep` sleep, and the queue of pool 0 holds `queue` jobs.
    fn new(policy: Policy, asleep: &[WorkerId], queue: u64) -> Scene {
        let mut world = VirtualWorld::new(&policy, Rest::LOOKS, &Overheads::NONE, 64);
        (0..queue).for_each(|job| world.put(Place::Queue(0), US(job)).expect("room"));
        for worker in asleep {
            world.me = *worker;
            world.rest(Nanos::ZERO);
        }
        world.me = ME;
        let turn = Turn::new(ME, &policy.topology, 0);
        Scene { policy, world, turn }
    }

    /// Carries out the next action; returns the one after it.
    fn step(&mut self) -> &Action<Nanos> {
        self.turn.step(&self.policy, US(1_000), &mut self.world, &mut Checkpoints);
        self.turn.next()
    }

    /// Takes and begins a job.
    fn begin(&mut self) {
        assert!(matches!(self.step(), Action::Begin(..)), "there is a job");
        assert!(matches!(self.step(), Action::Settle(_)));
    }

    /// Whether the job that has run gives way.
    fn yields(&mut self) -> bool {
        matches!(self.step(), Action::Put(_, _, Requeued::Yielded))
    }
}

// Does a heavy request give way to a request of a lower level in a queue, if sockets and deques are
// empty?
#[test]
fn a_heavy_request_gives_way_to_a_queue_of_a_lower_level() {
    let leaves = |queue: Option<PoolId>| {
        let ladders = Ladders::blind([US(10), US(100)].into_iter().collect());
        let policy = Decision::of(ladders, "").make(&tuning(2)).policy;
        let mut scene = Scene::new(policy, &[], 0);
        scene.world.put(Place::Queue(3), US(200)).expect("room");
        scene.begin();
        queue.into_iter().for_each(|queue| scene.world.put(Place::Queue(queue), US(50)).expect("room"));
        scene.yields()
    };
    // Queue 0 has level 0, queues 1 and 2 have level 1, queues 3 and 4 level 2.
    let queues = [None, Some(0), Some(1), Some(2), Some(3), Some(4)];
    assert_eq!(queues.map(leaves), [false, true, true, true, false, false]);
}

// Does a heavy request give way only if a queue has room for it? The queues hold 64 jobs.
#[test]
fn a_heavy_request_without_room_keeps_its_turn() {
    let leaves = |waiting| {
        let pools = Tuning { sizes: Some(vec![1, 1]), ..Tuning::new(2, Nanos::ZERO) }.policy("pools");
        let mut scene = Scene::new(pools, &[], 0);
        (0..=waiting).for_each(|job| scene.world.put(Place::Queue(1), US(job)).expect("room"));
        scene.begin();
        scene.yields()
    };
    assert_eq!([0, 1, 31, 32, 63].map(leaves), [false, true, true, false, false]);
}

// If a thief has met another thief and found nothing, does it remember this for exactly one search?
#[test]
fn a_competitor_is_remembered_for_one_search() {
    let mut scene = Scene::new(tuning(2).policy("steal"), &[], 0);
    let contended = [None, Some(Fault::Contends), None].map(|fault| {
        scene.world.fault = fault;
        matches!(scene.step(), Action::Sleep { contended: true })
    });
    assert_eq!(contended, [false, true, false]);
}
