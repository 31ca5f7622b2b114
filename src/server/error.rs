//! Why a server does not serve.

use crate::config::Problems;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not start or go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be bound.
    #[error("cannot bind {address} (--{setting}): {source}")]
    Bind {
        /// Key of the setting that names the address: `listen` or `admin`.
        setting: &'static str,
        /// The address that cannot be bound.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// This system or this program does not give what the settings ask for. The text names the
    /// setting and what is allowed.
    #[error("{0}")]
    Unavailable(String),
    /// The sockets of the server that runs cannot be taken over.
    #[error("--handover {}: {source}", .path.display())]
    HandOver {
        /// The configured path.
        path: PathBuf,
        /// The reason.
        source: HandOverError,
    },
    /// A metric of the handler's own, or a name in
    /// [`CLASS_NAMES`](crate::handler::Handler::CLASS_NAMES) or
    /// [`REASON_NAMES`](crate::handler::Handler::REASON_NAMES) of the handler, cannot be shown.
    #[error("{of}: {name:?}: not allowed; allowed: {allowed}")]
    Name {
        /// What has the name.
        of: &'static str,
        /// The name as given.
        name: String,
        /// The broken rule.
        allowed: &'static str,
    },
    /// Settings of a [`Builder`](super::Builder) are wrong.
    #[error("{0}")]
    Settings(#[from] Problems),
    /// The admin endpoint ended by itself. Everything received until then was served.
    #[error("the admin endpoint has ended: {0}")]
    Admin(String),
    /// The kernel refused something else that the server cannot do without.
    #[error(transparent)]
    Io(#[from] io::Error),
}

crate::time::show_as_text!(ServeError);

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
