use super::super::sleep::idle::Readiness;
use super::super::sleep::readiness::Descriptors;
use super::*;
use crate::clock::virtual_time;
use mio::unix::pipe;
use std::io::{Read, Write};
use std::os::fd::AsFd;

const LATER: Nanos = Nanos::from_secs(1);

/// The result of a look if the only ingress holds a datagram.
fn first() -> Noticed {
    Noticed::of([0])
}

/// A watched ingress, and this thread as the worker that notices its arrivals.
struct Watched {
    sender: pipe::Sender,
    receiver: pipe::Receiver,
    flag: Flag,
    _open: Open,
    _descriptors: Descriptors,
}

fn watched(by_kernel: bool) -> Watched {
    let (sender, receiver) = pipe::new().expect("a pipe");
    let descriptors = Descriptors::new(1, &[receiver.as_fd()]).expect("readiness queues");
    descriptors.watch(0, true);
    let flag = Flag::default();
    let open = open(Arc::clone(&flag), Arc::clone(&descriptors.watch_set), Looks::default(), by_kernel);
    Watched { sender, receiver, flag, _open: open, _descriptors: descriptors }
}

impl Watched {
    fn send(&mut self) {
        assert_eq!(self.sender.write(b"x").expect("room"), 1);
    }

    fn receive(&mut self) {
        assert_eq!(self.receiver.read(&mut [0; 8]).expect("a byte"), 1);
    }
}

// Does a job that watches closely learn of each arrival at its next checkpoint, without a look?
#[test]
fn the_kernel_gives_notice_of_each_arrival() {
    let mut ingress = watched(true);
    for round in 0..3 {
        begin(Watch::Notices);
        assert!(!is_raised() && take().is_none(), "{round}: nothing has come, and there was no look");
        ingress.send();
        assert!(is_raised(), "{round}");
        assert_eq!((take(), is_raised()), (Some(first().by_kernel()), false), "{round}");
        begin(Watch::Notices);
        assert!(is_raised(), "{round}: it still waits");
        assert_eq!(take(), Some(first().by_kernel()), "{round}");
        ingress.receive();
    }
}

// Is the result for one job dropped for the next? If a notice was for a datagram that is already
// received, does the next datagram give another notice?
#[test]
fn what_has_been_received_is_noticed_no_more() {
    let mut ingress = watched(true);
    begin(Watch::Notices);
    ingress.send();
    begin(Watch::Notices);
    assert!(is_raised(), "it waits");
    ingress.receive();
    for round in 0..3 {
        // The job ends with notice of an arrival, which this worker then receives.
        begin(Watch::Notices);
        assert!(!is_raised(), "{round}: it has been received");
        ingress.send();
        assert!(is_raised(), "{round}: this is another one");
        ingress.receive();
    }
}

// Does a worker that works uninterrupted leave notices to others, and get the next one once it is
// back?
#[test]
fn a_worker_out_of_reach_gets_no_notice() {
    let mut ingress = watched(true);
    begin(Watch::Notices);
    pause();
    ingress.send();
    assert!(!is_raised());
    begin(Watch::Notices);
    assert!(is_raised() && take() == Some(first().by_kernel()), "what waits is noticed at once");
}

// Without notices, do looks keep their interval, and is their result kept for the worker?
#[test]
fn looks_see_what_waits_when_it_is_time_to() {
    let mut ingress = watched(false);
    begin(Watch::Notices);
    let Err(interval) = looks(LATER) else { panic!("nothing has come") };
    assert!(interval >= Nanos::from_micros(1), "33 looks, each a system call: {interval}");
    ingress.send();
    assert!(!is_raised());
    let half = interval.get() / 2;
    assert_eq!(looks(LATER.plus(Nanos::new(half))), Err(Nanos::new(interval.get() - half)));
    assert_eq!(looks(LATER.plus(interval)), Ok(()));
    assert!(is_raised(), "until the worker has taken it");
    assert_eq!((take(), take()), (Some(first()), None));
}

// Is exactly each look counted that was made and saw nothing?
#[test]
fn looks_in_vain_are_counted() {
    let mut ingress = watched(false);
    begin(Watch::Notices);
    let Err(interval) = looks(LATER) else { panic!("nothing has come") };
    assert!(looks(LATER.plus(interval)).is_err() && looks(LATER.plus(interval)).is_err());
    assert_eq!((take_vain(), take_vain()), (2, 0), "the third was no look");
    ingress.send();
    assert_eq!((looks(LATER.plus(interval.times(2))), take_vain()), (Ok(()), 0));
}

// Does a worker with notices still look now and then? Does one that looks once per slice ignore
// notices?
#[test]
fn the_backstop_looks_and_a_slice_is_a_slice() {
    let mut ingress = watched(true);
    begin(Watch::Notices);
    assert_eq!(looks(LATER), Err(BACKSTOP));
    let slice = Nanos::from_micros(20);
    begin(Watch::Every(slice));
    ingress.send();
    assert!(!is_raised(), "the bit is up, and the job does not listen");
    assert_eq!(looks(LATER.plus(Nanos::from_micros(19))), Err(Nanos::from_micros(1)));
    assert_eq!(looks(LATER.plus(slice)), Ok(()));
    assert_eq!(take(), Some(first()));
}

// Does a job that watches see at once a request to yield? Does one that does not watch ignore it?
#[test]
fn a_flag_is_seen_by_a_job_that_watches() {
    let ingress = watched(false);
    ingress.flag.store(true, Ordering::Relaxed);
    begin(Watch::Never);
    assert!(!is_raised() && looks(LATER) == Err(Nanos::MAX));
    begin(Watch::Notices);
    assert!(is_raised() && looks(LATER) == Ok(()));
    assert_eq!(take(), None, "there was no look");
}

// Does a worker whose ring failed look for itself for a minute, and then get notices again?
#[test]
fn a_ring_that_failed_is_tried_again() {
    let mut ingress = watched(true);
    let without_ring = || with(|notice| notice.watch_set.without_ring.load(Ordering::Relaxed));
    assert_eq!(without_ring(), Some(0));
    // No poll can be put into this ring.
    with(|notice| notice.ring = Ring::new(-1).ok());
    virtual_time::set(Some(LATER));
    begin(Watch::Notices);
    assert_eq!(without_ring(), Some(1));
    let Err(interval) = looks(LATER) else { panic!("nothing has come") };
    virtual_time::set(None);
    assert_ne!(interval, BACKSTOP, "looks must serve");
    let again_at = LATER.plus(Breaker::AGAIN_AFTER);
    assert!(looks(again_at.minus(Nanos::new(1))).is_err());
    assert_eq!(without_ring(), Some(1), "a minute has not passed");
    assert!(looks(again_at).is_err(), "nothing has come");
    assert_eq!(without_ring(), Some(0));
    ingress.send();
    assert!(is_raised() && take() == Some(first().by_kernel()));
}
