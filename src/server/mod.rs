//! Composition and life cycle: sockets, workers, admin HTTP, shutdown.

pub mod admin;

mod adapt;
mod admission;
mod arrivals;
mod control;
mod engine;
#[cfg(test)]
mod explore;
mod outbox;
mod pin;
mod run;
mod sizes;
mod slot;
mod stations;
mod stop;
mod transport;

pub use sizes::Memory;
pub use stop::{FollowError, PolicyHandle, StopHandle};

use crate::config::{Burn, Config, HandlerName};
use crate::handler::{Bench, Burner, Digest, Echo, Forking, Handler, Spin};
use crate::metrics::{Snapshot, summary};
use crate::net::{AddressFilter, Group, HostAddresses, NoWay, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, Ways};
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
    /// This system lets nobody receive datagrams, or send them.
    #[error("{0}; allow one of these calls, or choose another --io or --listen")]
    NoWay(#[from] NoWay),
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
    filter: AddressFilter,
    ways: Ways,
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
    /// [`ServeError::Bind`] names the setting; [`ServeError::NoWay`] says which system calls would be needed.
    pub fn bind(config: &Config) -> Result<Server, ServeError> {
        let bind_error = |setting, address| move |source| ServeError::Bind { setting, address, source };
        // Where they cannot be read, the control thread says so once a second has passed.
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
        let bound = Group::open(config.listen, config.workers, ways.receive);
        let group = bound.map_err(bind_error("listen", config.listen))?;
        let admin = TcpListener::bind(config.admin).map_err(bind_error("admin", config.admin))?;
        warn_of_small_buffers(&group);
        let (stop, demands) = StopHandle::new();
        let filter = AddressFilter::new(group.address(), &config.reject_source_ports, addresses);
        Ok(Server {
            config: config.clone(),
            group,
            filter,
            ways,
            admin,
            stop,
            demands,
            signals: None,
            exit_when_stuck: false,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    // Is each buffer that is too small named with the setting that stands in deploy/sysctl, and no other?
    #[test]
    fn small_buffers_name_their_sysctl() {
        let deployed = include_str!("../../deploy/sysctl/60-forebay.conf");
        assert_eq!(small_buffers(RECV_BUFFER_BYTES, SEND_BUFFER_BYTES).count(), 0);
        for (receive, send, sysctl) in
            [(212_992, SEND_BUFFER_BYTES, "net.core.rmem_max"), (RECV_BUFFER_BYTES, 212_992, "net.core.wmem_max")]
        {
            let small: Vec<SmallBuffer> = small_buffers(receive, send).collect();
            let [SmallBuffer { granted_bytes: 212_992, wanted_bytes, sysctl: named, .. }] = small[..] else {
                panic!("{small:?}")
            };
            assert_eq!(named, sysctl);
            assert!(deployed.contains(&format!("\n{sysctl} = {wanted_bytes}\n")), "{sysctl}");
        }
    }
}
