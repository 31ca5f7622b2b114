//! The runtime as a library.

use forebay::tasks::{JoinError, Spawner};
use std::sync::mpsc::{Sender, channel};
use std::thread;

mod graph;
mod join;
mod order;
mod shutdown;
mod spawn;

/// Longer than anything here takes, shorter than patience.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

fn here() -> Spawner {
    Spawner::current().expect("a task runs on a worker")
}

/// A task that keeps a worker until the sender sends.
fn hold(spawner: &Spawner) -> Sender<()> {
    let (release, held) = channel::<()>();
    let (tell, told) = channel();
    drop(spawner.spawn(move || {
        tell.send(()).unwrap();
        held.recv_timeout(DEADLINE).unwrap();
    }));
    told.recv_timeout(DEADLINE).unwrap();
    release
}

/// Waits until the runtime has begun to shut down.
fn await_shutdown(spawner: &Spawner) {
    while spawner.spawn(|| ()).join() != Err(JoinError::ShutDown) {
        thread::yield_now();
    }
}
