//! Does the runtime run every task, in the right order, and end?

#![allow(clippy::too_many_lines)]

use forebay_base::time::Nanos;
use forebay_clock as clock;
use forebay_runtime::{checkpoint, fork, hop};
use forebay_tasks::{CancellationToken, Counters, JoinError, JoinHandle, PoolCounters, Priority, Runtime, Spawner};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Waker};
use std::thread;

mod graph;
mod join;
mod order;
mod shutdown;
mod spawn;

/// Longer than any test here takes, and shorter than a test's patience.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

fn here() -> Spawner {
    Spawner::current().expect("a task runs on a worker")
}

/// A task that blocks a worker until the sender sends.
fn hold(spawner: &Spawner) -> Sender<()> {
    let (release, held) = channel::<()>();
    let (tell, told) = channel();
    drop(spawner.spawn(move || {
        tell.send(()).unwrap();
        wait(&held);
    }));
    told.recv_timeout(DEADLINE).unwrap();
    release
}

fn wait(held: &Receiver<()>) {
    held.recv_timeout(DEADLINE).unwrap();
}

fn note<T: Send + 'static>(log: &Arc<Mutex<Vec<T>>>, value: T) -> impl FnOnce() + Send + 'static {
    let log = Arc::clone(log);
    move || log.lock().unwrap().push(value)
}

fn count(runs: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let runs = Arc::clone(runs);
    move || _ = runs.fetch_add(1, Ordering::Relaxed)
}

fn await_until(mut condition: impl FnMut() -> bool, complaint: &str) {
    let deadline = clock::now().plus(DEADLINE.into());
    while !condition() {
        assert!(clock::now() < deadline, "{complaint}");
        thread::sleep(Nanos::from_millis(1).into());
    }
}

/// Waits until the runtime has begun to shut down.
fn await_shutdown(spawner: &Spawner) {
    while spawner.spawn(|| ()).join() != Err(JoinError::ShutDown) {
        thread::yield_now();
    }
}
