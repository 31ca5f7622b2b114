//! Restarts without loss: a starting server takes over the sockets of the running one. README.md
//! explains each step.

mod door;
mod message;
mod predecessor;
mod successor;

pub(crate) use door::Door;
pub(crate) use predecessor::{OfferContent, Successor, serve};
pub(crate) use successor::{Predecessor, ask};

use crate::time::Nanos;

/// How long to wait for the other process's next message. The longest wait is for `Ready`: a
/// successor first makes packets and threads for up to 1,024 workers.
const PATIENCE: Nanos = Nanos::from_secs(10);
