//! Does an overloaded worker under `shed` give away exactly the jobs beyond its limit?

use super::*;
use crate::sched::View;
use crate::world::ThreadWorld;
use std::rc::Rc;

/// A single worker is stuck in the first job of a batch of sixteen. Do the next eight stay in its
/// deque, and the others go into the queue?
#[test]
fn an_overloaded_worker_sheds_what_is_too_much() {
    for (name, queued) in [("shed", 8), ("steal", 0)] {
        with_switch(&plain(name, 1), Wait::Park, |play, shared| {
            let batch: Vec<u8> = std::iter::once(STUCK).chain(10..25).collect();
            assert_eq!(play.inputs[0].write(&batch).expect("room in the pipe"), 16);
            assert_eq!(play.next(), (0, STUCK));
            assert_eq!(shared.queue_lengths().sum::<usize>(), queued);
            assert_eq!(shared.deque_lengths().sum::<usize>(), 15 - queued);
            play.release.send(()).expect("one is stuck");
            (10..25).for_each(|job| assert_eq!(play.next(), (0, job), "nothing is lost, and alone it keeps the order"));
        });
    }
}

/// Do jobs that were given away wait until a worker is idle, and does it take them before it
/// steals?
#[test]
fn idle_workers_drain_what_was_shed_before_they_look_for_victims() {
    with_switch(&plain("shed", 2), Wait::Park, |play, shared| {
        play.send(1, STUCK);
        let (first, _) = play.next();
        let batch: Vec<u8> = std::iter::once(STUCK).chain(10..25).collect();
        let other = 1 - first;
        assert_eq!(play.inputs[other].write(&batch).expect("room in the pipe"), 16);
        let (second, _) = play.next();
        assert_eq!(second, other);
        let lengths: Vec<usize> = shared.deque_lengths().collect();
        assert_eq!((lengths[first], lengths[second]), (0, 7), "nobody was given any into his own deque");
        play.release.send(()).expect("two are stuck");
        // The released worker empties the queue of eight and the deque of seven, in either order;
        // the deque may be its own.
        let free = play.next();
        let order: Vec<u8> = std::iter::once(free.1).chain((1..15).map(|_| play.next().1)).collect();
        let (own, queued): (Vec<u8>, Vec<u8>) = ((10..17).collect(), (17..25).collect());
        let expected = if free.0 == second { [own, queued].concat() } else { [queued, own].concat() };
        assert_eq!(order, expected, "worker {} came free, {second} was overloaded", free.0);
        play.release.send(()).expect("one is stuck");
    });
}

// Does a worker see how many jobs wait in its own deque, in the deques of others, and in the
// queues?
#[test]
fn a_worker_sees_what_waits() {
    let pipes = [(); 3].map(|()| mio::unix::pipe::new().expect("a pipe"));
    let ingress = pipes.each_ref().map(|(_, ingress)| ingress.as_fd());
    let (shared, mut workers) = Shared::new(pools(&[2, 1]), Wait::Park, &ingress, 8).expect("readiness queues");
    (0..3).for_each(|job| workers[1].deque.push(job));
    workers[2].deque.push(3);
    let world = ThreadWorld::new(2, &shared, Rc::new(workers.pop().expect("three").deque));
    assert_eq!([0, 1, 2].map(|worker| world.backlog(worker)), [0, 3, 1]);
    [(0, None), (1, Some(2)), (1, None)].into_iter().for_each(|(queue, by)| shared.queue(queue, by, 4).expect("room"));
    assert_eq!((world.queue_len(0), world.queue_len(1), world.queued(), world.places()), (1, 2, 3, 8));
    while shared.leftover().is_some() {}
}
