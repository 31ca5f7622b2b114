//! Composition and life cycle: sockets, workers, admin HTTP, shutdown.

pub mod admin;

mod adapt;
mod control;
mod descriptors;
mod drain;
#[cfg(test)]
mod explore;
mod notices;
mod panics;
mod path;
mod pin;
mod run;
mod run_queue;
mod signals;
mod sizes;
mod stop;
mod stuck;
mod transport;
mod waiting;
pub(crate) mod yields;

pub use sizes::Memory;
pub use stop::{FollowError, PolicyHandle, StopHandle};

use crate::config::{Burn, Config, HandlerName};
use crate::handler::Handler;
use crate::handler::builtin::{Bench, Burner, Digest, Echo, Forking, Spin};
use crate::metrics::{Fates, Snapshot, summary};
use crate::net::{AddressFilter, Group, HostAddresses, NoWay, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, Ways};
use crate::output;
use crate::queue::ObjectPool;
use crate::server::path::packet::{PacketBody, drive};
use crate::time::clock;
use sizes::Sizes;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Receiver;
use stop::Demand;

/// How a server run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything received was finished.
    Drained,
    /// The drain timeout passed, or a second signal came, with requests unfinished.
    Forced,
}

impl Ended {
    /// Determined by what was lost, not by how long the stop took or whether it was hastened.
    fn with(fates: &Fates) -> Ended {
        if fates.shed_draining + fates.in_flight > 0 { Ended::Forced } else { Ended::Drained }
    }
}

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
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
         RLIMIT_NOFILE); allowed: fewer workers, five descriptors each, or a higher limit: LimitNOFILE={needed} in a \
         systemd unit, --ulimit nofile={needed} for a container, `ulimit -Hn {needed}` as root in a shell"
    )]
    Descriptors {
        /// The configured number of workers.
        workers: usize,
        /// Descriptors that the workers and everything else need.
        needed: u64,
        /// Descriptors that the kernel allows.
        allowed: u64,
    },
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

/// The result of a server run.
#[derive(Debug)]
pub struct Report {
    /// How the run ended.
    pub ended: Ended,
    /// All counters and measurements, exact because nothing moves any more.
    pub totals: Snapshot,
    /// Packets not returned to their pool at the end; 0 if nothing is in flight.
    pub packets_away: usize,
}

/// Runs the bench server that `config` describes until SIGTERM or SIGINT. Writes to standard output: one line with the
/// bound addresses when all of its threads run, and a summary at the end. If the first line cannot be written, the
/// server serves all the same.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &Config) -> Result<Ended, ServeError> {
    // Signals are caught before the addresses are printed: a reader of that line may send one.
    let server = Server::bind(config)?.stop_on_signals()?.exit_when_stuck();
    let line = format!("listening on udp {}, admin http://{}\n", server.udp_address(), server.admin_address());
    let serving = || {
        if let Err(error) = output::print(&line) {
            tracing::error!(%error, "standard output does not take the line that says where the server listens");
        }
    };
    let cap = config.cost_cap_scaled();
    let report = match config.handler {
        HandlerName::Echo => server.run_announced(&Bench::new(Echo, cap), serving),
        HandlerName::Spin => {
            server.run_announced(&Bench::new(Spin::new(burner(config), config.time_scale), cap), serving)
        }
        HandlerName::Fork => {
            let fork = Forking::new(burner(config), config.time_scale, config.slice_scaled(), config.workers);
            server.run_announced(&Bench::new(fork, cap), serving)
        }
        HandlerName::Digest => server.run_announced(&Bench::new(Digest, cap), serving),
    }?;
    match (report.ended, print_summary(&report.totals)) {
        (Ended::Drained, Err(error)) => Err(ServeError::Output(error)),
        (ended, _) => Ok(ended),
    }
}

fn burner(config: &Config) -> Burner {
    match config.burn {
        Burn::Cpu => Burner::calibrated(),
        Burn::Sleep => Burner::Sleep,
    }
}

/// A socket buffer for which the kernel granted less than was asked for.
#[derive(Debug, PartialEq, Eq)]
struct SmallBuffer {
    name: &'static str,
    granted_bytes: usize,
    wanted_bytes: usize,
    sysctl: &'static str,
    consequence: &'static str,
}

fn small_buffers(receive_bytes: usize, send_bytes: usize) -> impl Iterator<Item = SmallBuffer> {
    let receive = SmallBuffer {
        name: "receive",
        granted_bytes: receive_bytes,
        wanted_bytes: RECV_BUFFER_BYTES,
        sysctl: "net.core.rmem_max",
        consequence: "bursts will be dropped sooner",
    };
    let send = SmallBuffer {
        name: "send",
        granted_bytes: send_bytes,
        wanted_bytes: SEND_BUFFER_BYTES,
        sysctl: "net.core.wmem_max",
        consequence: "requests in the names of neighbours that do not exist can stop all replies",
    };
    [receive, send].into_iter().filter(|buffer| buffer.granted_bytes < buffer.wanted_bytes)
}

fn warn_of_small_buffers(group: &Group) {
    for small in small_buffers(group.recv_buffer_bytes(), group.send_buffer_bytes()) {
        let SmallBuffer { name, granted_bytes, wanted_bytes, sysctl, consequence } = small;
        tracing::warn!(
            granted_bytes,
            wanted_bytes,
            "the kernel granted a smaller {name} buffer: {consequence}; raise it with \
             `sysctl {sysctl}={wanted_bytes}` (deploy/sysctl/60-forebay.conf)"
        );
    }
}

