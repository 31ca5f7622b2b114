//! Does a light request find a worker though as many requests as there are workers want to work uninterrupted?
//! Method: such a request says that it has begun, and stays until the test lets it go. While the first does, a second one
//! must not begin, and light ones must be answered; then both end.

use crate::support::prelude::*;
use forebay::handler::uninterrupted;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request of class 1 works uninterrupted until it may take the lock.
struct Signs {
    begun: Arc<AtomicUsize>,
    lock: Arc<Mutex<()>>,
}

impl Work for Signs {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        if order.cost > Nanos::ZERO {
            let sign = || {
                self.begun.fetch_add(1, Ordering::SeqCst);
                drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            };
            uninterrupted(sign).await;
        }
        reply.put(order.payload).expect("as long as the request");
    }
}

fn a_light_request_finds_a_worker(settings: &[(&str, &str)], begin_at_once: usize, requests: usize) {
    let (begun, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    let signs = Signs { begun: Arc::clone(&begun), lock: Arc::clone(&lock) };
    let server = Running::start(settings, Bench::new(signs, Nanos::from_secs(1)));
    // Taken after the server has started, to be given back before it is stopped if the test fails.
    let held = lock.lock().expect("a new lock");
    let client = Client::new(server.udp);
    (0..requests as u64).for_each(|id| client.request(id, Nanos::new(1), b""));
    await_until(|| begun.load(Ordering::SeqCst) == begin_at_once, "too few began");
    await_until(|| fates(&latency(server.admin)).in_flight == requests as u64, "not all have been received");
    // From many ports, so that every socket gets some.
    for id in 100..150 {
        let light = Client::new(server.udp);
        light.request(id, Nanos::ZERO, b"light");
        assert_eq!(light.receive().header.id, id, "{settings:?}");
    }
    assert_eq!(begun.load(Ordering::SeqCst), begin_at_once, "{settings:?}: one more began");
    drop(held);
    (0..requests).for_each(|_| drop(client.receive()));
    assert_eq!(begun.load(Ordering::SeqCst), requests);
}

#[test]
fn one_of_two_workers_stays_out_of_stretches() {
    for policy in ["steal", "shed", "global", "ondemand", "hybrid"] {
        a_light_request_finds_a_worker(&[("policy", policy), ("workers", "2")], 1, 3);
    }
}

#[test]
fn the_reserved_workers_stay_out_of_stretches() {
    a_light_request_finds_a_worker(&[("policy", "hybrid"), ("workers", "4"), ("reserved", "2")], 2, 5);
}

// Does a request that must wait for a permit of its own get one where there is but one worker?
#[test]
fn one_worker_does_one_after_the_other() {
    let (begun, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    let signs = Signs { begun, lock };
    let server = Running::start(&[("policy", "ondemand"), ("workers", "1")], Bench::new(signs, Nanos::from_secs(1)));
    let client = Client::new(server.udp);
    (0..20).for_each(|id| client.request(id, Nanos::new(1), b""));
    (0..20).for_each(|_| drop(client.receive()));
}
