//! A restart that loses nothing: a server that starts takes the sockets of the one that runs.
//! README.md argues each step.

mod door;
mod message;
mod predecessor;
mod successor;

pub(in crate::server) use door::Door;
pub(in crate::server) use predecessor::{Asked, serve};
pub(in crate::server) use successor::{Predecessor, ask};

use crate::time::Nanos;
use std::io;

/// The longest wait for the other process's next message. A successor prepares for longest. After
/// the offer, and before it says that it is ready, it makes packets and threads for up to 1,024
/// workers.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// Why a server that runs did not hand over, or one that starts could not take over.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The running server will not hand over to this one.
    #[error("the running server refuses: {0}")]
    Refused(String),
    /// The running server has changed its mind.
    #[error("the running server serves on: {0}")]
    Stays(String),
    /// Something failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

crate::time::show_as_text!(HandOverError);