fn print_summary(totals: &Snapshot) -> io::Result<()> {
    output::print(&summary(totals))
}

/// A server that listens and does not serve yet.
///
/// Requests that arrive before [`Server::run`] wait in the sockets.
#[derive(Debug)]
pub struct Server {
    config: Config,
    group: Group,
    filter: AddressFilter,
    ways: Ways,
    notices: notices::Found,
    admin: TcpListener,
    stop: StopHandle,
    demands: Receiver<Demand>,
    signals: Option<signal_hook::iterator::Signals>,
    exit_when_stuck: bool,
    log_panics: bool,
}

impl Server {
    /// Binds both addresses of `config`, one UDP socket per worker. Raises this process's limit of open files to its
    /// hard limit.
    ///
    /// # Errors
    /// [`ServeError::Bind`] names the setting; [`ServeError::Descriptors`] the number of open files needed,
    /// [`ServeError::NoWay`] the system calls that would be needed; [`ServeError::NoNotices`] that this kernel lacks what
    /// `--notices ring` needs.
    pub fn bind(config: &Config) -> Result<Server, ServeError> {
        // The clock counts from its first reading, and what comes to the sockets must not come before that.
        clock::now();
        descriptors::provide(config.workers)?;
        let bind_error = |setting, address| move |source| ServeError::Bind { setting, address, source };
        // If they cannot be read, the control thread logs that once a second has passed.
        let addresses = HostAddresses::read().unwrap_or_default();
        if addresses.is_group(config.listen.ip()) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a broadcast address is not one host's");
            return Err(bind_error("listen", config.listen)(source));
        }
        let ways = Ways::find(config.listen, config.io)?;
        if !ways.refused.is_empty() {
            let refused: Vec<String> = ways.refused.iter().map(ToString::to_string).collect();
            tracing::warn!(
                receive = ways.receive.name(),
                send = ways.send.name(),
                "this system does not permit --io {}: {}",
                config.io.name(),
                refused.join("; ")
            );
        }
        let notices = notices::find(config.notices)?;
        let bound = Group::open(config.listen, config.workers, ways.receive);
        let mut group = bound.map_err(bind_error("listen", config.listen))?;
        let admin = TcpListener::bind(config.admin).map_err(bind_error("admin", config.admin))?;
        warn_of_small_buffers(&group);
        if let Some(bytes) = waiting::receive_buffer(config.max_wait_scaled()) {
            group.limit_recv_buffers(bytes)?;
        }
        let (stop, demands) = StopHandle::new();
        let filter = AddressFilter::new(group.address(), &config.reject_source_ports, addresses);
        Ok(Server {
            config: config.clone(),
            group,
            filter,
            ways,
            notices,
            admin,
            stop,
            demands,
            signals: None,
            exit_when_stuck: false,
            log_panics: true,
        })
    }

    /// The bound UDP address, where requests arrive.
    pub fn udp_address(&self) -> SocketAddr {
        self.group.address()
    }

    /// The bound address of the admin endpoint.
    pub fn admin_address(&self) -> SocketAddr {
        // A bound listener has an address; if the kernel does not report it, the configured one is the best answer.
        self.admin.local_addr().unwrap_or(self.config.admin)
    }

    /// A handle that stops the server from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// A handle that switches the policy from another thread.
    pub fn policy_handle(&self) -> PolicyHandle {
        self.stop.policy_handle(&self.config)
    }

    /// Also stops on SIGTERM and SIGINT, each signal acting as one call of [`StopHandle::stop`]. SIGHUP, SIGUSR1 and
    /// SIGUSR2, which would kill the process without a drain, do nothing.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn stop_on_signals(mut self) -> Result<Server, ServeError> {
        self.signals = Some(signals::catch()?);
        Ok(self)
    }

    /// Ends the process with exit code 3, after printing the summary, if the drain timeout has passed and a handler
    /// still does not reach a checkpoint. Without this, [`Server::run`] waits for the handler, because a thread cannot
    /// be taken away from it.
    pub fn exit_when_stuck(mut self) -> Server {
        self.exit_when_stuck = true;
        self
    }

    /// Leaves panics of the handler to the panic hook of the process. Without this, [`Server::run`] installs a hook
    /// that logs them (through `tracing`, or to standard error if there is no subscriber) from a thread of its own, ten
    /// per second at most, and passes all other panics on to the previous hook. A hook that writes from the worker's
    /// thread stops the service if its output is not read.
    pub fn keep_panic_hook(mut self) -> Server {
        self.log_panics = false;
        self
    }

    /// Serves requests with `handler` until stopped, then drains.
    ///
    /// # Errors
    /// When the kernel refuses threads, readiness queues or the like, and [`ServeError::Admin`].
    pub fn run<H: Handler>(self, handler: &H) -> Result<Report, ServeError> {
        self.run_announced(handler, || {})
    }

    /// Like [`Server::run`], and calls `serving` once all threads run.
    ///
    /// # Errors
    /// See [`Server::run`].
    pub fn run_announced<H: Handler>(self, handler: &H, serving: impl FnOnce()) -> Result<Report, ServeError> {
        let packets = ObjectPool::new(Sizes::of(self.config.workers).packets, PacketBody::new);
        run::run(self, handler, &packets, |packet| drive(handler, packet), serving)
    }
}

#[cfg(test)]
mod tests;
