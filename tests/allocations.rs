//! Does a worker serve without allocating?
//! Method: an allocator that counts for each thread, which the handler asks, for it runs on the worker. Once a worker has
//! served requests of each kind, and handed its measurements over as often as it has ledgers to change, its count stands
//! still, whatever the policy and the way of datagrams.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

mod support;

use forebay::handler::{Bench, Order, Reply, Work, checkpoint};
use forebay::time::{Nanos, clock};
use forebay::wire::Header;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use support::client::{Client, message};
use support::http::latency;
use support::{Running, alone};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is ending has no counter any more, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller guarantees.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What is known of one worker.
#[derive(Clone, Copy, Debug)]
struct Seen {
    thread: ThreadId,
    /// Requests since it is warm.
    requests: u64,
    /// Its allocations at the first of these, and at the last one.
    first: u64,
    last: u64,
}

/// What the handler and the test share.
#[derive(Default)]
struct Watched {
    warm: AtomicBool,
    workers: Mutex<Vec<Seen>>,
}

/// Notes the allocations of the thread that it runs on; with checkpoints between 20 us of work if the request costs.
struct Watch {
    watched: &'static Watched,
}

impl Work for Watch {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        let end = clock::now().plus(order.cost);
        while clock::now() < end {
            checkpoint().await;
        }
        reply.put(order.payload);
        if !self.watched.warm.load(Ordering::SeqCst) {
            return;
        }
        let (now, thread) = (ALLOCATIONS.get(), thread::current().id());
        let mut workers = self.watched.workers.lock().expect("nobody panics with it");
        match workers.iter_mut().find(|seen| seen.thread == thread) {
            None => workers.push(Seen { thread, requests: 1, first: now, last: now }),
            Some(seen) => *seen = Seen { requests: seen.requests + 1, last: now, ..*seen },
        }
    }
}

#[test]
fn a_warm_worker_never_allocates() {
    let _alone = alone();
    for (policy, io) in
        [("steal", "batches"), ("isolated", "trains"), ("global", "portable"), ("ondemand", "batches"), ("pools", "trains")]
    {
        // Leaked, since the server's thread may use it for as long as it lives.
        let watched: &Watched = Box::leak(Box::default());
        watched.workers.lock().expect("nobody has it").reserve(8);
        let settings = [("policy", policy), ("io", io), ("workers", "2"), ("slice", "20us")];
        let server = Running::start(&settings, Bench::new(Watch { watched }, Nanos::from_secs(1)));
        let clients: Vec<Client> = (0..16).map(|_| Client::new(server.udp)).collect();
        let mut sent = 0;
        for round in 0..400 {
            watched.warm.store(round >= 200, Ordering::SeqCst);
            if round % 20 == 0 {
                // Workers hand their measurements over.
                latency(server.admin);
            }
            for (number, client) in clients.iter().enumerate() {
                // Two classes: brief requests, and some that yield.
                let heavy = (number + round) % 8 == 0;
                let cost = if heavy { Nanos::from_micros(100) } else { Nanos::ZERO };
                client.send(&message(&Header::request(sent, heavy.into(), cost), b"payload"));
                sent += 1;
            }
            clients.iter().for_each(|client| drop(client.receive()));
        }
        assert_eq!(server.quiescent(sent).answered, sent);
        let workers = watched.workers.lock().expect("nobody panics with it");
        assert_eq!(workers.iter().map(|seen| seen.requests).sum::<u64>(), sent / 2);
        assert!(workers.iter().all(|seen| seen.last == seen.first), "{policy} {io}: {workers:?}");
    }
}
