//! A handler for the bench protocol. The first byte of a request's payload says what it does.

use super::{GIVE_UP_AFTER, Running};
use forebay::handler::builtin::{Bench, BenchWork, Order};
use forebay::handler::{Reply, checkpoint, fork, hop, uninterrupted};
use forebay::time::{Nanos, clock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What a request makes the handler do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    /// Blocks the worker for the cost, without a checkpoint.
    Block = b'b',
    /// Blocks the worker until [`Scripted::release`], without a checkpoint.
    Hold = b'g',
    /// Like [`Act::Hold`], after a checkpoint.
    Long = b'l',
    /// Like [`Act::Hold`], as uninterrupted work.
    Alone = b'u',
    /// Spends the cost with a checkpoint every 100 us.
    Step = b's',
    /// Like [`Act::Step`], with a checkpoint every 2 ms.
    Stride = b'r',
    /// Spends the cost in three parts at once, with checkpoints.
    Fork = b'f',
    Panic = b'p',
    /// Waits for an event that never comes.
    Stall = b'w',
    /// Like [`Act::Stall`], and panics when it is dropped.
    Wreck = b'd',
    /// Moves to pool 1.
    Hop = b'h',
}

/// A record of what the handler has done, shared with the test.
#[derive(Debug, Default)]
pub struct Scripted {
    begun: AtomicUsize,
    blockers: Mutex<Vec<usize>>,
    /// The released blockers, by their index in the list.
    released: Mutex<BTreeSet<usize>>,
    let_go: Condvar,
}

impl Scripted {
    /// How many requests have begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The workers that began to block or hold, in this order.
    pub fn blockers(&self) -> Vec<usize> {
        self.blockers.lock().expect("nobody panics with it").clone()
    }

    /// Releases all held requests.
    pub fn release(&self) {
        let numbers = 0..self.blockers().len();
        self.released.lock().expect("nobody panics with it").extend(numbers);
        self.let_go.notify_all();
    }

    /// Blocks the calling worker until it is released, or the test has given up.
    fn hold(&self) {
        let number = self.block();
        let released = self.released.lock().expect("nobody panics with it");
        let held =
            self.let_go.wait_timeout_while(released, GIVE_UP_AFTER.into(), |released| !released.contains(&number));
        drop(held.expect("nobody panics with it"));
    }

    /// Records the calling worker; returns its index in the list.
    fn block(&self) -> usize {
        let mut blockers = self.blockers.lock().expect("nobody panics with it");
        blockers.push(worker());
        blockers.len() - 1
    }
}

pub fn scripted() -> (Bench<Script>, Arc<Scripted>) {
    let shared = Arc::new(Scripted::default());
    (Bench::new(Script { shared: Arc::clone(&shared) }, Nanos::from_secs(60)), shared)
}

pub fn run_scripted(settings: &[(&str, &str)]) -> (Running, Arc<Scripted>) {
    let (handler, script) = scripted();
    (Running::start(settings, handler), script)
}

pub struct Script {
    shared: Arc<Scripted>,
}

impl BenchWork for Script {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        self.shared.begun.fetch_add(1, Ordering::SeqCst);
        match order.payload.first() {
            Some(b'b') => {
                self.shared.block();
                thread::sleep(order.cost.into());
            }
            Some(b'g') => self.shared.hold(),
            Some(b'l') => {
                checkpoint().await;
                self.shared.hold();
            }
            Some(b'u') => uninterrupted(|| self.shared.hold()).await,
            Some(b's') => steps(order.cost, Nanos::from_micros(100)).await,
            Some(b'r') => steps(order.cost, Nanos::from_millis(2)).await,
            Some(b'f') => {
                for part in [(); 3].map(|()| fork(steps(order.cost, Nanos::from_micros(50)))) {
                    part.await;
                }
            }
            Some(b'p') => panic!("this request asks for a panic"),
            Some(b'w') => std::future::pending().await,
            Some(b'd') => {
                let _wreck = Wreck;
                std::future::pending::<()>().await;
            }
            Some(b'h') => hop(1).await,
            _ => {}
        }
        reply.put(order.payload).expect("as long as the request");
    }
}

/// Spends `cost` with checkpoints at this distance.
async fn steps(cost: Nanos, apart: Nanos) {
    let end = clock::now().plus(cost);
    while clock::now() < end {
        thread::sleep(apart.into());
        checkpoint().await;
    }
}

struct Wreck;

impl Drop for Wreck {
    fn drop(&mut self) {
        panic!("this request asks for a panic as it is dropped");
    }
}

/// The number of the worker that is the calling thread, from the thread's name.
fn worker() -> usize {
    let name = thread::current().name().unwrap_or_default().to_owned();
    name.strip_prefix("forebay-").and_then(|number| number.parse().ok()).expect("a worker's thread")
}
