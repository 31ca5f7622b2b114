//! Can a job or a datagram be forgotten by workers that sleep, in any interleaving? The files of the protocol itself
//! (`src/runtime/sleep/README.md`), compiled against loom's atomics and a model of the kernel, searching as real policies say.
//! Each scenario has twins, broken in one thing each, that loom must catch, or this test could not fail.
//!
//! Something forgotten shows when every thread waits: the jobs of a scenario end together, when all of them have begun.

/// What the protocol's files take their atomics and locks from.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    use std::cell::Cell;
    pub(crate) use std::sync::PoisonError;

    thread_local! {
        /// False in the twin that lacks them. All threads of a model run on one.
        pub(crate) static FENCES: Cell<bool> = const { Cell::new(true) };
    }

    pub(crate) fn fence(order: Ordering) {
        if FENCES.get() {
            loom::sync::atomic::fence(order);
        }
    }
}

/// None, so that the workers of the model are busy from their first job on.
const BUSY_JOBS: u32 = 0;

#[expect(dead_code, reason = "whether a worker sleeps is a question of the watchdog, which is no part of this model")]
#[path = "../../src/runtime/sleep/idle.rs"]
mod idle;
mod kernel;
#[path = "../../src/runtime/sleep/sleeper.rs"]
mod sleeper;
mod world;

use crate::sched::{Global, Hybrid, Isolated, Kind, OnDemand, Policy, Pools, Tasks, Topology};
use crate::time::Nanos;
use kernel::Fault;
use loom::sync::Arc;
use loom::thread;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Flaw, HEAVY, OVER_SOON, Worker, World};

/// What the model says when every thread waits.
const FORGOTTEN: &str = "forgotten";

/// Tries the interleavings of `scenario` with at most so many preemptions.
fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

/// Loom must find what is wrong with `broken`, and it must be what `message` says.
fn assert_caught(message: &str, broken: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(broken)).expect_err("loom sees the flaw");
    let said = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    assert!(said.as_ref().is_some_and(|said| said.contains(message)), "another flaw than meant: {said:?}");
}

/// Lets `workers` serve what `others` do, each on a thread of its own, the last one on this.
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
    Policy::new(Kind::Tasks(Tasks { slice: Nanos::MAX }), &Topology::new(&[workers]))
}

fn hybrid(workers: usize) -> Policy {
    let (budget, slice) = (Nanos::from_micros(5), Nanos::from_micros(2));
    let hybrid = Hybrid { budget, reserved: 1, short_slice: slice, long_slice: slice };
    Policy::new(Kind::Hybrid(hybrid), &Topology::new(&[workers]))
}

fn global() -> Policy {
    Policy::new(Kind::Global(Global { look_after: Nanos::ZERO }), &Topology::new(&[2]))
}

fn pools() -> Policy {
    Policy::new(Kind::Pools(Pools { slice: Nanos::from_micros(5) }), &Topology::new(&[1, 1]))
}

/// One job for one worker that may be about to sleep.
fn one_job(flaw: Flaw) {
    check(4, move || play(&World::new(&[tasks(1)], 2, 1, flaw), 0..1, &[|world| world.put(0, 0)]));
}

#[test]
fn a_job_is_not_forgotten() {
    one_job(Flaw::None);
}

#[test]
fn a_look_before_the_announcement_is_caught() {
    assert_caught(FORGOTTEN, || one_job(Flaw::LooksFirst));
}

#[test]
fn a_wake_before_the_job_is_caught() {
    assert_caught(FORGOTTEN, || one_job(Flaw::WakesFirst));
}

#[test]
fn the_lack_of_fences_is_caught() {
    sync::FENCES.set(false);
    assert_caught(FORGOTTEN, || one_job(Flaw::None));
    sync::FENCES.set(true);
}

/// Two jobs that wait for one another, put together and announced by one wake.
fn two_jobs(flaw: Flaw) {
    check(3, move || play(&World::new(&[tasks(2)], 3, 2, flaw), 0..2, &[|world| world.put_together(2)]));
}

#[test]
fn who_begins_a_job_wakes_somebody_for_the_next() {
    two_jobs(Flaw::None);
}

#[test]
fn a_chain_that_breaks_is_caught() {
    assert_caught(FORGOTTEN, || two_jobs(Flaw::WakesNoNext));
}

/// Two datagrams come to the ingress of one worker, which is stuck in the first, or to two that may be.
fn two_arrivals(arrive: fn(&World), flaw: Flaw) {
    check(3, move || play(&World::new(&[hybrid(2)], 3, 2, flaw), 0..2, &[arrive]));
}

fn at_one(world: &World) {
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

#[test]
fn a_watcher_that_keeps_its_role_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::KeepsRole));
}

#[test]
fn an_ingress_that_nobody_sees_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::HidesIngress));
}

#[test]
fn a_kernel_that_is_silent_on_what_was_ready_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::Kernel(Fault::ReportsNoAdded)));
}

/// Three datagrams behind one worker: each worker gets stuck in one. However many a receive or a theft takes, the rest is
/// for somebody else, and the role goes round until nobody is left.
fn three_arrivals(arrive: fn(&World), flaw: Flaw) {
    check(1, move || play(&World::new(&[hybrid(3)], 4, 3, flaw), 0..3, &[arrive]));
}

