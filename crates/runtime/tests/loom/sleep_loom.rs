//! Can sleeping workers forget a job or a datagram, in any interleaving? The files of the sleep
//! protocol (`src/sleep/README.md`) are compiled against loom's atomics and a model of the
//! kernel. Workers search as real policies say. Each scenario has twins with one fault each. loom
//! must catch every twin (`twins.rs`), which shows that this test can fail.
//!
//! If something is forgotten, every thread waits for ever: the jobs of a scenario end together,
//! after all of them have begun.

/// The atomics and locks for the protocol's files.
pub(crate) mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    use std::cell::Cell;
    pub(crate) use std::sync::PoisonError;

    thread_local! {
        /// False in the twin without fences. All threads of a model run on one system thread.
        pub(crate) static FENCES: Cell<bool> = const { Cell::new(true) };
    }

    pub(crate) fn fence(order: Ordering) {
        if FENCES.get() {
            loom::sync::atomic::fence(order);
        }
    }
}

/// Zero, so the workers of the model count as busy from their first job on.
const BUSY_JOBS: u32 = 0;

mod flaw;
#[expect(dead_code, reason = "whether a worker sleeps is a question of the watchdog, which is no part of this model")]
#[path = "../../src/sleep/idle.rs"]
mod idle;
pub(crate) mod kernel;
#[path = "../../src/sleep/sleeper.rs"]
mod sleeper;
pub(crate) mod world;

use crate::sched::policy::rows;
use crate::sched::{Policy, Topology, Tuning};
use crate::time::Nanos;
use loom::sync::Arc;
use loom::thread;
use std::ops::Range;
use world::{Flaw, HEAVY, OVER_SOON, Worker, World};

/// Tries the interleavings of `scenario` with at most this many preemptions.
fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

/// Runs `workers` and `others`, each on a thread of its own; the last one runs on this thread.
fn play(world: &Arc<World>, workers: Range<usize>, others: &[fn(&World)]) {
    let (last, others) = others.split_last().expect("somebody does something");
    let workers = workers.map(|id| {
        let world = Arc::clone(world);
        thread::spawn(move || Worker::new(&world, id).run())
    });
    let others = others.iter().map(|does| {
        let (world, does) = (Arc::clone(world), *does);
        thread::spawn(move || world.lets(does))
    });
    let threads: Vec<_> = workers.chain(others).collect();
    world.lets(*last);
    threads.into_iter().for_each(|thread| thread.join().expect("no thread of the model fails"));
    world.idle.readiness.assert_nothing_forgotten();
}

fn tasks(workers: usize) -> Policy {
    rows::tasks(&Topology::new(&[workers]), Nanos::MAX)
}

pub(crate) fn levels(workers: usize) -> Policy {
    tuning(workers).policy("levels")
}

pub(crate) fn global() -> Policy {
    Policy { look_after: Nanos::ZERO, ..tuning(2).policy("global") }
}

pub(crate) fn pools() -> Policy {
    Tuning { sizes: Some(vec![1, 1]), ..tuning(2) }.policy("pools")
}

fn tuning(workers: usize) -> Tuning {
    Tuning::new(workers, Nanos::from_micros(5))
}

/// One job for one worker that may be falling asleep.
pub(crate) fn one_job(flaw: Flaw) {
    check(4, move || play(&World::new(&[tasks(1)], 2, 1, flaw), 0..1, &[|world| world.put(0, 0)]));
}

#[test]
fn a_job_is_not_forgotten() {
    one_job(Flaw::None);
}

/// Two jobs that wait for one another. They are put into a queue together and announced by one
/// wake.
pub(crate) fn two_jobs(flaw: Flaw) {
    check(3, move || play(&World::new(&[tasks(2)], 3, 2, flaw), 0..2, &[|world| world.put_together(2)]));
}

#[test]
fn who_begins_a_job_wakes_somebody_for_the_next() {
    two_jobs(Flaw::None);
}

/// Two datagrams come to the ingress of one worker, which is stuck in the first one, or to two
/// workers that may be stuck.
pub(crate) fn two_arrivals(arrive: fn(&World), flaw: Flaw) {
    check(3, move || play(&World::new(&[levels(2)], 3, 2, flaw), 0..2, &[arrive]));
}

pub(crate) fn at_one(world: &World) {
    world.arrive(1, 1);
    world.arrive(1, 1);
}

fn at_both(world: &World) {
    world.arrive(0, 1);
    world.arrive(1, 1);
}

