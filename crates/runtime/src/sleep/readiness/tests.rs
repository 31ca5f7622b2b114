//! Whom does the kernel tell of an arrival?

use super::*;
use crate::tests::await_sleep;
use mio::unix::pipe;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicI32;
use std::thread;

// Does each look report every watched ingress that holds datagrams, until a worker receives
// from it? Does a look for one socket report the next in turn, so that two workers go to
// different sockets?
#[test]
fn what_waits_is_named_until_it_has_been_received() {
    let [mut first, mut second, mut third] = [(); 3].map(|()| pipe::new().expect("a pipe"));
    let fds = [&first, &second, &third].map(|(_, receiver)| receiver.as_fd());
    let descriptors = Descriptors::new(3, &fds).expect("readiness queues");
    [0, 1].into_iter().for_each(|worker| descriptors.watch(worker, true));
    let send = |sender: &mut pipe::Sender| assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
    let (all, next) = (|| descriptors.watch_set.arrivals(), || descriptors.watch_set.next_arrival().first());
    assert_eq!((all(), next()), (Noticed::default(), None));
    [&mut second, &mut first, &mut third].into_iter().for_each(|(sender, _)| send(sender));
    assert_eq!([(); 3].map(|()| all()), [(); 3].map(|()| Noticed::of([1, 0])), "the third is not watched");
    assert_eq!([(); 4].map(|()| next()), [Some(1), Some(0), Some(1), Some(0)]);
    assert_eq!(first.1.read(&mut [0; 8]).expect("a byte"), 1);
    assert_eq!(([(); 2].map(|()| all()), next()), ([(); 2].map(|()| Noticed::of([1])), Some(1)));
    descriptors.watch(1, false);
    assert_eq!((all(), next()), (Noticed::default(), None));
    send(&mut first.0);
    assert_eq!((all(), next()), (Noticed::of([0]), Some(0)), "a new one");
}

// Does an arrival end its owner's wait, and no other, although the ingress came into the watch set
// first? If the owner does not wait, does the watch set tell of it? Can it be told of what the
// owner has left?
#[test]
fn an_arrival_is_for_its_owner_first() {
    let (mut sender, mut ingress) = pipe::new().expect("a pipe");
    let descriptors = Descriptors::new(1, &[ingress.as_fd()]).expect("readiness queues");
    let watched = || descriptors.watch_set.arrivals().waiting;
    let send = |sender: &mut pipe::Sender| assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
    let mut waits_and_gets = |sender: &mut pipe::Sender| {
        let thread = AtomicI32::new(0);
        let seen = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                thread.store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
                descriptors.wait(0, None)
            });
            await_sleep(&thread);
            send(sender);
            let waited = waiting.join().expect("no panic");
            assert!(waited.by_event && waited.woken.own, "{waited:?}");
            watched()
        });
        // It has left the datagram.
        descriptors.watch(0, false);
        descriptors.watch(0, true);
        assert_eq!((watched(), ingress.read(&mut [0; 8]).expect("a byte"), watched()), (1, 1, 0));
        seen
    };
    descriptors.watch(0, true);
    descriptors.own(0, true);
    assert_eq!([(); 3].map(|()| waits_and_gets(&mut sender)), [0; 3]);
    // No thread waits.
    send(&mut sender);
    assert_eq!(watched(), 1);
}

// While another process has the same sockets, is it told of arrivals once this one pauses, although
// a worker waits here? Does a worker learn after the pause of what came meanwhile?
#[test]
fn a_pause_leaves_arrivals_to_others() {
    let (mut sender, mut ingress) = pipe::new().expect("a pipe");
    let [here, there] = [(); 2].map(|()| Descriptors::new(1, &[ingress.as_fd()]).expect("readiness queues"));
    here.watch(0, true);
    here.own(0, true);
    there.watch(0, true);
    let mut arrives = || {
        let thread = AtomicI32::new(0);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                thread.store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
                here.wait(0, None)
            });
            await_sleep(&thread);
            assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
            let told = there.watch_set.arrivals().waiting;
            here.wake(0);
            let own = waiting.join().expect("no panic").woken.own;
            // The wake may have come after the arrival had ended the wait.
            here.wait(0, Some(Nanos::ZERO));
            (own, told)
        })
    };
    assert_eq!(arrives(), (true, 0));
    assert_eq!(ingress.read(&mut [0; 8]).expect("a byte"), 1);
    here.pause(true);
    here.pause(true);
    assert_eq!(arrives(), (false, 1));
    here.pause(false);
    assert!(here.wait(0, None).woken.own);
}

// If an ingress has several descriptors, are all reported? Does each end the owner's wait, and
// none after it is removed?
#[test]
fn an_ingress_has_several_descriptors() {
    let mut pipes = [(); 4].map(|()| pipe::new().expect("a pipe"));
    let fds = [0, 1, 2, 3].map(|number: usize| pipes[number].1.as_fd());
    let descriptors = Descriptors::new(2, &fds).expect("readiness queues");
    descriptors.watch(1, true);
    for (sender, _) in &mut pipes {
        assert_eq!(sender.write(b"x").expect("room in the pipe"), 1);
    }
    let seen = descriptors.watch_set.arrivals();
    assert_eq!((seen.waiting, &seen), (2, &Noticed::of([1, 1])), "those of worker 1");
    descriptors.watch(1, false);
    assert_eq!(descriptors.watch_set.arrivals(), Noticed::default());
    for number in [2, 3] {
        descriptors.own(1, true);
        assert_eq!(pipes[number].1.read(&mut [0; 8]).expect("a byte"), 1);
        let waited = descriptors.wait(1, Some(Nanos::ZERO));
        assert_eq!(waited.woken.own, number == 2, "while a descriptor still holds something: {waited:?}");
        descriptors.own(1, false);
    }
}
