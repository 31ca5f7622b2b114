//! The workers, deques, queues and sleep protocol of Forebay, for tasks instead of datagrams,
//! without sockets. The page of `forebay::tasks` has longer examples.
//!
//! ```
//! use forebay_tasks::{JoinError, Runtime};
//!
//! let runtime = Runtime::with_workers(2)?;
//! let answer = runtime.spawn(|| 6 * 7);
//! assert_eq!(answer.join(), Ok(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `README.md` proves that a join on a worker does not deadlock, and that a shutdown ends.

mod builder;
mod counters;
mod error;
mod group;
mod handle;
mod scheduler;
mod spawner;
mod task;
mod worker;

pub use builder::{BuildError, Builder, Runtime};
pub use counters::{Counters, PoolCounters};
pub use error::JoinError;
pub use forebay_runtime::continuation::CancellationToken;
pub use forebay_sched::Wait;
pub use group::Group;
pub use handle::JoinHandle;
pub use scheduler::Priority;
pub use spawner::Spawner;
