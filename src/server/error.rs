//! Why a server does not serve.

use super::HandOverError;
use crate::config::Problems;
use crate::net::NoWay;
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
    /// The system permits no backend to receive datagrams, or none to send them.
    #[error("{0}; allow one of these calls, or choose another --io or --listen")]
    NoWay(#[from] NoWay),
    /// The kernel gives no notices of arrivals, and `--notices ring` wants them.
    #[error("--notices ring: this system has no io_uring of Linux 6.1: {0}; allowed: auto, looks")]
    NoNotices(io::Error),
    /// Too few file descriptors are allowed.
    #[error(
        "--workers {workers}: needs {needed} file descriptors, and this process may open {allowed} (the hard limit of \
         RLIMIT_NOFILE); allowed: fewer workers, four descriptors each and one more for each address of --listen, or a \
         higher limit: LimitNOFILE={needed} in a systemd unit, --ulimit nofile={needed} for a container, `ulimit -Hn {needed}` as root in a shell"
    )]
    Descriptors {
        /// The configured number of workers.
        workers: usize,
        /// Descriptors that the workers and everything else need.
        needed: u64,
        /// Descriptors that the kernel allows.
        allowed: u64,
    },
    /// The system gives too little memory.
    #[error(
        "--workers {workers}: needs {mib} MiB of memory, which this system does not give; allowed: fewer workers, or a higher \
         limit: `ulimit -v`, LimitAS= in a systemd unit, vm.overcommit_memory"
    )]
    Memory {
        /// The configured number of workers.
        workers: usize,
        /// What all of them take, in MiB.
        mib: usize,
    },
    /// The sockets of the server that runs cannot be taken over.
    #[error("--handover {}: {source}", .path.display())]
    HandOver {
        /// The configured path.
        path: PathBuf,
        /// The reason.
        source: HandOverError,
    },
    /// Nothing can listen for successors.
    #[error("--handover {}: cannot listen there: {source}; allowed: off, or a path where this user may make a socket", .path.display())]
    Door {
        /// The configured path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The sockets that systemd passes are not those that are needed.
    #[error("LISTEN_FDS: {0}")]
    Inherited(String),
    /// A metric of the handler's own cannot be shown.
    #[error("metric {name:?}: not allowed; allowed: {allowed}")]
    Metric {
        /// The name as given.
        name: String,
        /// The broken rule.
        allowed: &'static str,
    },
    /// A name in [`CLASS_NAMES`](crate::handler::Handler::CLASS_NAMES) or
    /// [`REASON_NAMES`](crate::handler::Handler::REASON_NAMES) of the handler cannot be shown.
    #[error("{of}: {name:?}: not allowed; allowed: {allowed}")]
    Name {
        /// Which of both.
        of: &'static str,
        /// The name as given.
        name: &'static str,
        /// The broken rule.
        allowed: &'static str,
    },
    /// Settings of a [`Builder`](super::Builder) are wrong.
    #[error("{0}")]
    Settings(#[from] Problems),
    /// The admin endpoint ended by itself. Everything received until then was served.
    #[error("the admin endpoint has ended: {0}")]
    Admin(String),
    /// The summary could not be written to standard output.
    #[error("the summary cannot be written to standard output: {0}")]
    Output(io::Error),
    /// The kernel refused something else that the server cannot do without.
    #[error(transparent)]
    Io(#[from] io::Error),
}

crate::time::show_as_text!(ServeError);
