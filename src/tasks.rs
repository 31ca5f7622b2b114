//! The runtime as a library: runs tasks instead of datagrams, with the workers, deques, queues and
//! sleep protocol of the server, but without sockets.
//!
//! # Pools and handles
//!
//! A [`Runtime`] has one or several pools. It runs closures, and futures that may pause and wait. A
//! [`JoinHandle`] gives the result, or why there is none.
//!
//! ```
//! use forebay::handler::hop;
//! use forebay::tasks::{JoinError, Runtime};
//!
//! let runtime = Runtime::builder().pool("front", 1).pool("heavy", 2).build()?;
//! let answer = runtime.spawn(|| 6 * 7);
//! assert_eq!(answer.join(), Ok(42));
//!
//! let heavy = runtime.pool("heavy").expect("it was built with one");
//! let moved = runtime.spawn_future(async move {
//!     hop(heavy).await;
//!     std::thread::current().name().map(str::to_owned)
//! });
//! assert_ne!(moved.join()?.as_deref(), Some("forebay-task-0"));
//!
//! let panics = runtime.spawn(|| { let none: Option<u8> = None; none.expect("a panic is a value") });
//! assert_eq!(panics.join(), Err(JoinError::Panicked("a panic is a value".to_owned())));
//! assert_eq!(runtime.counters().total().panicked, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting for others
//!
//! Inside a future, await the handle: the worker runs other tasks meanwhile. A [`Group`] waits for
//! its tasks and all their descendants.
//!
//! ```
//! use forebay::tasks::{Runtime, Spawner};
//!
//! let runtime = Runtime::with_workers(2)?;
//! let sum = runtime.spawn_future(async {
//!     let spawner = Spawner::current().expect("this is a task");
//!     let parts: Vec<_> = (0..10_u64).map(|part| spawner.spawn(move || part * part)).collect();
//!     let mut sum = 0;
//!     for part in parts {
//!         sum += part.await.expect("no part panics");
//!     }
//!     sum
//! });
//! assert_eq!(sum.join(), Ok(285));
//!
//! let tree = runtime.group();
//! let root = tree.spawn(|| {
//!     let spawner = Spawner::current().expect("this is a task");
//!     (0..10).for_each(|_| drop(spawner.spawn(|| ())));
//! });
//! tree.close().join()?;
//! root.join()?;
//! assert_eq!(runtime.counters().total().completed, 22);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Priorities and cancellation
//!
//! More urgent tasks begin first; [`Priority`] says how the others avoid starvation. Children
//! inherit the priority. A [`CancellationToken`] ends tasks that have not begun, and futures at
//! their next [`checkpoint`](forebay_runtime::checkpoint).
//!
//! ```
//! use forebay::handler::checkpoint;
//! use forebay::tasks::{CancellationToken, JoinError, Priority, Runtime};
//! use std::sync::{Arc, Mutex, mpsc};
//!
//! let runtime = Runtime::with_workers(1)?;
//! let (release, held) = mpsc::channel();
//! let gate = runtime.spawn(move || held.recv());
//! let order = Arc::new(Mutex::new(Vec::new()));
//! let tasks: Vec<_> = [Priority::Background, Priority::Normal, Priority::High]
//!     .into_iter()
//!     .flat_map(|priority| [priority; 10])
//!     .map(|priority| {
//!         let order = Arc::clone(&order);
//!         runtime.with_priority(priority).spawn(move || order.lock().unwrap().push(priority))
//!     })
//!     .collect();
//! release.send(())?;
//! gate.join()??;
//! tasks.into_iter().try_for_each(|task| task.join())?;
//! // The last ten spawned ran first, except that one search in 61 begins elsewhere.
//! let high = order.lock().unwrap()[..10].iter().filter(|priority| **priority == Priority::High).count();
//! assert!(high >= 9);
//!
//! let token = CancellationToken::new();
//! let endless = runtime.with_token(&token).spawn_future(async {
//!     loop {
//!         checkpoint().await;
//!     }
//! });
//! token.cancel();
//! let end: Result<(), JoinError> = endless.join();
//! assert_eq!(end, Err(JoinError::Cancelled));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Loops
//!
//! [`Spawner::parallel_for`] runs the chunks of a loop in parallel.
//!
//! # Why joins and shutdowns end
//!
//! `crates/tasks/README.md` proves that a join on a worker does not deadlock, and that a shutdown
//! ends.

#[doc(inline)]
pub use forebay_tasks::{
    BuildError, Builder, CancellationToken, Counters, Group, JoinError, JoinHandle, PoolCounters, Priority, Runtime,
    Spawner, Wait,
};
