//! Composition and life cycle: sockets, workers, admin HTTP, shutdown.

pub mod admin;

mod adapt;
mod admission;
mod arrivals;
mod control;
mod engine;
mod outbox;
mod pin;
mod run;
mod sizes;
mod slot;
mod stop;

pub use sizes::Memory;
pub use stop::{FollowError, PolicyHandle, StopHandle};

use crate::config::{Burn, Config, HandlerName};
use crate::handler::{Bench, Burner, Digest, Echo, Forking, Handler, Spin};
use crate::metrics::{Snapshot, summary};
use crate::net::{Group, RECV_BUFFER_BYTES};
use crate::packet::{Depot, PacketBody, drive};
use sizes::Sizes;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Receiver;
use stop::Demand;

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

/// What a server leaves behind.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub ended: Ended,
    /// Everything it counted and measured, exact: nothing moves any more.
    pub totals: Snapshot,
    /// Packets that were not home at the end; with nothing in flight there are none.
    pub packets_away: usize,
}

/// Runs the bench server that `config` describes until SIGTERM or SIGINT. Prints one line with the bound addresses when
/// it listens, and a summary at the end, to standard output.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &Config) -> Result<Ended, ServeError> {
    // Signals are caught before anybody is told that we are here: who was told may send one.
    let server = Server::bind(config)?.stop_on_signals()?.exit_when_stuck();
    println!("listening on udp {}, admin http://{}", server.udp_address(), server.admin_address());
    io::stdout().flush()?;
    let cap = config.cost_cap_scaled();
    let report = match config.handler {
        HandlerName::Echo => server.run(&Bench::new(Echo, cap)),
        HandlerName::Spin => server.run(&Bench::new(Spin::new(burner(config), config.time_scale), cap)),
        HandlerName::Fork => {
            let fork = Forking::new(burner(config), config.time_scale, config.slice_scaled(), config.workers);
            server.run(&Bench::new(fork, cap))
        }
        HandlerName::Digest => server.run(&Bench::new(Digest, cap)),
    }?;
    print_summary(&report.totals);
    Ok(report.ended)
}

fn burner(config: &Config) -> Burner {
    match config.burn {
        Burn::Cpu => Burner::calibrated(),
        Burn::Sleep => Burner::Sleep,
    }
}

/// Prints the summary, if anybody is still there to read it.
fn print_summary(totals: &Snapshot) {
    let _ = io::stdout().write_all(summary(totals).as_bytes());
}

/// A server that listens and does not serve yet.
///
/// Requests that arrive before [`Server::run`] wait in the sockets.
#[derive(Debug)]
pub struct Server {
    config: Config,
    group: Group,
    admin: TcpListener,
    stop: StopHandle,
    demands: Receiver<Demand>,
    signals: Option<signal_hook::iterator::Signals>,
    exit_when_stuck: bool,
}

impl Server {
    /// Binds both addresses of `config`, one UDP socket per worker.
    ///
    /// # Errors
    /// [`ServeError::Bind`] names the setting.
    pub fn bind(config: &Config) -> Result<Server, ServeError> {
        let bind_error = |setting, address| move |source| ServeError::Bind { setting, address, source };
        let group =
            Group::open(config.listen, config.workers, run::io(config)).map_err(bind_error("listen", config.listen))?;
        let admin = TcpListener::bind(config.admin).map_err(bind_error("admin", config.admin))?;
        let granted = group.recv_buffer_bytes();
        if granted < RECV_BUFFER_BYTES {
            tracing::warn!(
                granted_bytes = granted,
                wanted_bytes = RECV_BUFFER_BYTES,
                "the kernel granted a smaller receive buffer: bursts will be dropped sooner; \
                 raise it with `sysctl net.core.rmem_max={RECV_BUFFER_BYTES}` (deploy/sysctl/60-forebay.conf)"
            );
        }
        let (stop, demands) = StopHandle::new();
        Ok(Server { config: config.clone(), group, admin, stop, demands, signals: None, exit_when_stuck: false })
    }

    /// Where requests arrive.
    pub fn udp_address(&self) -> SocketAddr {
        self.group.address()
    }

    /// Where the admin endpoint listens.
    pub fn admin_address(&self) -> SocketAddr {
        // A bound listener has an address; if the kernel will not tell it, the configured one is the best answer.
        self.admin.local_addr().unwrap_or(self.config.admin)
    }

    /// What stops the server from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// What puts another policy to work from another thread.
    pub fn policy_handle(&self) -> PolicyHandle {
        self.stop.policy_handle(&self.config)
    }

    /// Stops on SIGTERM and SIGINT too; a second signal ends the drain at once.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn stop_on_signals(mut self) -> Result<Server, ServeError> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        self.signals = Some(signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?);
        Ok(self)
    }

    /// When the drain timeout has passed and a handler still does not come to a checkpoint, prints the summary and ends
    /// the process with exit code 3. Without this, [`Server::run`] waits for the handler: a thread cannot be taken
    /// away from it.
    pub fn exit_when_stuck(mut self) -> Server {
        self.exit_when_stuck = true;
        self
    }

    /// Serves requests with `handler` until it is stopped, then drains.
    ///
    /// # Errors
    /// When the kernel refuses threads, readiness queues or the like.
    pub fn run<H: Handler>(self, handler: &H) -> Result<Report, ServeError> {
        let packets = Depot::new(Sizes::of(self.config.workers).packets, PacketBody::new);
        run::run(self, handler, &packets, |packet| drive(handler, packet))
    }
}
