//! [`ServeError`] and [`HandOverError`]: why a server does not serve.

use crate::config::Problems;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not start or go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address could not be bound.
    #[error("cannot bind {address} (--{setting}): {source}")]
    Bind {
        /// Key of the setting with the address: `listen` or `admin`.
        setting: &'static str,
        /// The address that could not be bound.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// This system or program does not provide what the settings ask for, or the service panicked
    /// while it made its shards. The text names the setting and what is allowed.
    #[error("{0}")]
    Unavailable(String),
    /// The sockets of the running server could not be taken over.
    #[error("--handover {}: {source}", .path.display())]
    HandOver {
        /// The path of `--handover`.
        path: PathBuf,
        /// Why the takeover failed.
        source: HandOverError,
    },
    /// A name of the handler cannot be used in metrics: of its own metric, or in
    /// [`CLASS_NAMES`](crate::handler::Handler::CLASS_NAMES) or
    /// [`REASON_NAMES`](crate::handler::Handler::REASON_NAMES).
    #[error("{of}: {name:?}: not allowed; allowed: {allowed}")]
    Name {
        /// What the name was for.
        of: &'static str,
        /// The name that the handler gave.
        name: String,
        /// The rule that the name breaks.
        allowed: &'static str,
    },
    /// Settings of a [`Builder`](super::Builder) are wrong.
    #[error("{0}")]
    Settings(#[from] Problems),
    /// The admin endpoint failed, which ends the server. Everything received until then was served.
    #[error("the admin endpoint has ended: {0}")]
    Admin(String),
    /// The kernel refused something else that the server needs.
    #[error(transparent)]
    Io(#[from] io::Error),
}

crate::time::show_as_text!(ServeError);

/// Why a running server did not hand over, or a starting one could not take over.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The running server refuses to hand over to this one.
    #[error("the running server refuses: {0}")]
    Refused(String),
    /// The running server had begun to hand over, but keeps serving.
    #[error("the running server serves on: {0}")]
    Stays(String),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

crate::time::show_as_text!(HandOverError);