#[test]
fn a_datagram_behind_a_stuck_worker_is_not_forgotten() {
    two_arrivals(at_one, Flaw::None);
    two_arrivals(at_both, Flaw::None);
}

/// Three datagrams behind one worker; each worker gets stuck in one of them. However many one
/// receive or theft takes, the others are for other workers. The role of the watcher goes round
/// until no worker is left.
pub(crate) fn three_arrivals(arrive: fn(&World), flaw: Flaw) {
    check(1, move || play(&World::new(&[levels(3)], 4, 3, flaw), 0..3, &[arrive]));
}

#[test]
fn what_stuck_workers_have_received_is_not_forgotten() {
    three_arrivals(|world| (0..3).for_each(|_| world.arrive(1, 1)), Flaw::None);
    three_arrivals(|world| world.arrive(1, 3), Flaw::None);
}

/// A job goes to the queue of either policy, while some `workers` follow the switch and others do
/// not yet.
pub(crate) fn switched(
    from: fn() -> Policy,
    to: fn() -> Policy,
    workers: Range<usize>,
    preemptions: usize,
    flaw: Flaw,
) {
    check(preemptions, move || {
        let world = World::new(&[from(), to()], workers.len() + 2, 1, flaw);
        play(&world, workers.clone(), &[World::put_last, |world| world.switch(1)]);
    });
}

/// A datagram arrives while a switch gives its receiver its own ingress back.
pub(crate) fn arrival_at_a_switch(flaw: Flaw) {
    let switch_and_arrive = |world: &World| {
        world.switch(1);
        world.arrive(1, 1);
    };
    check(2, move || play(&World::new(&[pools(), levels(2)], 3, 1, flaw), 0..2, &[switch_and_arrive]));
}

#[test]
fn a_switch_forgets_no_datagram() {
    arrival_at_a_switch(Flaw::None);
}

/// Datagrams arrive one after the other at a worker that works, removes its ingress from its
/// `Poll`, and sleeps again.
pub(crate) fn arrivals_at_one(flaw: Flaw) {
    let policy = || tuning(1).policy("isolated");
    check(4, move || play(&World::new(&[policy()], 2, 2, flaw), 0..1, &[at_the_only]));
}

fn at_the_only(world: &World) {
    world.arrive(0, 1);
    world.arrive(0, 1);
}

#[test]
fn a_datagram_at_a_worker_that_was_busy_is_not_forgotten() {
    arrivals_at_one(Flaw::None);
}

/// A job comes, then all workers must stop. The job came first, so it must be done.
pub(crate) fn stopped(flaw: Flaw) {
    check(4, move || {
        let world = World::new(&[tasks(1)], 2, 1, flaw);
        let put_and_stop = |world: &World| {
            world.put(0, 0);
            world.stop();
        };
        play(&world, 0..1, &[put_and_stop]);
        assert_eq!(world.idle.readiness.begun(), 1, "a job is left");
    });
}

#[test]
fn what_is_put_before_a_stop_is_done() {
    stopped(Flaw::None);
}

/// Datagrams arrive one after the other while the only worker runs a heavy job, is about to, or
/// yields.
pub(crate) fn arrivals_in_heavy_work(flaw: Flaw) {
    let come = |world: &World| {
        world.put(0, HEAVY);
        world.arrive(0, 1);
        world.arrive(0, 1);
    };
    check(3, move || play(&World::new(&[levels(1)], 2, 2, flaw), 0..1, &[come]));
}

#[test]
fn a_heavy_job_steps_aside_for_each_datagram() {
    arrivals_in_heavy_work(Flaw::None);
}

#[test]
fn two_heavy_jobs_step_aside_for_what_comes_to_one() {
    let come = |world: &World| {
        (0..2).for_each(|_| world.put(0, HEAVY));
        (0..3).for_each(|_| world.arrive(1, 1));
    };
    check(2, move || play(&World::new(&[levels(2)], 3, 3, Flaw::None), 0..2, &[come]));
}

/// One worker sleeps while its poll is still in the ring. It takes the turn of the other worker,
/// which is busy.
pub(crate) fn a_swallowed_turn(flaw: Flaw) {
    let come = |world: &World| {
        world.put(0, OVER_SOON);
        world.put(0, HEAVY);
        world.arrive(1, 1);
    };
    check(2, move || play(&World::new(&[levels(2)], 3, 1, flaw), 0..2, &[come]));
}

#[test]
fn a_turn_that_a_sleeper_swallows_wakes_it() {
    a_swallowed_turn(Flaw::None);
}
