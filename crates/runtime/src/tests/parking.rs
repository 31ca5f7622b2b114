//! Do parked workers stay idle, and delay no job?

use super::*;
use crate::sched::policy::Local;
use crate::sched::turn::Acts;
use crate::world::ThreadWorld;
use std::rc::Rc;

fn await_parked(shared: &Shared<(u8, bool)>, expected: usize) {
    let until = clock::now().plus(DEADLINE.into());
    while shared.parked.load(Ordering::Relaxed) != expected {
        assert!(clock::now() < until, "{expected} workers park");
        thread::yield_now();
    }
}

// While the allowed number of workers changes, do as many work, and the first of each pool? Under
// `isolated` none parks, because no other worker would receive from its ingress.
#[test]
fn parked_workers_hold_up_nothing() {
    for policy in policies() {
        for wait in [Wait::Park, Wait::Adaptive] {
            with_switch(&policy, wait, |play, shared| {
                for round in 0..600 {
                    if round % 7 == 0 {
                        shared.employ([3, 1, 2][round / 7 % 3]);
                    }
                    play.send(round % 3, 10);
                    play.next();
                }
                let (parked, working) = match policy.topology.pools() {
                    _ if !policy.has_watchers() => (0, vec![0, 1, 2]),
                    1 => (2, vec![0]),
                    _ => (1, vec![0, 2]),
                };
                shared.employ(1);
                await_parked(shared, parked);
                for round in 0..30 {
                    play.send(round % 3, 10);
                    let (worker, _) = play.next();
                    assert!(working.contains(&worker), "{policy:?}: worker {worker}");
                }
                shared.employ(3);
                await_parked(shared, 0);
            });
        }
    }
}

// Does a worker that parks leave the jobs of its deque to others, even if these do not steal?
// Method: the policy changes while both workers are held, one with jobs in its deque.
#[test]
fn a_worker_that_parks_leaves_its_deque() {
    with_switch(&plain("steal", 2), Wait::Park, |play, shared| {
        play.send(0, STUCK);
        assert_eq!(play.next(), (0, STUCK));
        assert_eq!(play.inputs[1].write(&[STUCK, 10, 10, 10]).expect("room in the pipe"), 4);
        assert_eq!(play.next(), (1, STUCK));
        shared.switch(plain("global", 2));
        shared.employ(1);
        (0..2).for_each(|_| play.release.send(()).expect("two are stuck"));
        assert_eq!([(); 3].map(|()| play.next()), [(0, 10); 3]);
    });
}

// Does each group park its share of workers? Does a parked worker count as asleep for the watchdog?
#[test]
fn each_group_parks_its_share() {
    let pipes = [(); 6].map(|()| mio::unix::pipe::new().expect("a pipe"));
    let ingress = pipes.each_ref().map(|(_, ingress)| ingress.as_fd());
    let (groups, _workers) =
        Groups::<u8>::new(&plain("levels", 2), &[2; 3], Wait::Park, &ingress, 8).expect("readiness queues");
    let working = |employed| {
        groups.employ(employed);
        let of = |shared: &Shared<u8>| (0..2).filter(|worker| !shared.parks(&shared.policy(), *worker)).count();
        groups.each().map(of).collect::<Vec<_>>()
    };
    assert_eq!([6, 5, 4, 3, 1].map(working), [[2, 2, 2], [1, 2, 2], [1, 1, 2], [1, 1, 1], [1, 1, 1]]);
    assert!(!groups.is_asleep(3));
    groups.of(1).busy_since[1].store(PARKED, Ordering::Relaxed);
    assert!(groups.is_asleep(3) && groups.is_parked(3) && !groups.is_parked(2));
}

// Of the workers that are not parked, does one always reach a checkpoint soon?
#[test]
fn a_permit_is_not_for_a_parked_worker() {
    let pipes = [(); 3].map(|()| mio::unix::pipe::new().expect("a pipe"));
    let ingress = pipes.each_ref().map(|(_, ingress)| ingress.as_fd());
    let permits = |parked| {
        let (shared, _workers) =
            Shared::<u8>::new(plain("global", 3), Wait::Park, &ingress, 8).expect("readiness queues");
        shared.parked.store(parked, Ordering::Relaxed);
        let mut world = ThreadWorld::new(0, &shared, Rc::new(Deque::new_fifo()));
        (0..4).filter(|_| world.take_permit(2)).count()
    };
    assert_eq!([0, 1, 2].map(permits), [2, 1, 1]);
}

// Is a working worker asked to yield, instead of a parked one before it?
#[test]
fn a_parked_worker_is_not_asked_to_step_aside() {
    let pipes = [(); 3].map(|()| mio::unix::pipe::new().expect("a pipe"));
    let ingress = pipes.each_ref().map(|(_, ingress)| ingress.as_fd());
    let policy = plain("levels", 3);
    let (shared, _workers) = Shared::<u8>::new(policy.clone(), Wait::Park, &ingress, 8).expect("readiness queues");
    let world = ThreadWorld::new(0, &shared, Rc::new(Deque::new_fifo()));
    let asked = |since| {
        shared.busy_since[1].store(since, Ordering::Relaxed);
        shared.busy_since[2].store(2, Ordering::Relaxed);
        let mut asked = Vec::new();
        let local = Local::new(0, &policy.topology);
        policy.on_arrivals(&world, Nanos::from_secs(1), &local, 1, |worker| asked.push(worker));
        asked
    };
    assert_eq!([1, PARKED].map(asked), [[1], [2]]);
}
