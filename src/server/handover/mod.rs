//! A restart that loses nothing: a server that starts takes the sockets of the one that runs.
//! README.md argues each step.

mod door;
mod message;
mod predecessor;
mod successor;

pub(crate) use door::Door;
pub(crate) use predecessor::{Asked, Given, serve};
pub(crate) use successor::{Predecessor, ask};

use crate::time::Nanos;

/// The longest wait for the other process's next message. A successor prepares for longest. After
/// the offer, and before it says that it is ready, it makes packets and threads for up to 1,024
/// workers.
const PATIENCE: Nanos = Nanos::from_secs(10);
