//! Composition and life cycle: sockets, workers, admin HTTP, shutdown.

pub mod admin;

use crate::config::Config;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// How a server that ran came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was received was finished.
    Drained,
    /// The drain timeout passed, or a second signal came, with requests unfinished.
    Forced,
}

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address could not be bound.
    #[error("cannot bind {address} (--{setting}): {source}")]
    Bind {
        /// Key of the setting that names the address: `listen` or `admin`.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something else that the server cannot do without.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Binds the addresses of `config`.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &Config) -> Result<Ended, ServeError> {
    UdpSocket::bind(config.listen).map_err(|source| ServeError::Bind {
        setting: "listen",
        address: config.listen,
        source,
    })?;
    TcpListener::bind(config.admin).map_err(|source| ServeError::Bind {
        setting: "admin",
        address: config.admin,
        source,
    })?;
    Ok(Ended::Drained)
}