#[test]
fn what_stuck_workers_have_received_is_not_forgotten() {
    three_arrivals(|world| (0..3).for_each(|_| world.arrive(1, 1)), Flaw::None);
    three_arrivals(|world| world.arrive(1, 3), Flaw::None);
}

#[test]
fn a_thief_that_forgets_the_rest_is_caught() {
    assert_caught(FORGOTTEN, || three_arrivals(|world| world.arrive(1, 3), Flaw::ForgetsRest));
}

/// A job is put as either policy says, while `workers` follow the switch or not yet.
fn switched(from: fn() -> Policy, to: fn() -> Policy, workers: Range<usize>, preemptions: usize, flaw: Flaw) {
    check(preemptions, move || {
        let world = World::new(&[from(), to()], workers.len() + 2, 1, flaw);
        play(&world, workers.clone(), &[World::put_last, |world| world.switch(1)]);
    });
}

#[test]
fn a_switch_forgets_no_job() {
    switched(pools, || hybrid(2), 1..2, 2, Flaw::None);
    switched(global, pools, 0..2, 2, Flaw::None);
}

#[test]
fn a_worker_that_a_switch_takes_from_a_job_in_silence_is_caught() {
    assert_caught(FORGOTTEN, || switched(global, pools, 0..2, 2, Flaw::FollowsInSilence));
}

#[test]
fn a_switch_that_wakes_too_early_is_caught() {
    assert_caught(FORGOTTEN, || switched(pools, || hybrid(2), 1..2, 2, Flaw::WakesBeforeSwitch));
}

#[test]
fn a_switch_that_keeps_the_old_pools_is_caught() {
    assert_caught(FORGOTTEN, || switched(pools, || hybrid(2), 1..2, 2, Flaw::KeepsPools));
}

/// A datagram comes when a switch gives its receiver its own ingress back.
fn arrival_at_a_switch(flaw: Flaw) {
    let switch_and_arrive = |world: &World| {
        world.switch(1);
        world.arrive(1, 1);
    };
    check(2, move || play(&World::new(&[pools(), hybrid(2)], 3, 1, flaw), 0..2, &[switch_and_arrive]));
}

#[test]
fn a_switch_forgets_no_datagram() {
    arrival_at_a_switch(Flaw::None);
}

#[test]
fn two_wakes_for_one_datagram_are_caught() {
    assert_caught("one worker wakes", || arrival_at_a_switch(Flaw::Kernel(Fault::KeepsWatching)));
}

/// Datagrams come one after the other to a worker that works, and so takes its ingress out of its `Poll`, and sleeps again.
fn arrivals_at_one(flaw: Flaw) {
    let policy = || Policy::new(Kind::Isolated(Isolated), &Topology::new(&[1]));
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

#[test]
fn a_worker_that_sleeps_beside_its_ingress_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_at_one(Flaw::SleepsBesideIngress));
}

/// A job is put, then all are told to stop: it was put before, and so it is done.
fn stopped(flaw: Flaw) {
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

#[test]
fn a_worker_that_asks_too_late_is_caught() {
    assert_caught("a job is left", || stopped(Flaw::AsksLate));
}

fn ondemand(workers: usize) -> Policy {
    let ondemand = OnDemand { budget: Nanos::from_micros(5), look_after: Nanos::from_micros(2) };
    Policy::new(Kind::OnDemand(ondemand), &Topology::new(&[workers]))
}

/// Datagrams come one after the other while the only worker is in a heavy job, is about to be, or steps aside.
fn arrivals_in_heavy_work(flaw: Flaw) {
    let come = |world: &World| {
        world.put(0, HEAVY);
        world.arrive(0, 1);
        world.arrive(0, 1);
    };
    check(3, move || play(&World::new(&[ondemand(1)], 2, 2, flaw), 0..1, &[come]));
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
    check(2, move || play(&World::new(&[ondemand(2)], 3, 3, Flaw::None), 0..2, &[come]));
}

#[test]
fn a_notice_of_later_arrivals_only_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_in_heavy_work(Flaw::Kernel(Fault::NoticesNoPresent)));
}

#[test]
fn a_notice_that_is_not_asked_for_again_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_in_heavy_work(Flaw::AsksOnce));
}

/// One worker sleeps while its poll still stands in the ring, and takes the turn of the other one, which is at work.
fn a_swallowed_turn(flaw: Flaw) {
    let come = |world: &World| {
        world.put(0, OVER_SOON);
        world.put(0, HEAVY);
        world.arrive(1, 1);
    };
    check(2, move || play(&World::new(&[ondemand(2)], 3, 1, flaw), 0..2, &[come]));
}

#[test]
fn a_turn_that_a_sleeper_swallows_wakes_it() {
    a_swallowed_turn(Flaw::None);
}

#[test]
fn a_notice_in_place_of_a_wake_is_caught() {
    assert_caught(FORGOTTEN, || a_swallowed_turn(Flaw::Kernel(Fault::NoticesInsteadOfWaking)));
}
