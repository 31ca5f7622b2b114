//! [`Server`]: from binding to running.

use super::admin::{self, Metrics, waiting};
use super::board::Board;
use super::cores::Cores;
use super::error::ServeError;
use super::life;
use super::life::report::Report;
use super::life::start::{Bound, Conduct, Start};
use super::life::stop::{Ending, StopHandle};
use super::life::supervisor::Supervisor;
use super::listening::{self, InheritedSockets, Listening};
use super::notices;
use super::path::packet::PacketBody;
use super::path::serving::Serving;
use super::reload::Reloads;
use super::shown::{self, Counter, Gauge, Metric};
use super::sizes::{self, Memory};
use super::spawner::{self, Spawner};
use crate::config::{Config, listen_text};
#[cfg(feature = "cli")]
use crate::config::{Effective, Problems};
use crate::handler::{Service, Teller};
use crate::net::{AddressFilter, Credit, HostAddresses, KernelLink, probe};
use crate::output;
use crate::runtime::continuation::{Panic, discard, guarded};
use crate::runtime::queue::ObjectPool;
use crate::runtime::samples::Samples;
use crate::sched::overload::WaitLimits;
use crate::time::clock;
use std::net::SocketAddr;
use std::path::Path;
use std::{fmt, io};

/// A server that listens but does not serve yet.
///
/// Requests that arrive before [`Server::run`] wait in the sockets.
#[must_use = "dropping it closes its sockets"]
pub struct Server {
    pub(super) start: Start,
    announced: bool,
}

impl Server {
    /// Binds the addresses of `config`, with one UDP socket per worker on each address of `listen`.
    /// With `handover`, takes the sockets of the server that listens at its path, if there is one.
    /// Raises this process's limit of open files to the hard limit.
    ///
    /// # Errors
    /// [`ServeError::Bind`] names the address. [`ServeError::Unavailable`] names the setting that
    /// needs more open files, memory or system calls than this system gives.
    /// [`ServeError::HandOver`] says why the running server keeps serving.
    pub fn bind(config: &Config) -> Result<Server, ServeError> {
        Server::with(config, InheritedSockets::default())
    }

    /// As [`Server::bind`], but with the sockets that systemd passes (`LISTEN_FDS`), if there are
    /// any. Removes these variables from the environment, so call it before other threads read the
    /// environment.
    ///
    /// # Errors
    /// As [`Server::bind`], and [`ServeError::Unavailable`] if the sockets do not match `config`.
    #[cfg(feature = "admin")]
    pub fn bind_or_inherit(config: &Config) -> Result<Server, ServeError> {
        Server::with(config, InheritedSockets::from_environment()?)
    }

    pub(super) fn with(config: &Config, inherited: InheritedSockets) -> Result<Server, ServeError> {
        // The clock counts from its first reading, which must come before the first datagram.
        clock::now();
        sizes::provide_descriptors(config.workers, config.listen.len())?;
        Memory::of(config).probe(config.stack_bytes)?;
        // If unreadable, the control thread logs it after a second.
        let addresses = HostAddresses::read().unwrap_or_default();
        if let Some(&address) = config.listen.iter().find(|address| addresses.is_group(address.ip())) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a broadcast address is not one host's");
            return Err(ServeError::Bind { setting: "listen", address, source });
        }
        probe(&config.listen, config.io).map_err(ServeError::Unavailable)?;
        let notices = notices::find(config.notices)?;
        let mut listening = Listening::open(config, inherited)?;
        let (recv_bytes, send_bytes) = (listening.group.recv_buffer_bytes, listening.group.send_buffer_bytes);
        listening::small_buffers(recv_bytes, send_bytes).iter().for_each(|small| tracing::warn!("{small}"));
        if !Path::new("/proc/self/stat").exists() {
            tracing::warn!("/proc is not mounted: process_* and how long workers wait for a CPU are not known");
        }
        let bytes = waiting::receive_buffer(config.max_wait_scaled(), config.time_scale);
        listening.group.limit_recv_buffers(bytes)?;
        let (stop, demands) = StopHandle::new();
        let (metrics, questions) = Metrics::new();
        let filter = AddressFilter::new(
            &listening.group.addresses,
            &config.reject_source_ports,
            &config.trusted_networks,
            addresses,
        );
        let is_gated = admin::gate::is_on(config);
        let samples = Samples::new(config.workers, waiting::beside(config), config.source_prefix, is_gated);
        let board = Board::new(config.workers, samples, WaitLimits::unmeasured(config.max_wait_scaled()));
        let spawning = spawner::Owner::new(config.workers, sizes::slots(config));
        let start = Start {
            bound: Bound { listening, config: config.clone(), filter, notices, spawning, board, own: Vec::new() },
            conduct: Conduct { stop, exit_when_stuck: false, log_panics: true, supervisor: Supervisor::default() },
            demands,
            signals: None,
            reloads: Reloads::none(config),
            questions,
            metrics,
            packets: sizes::packets(config),
        };
        Ok(Server { start, announced: false })
    }

    /// The bound UDP address where requests arrive; the first if there are several.
    pub fn udp_address(&self) -> SocketAddr {
        self.udp_addresses()[0]
    }

    /// The bound UDP addresses where requests arrive, at least one, in the order of `listen`.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.start.bound.listening.group.addresses
    }

    /// The bound address of the admin endpoint; `None` = no endpoint.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        // If the kernel does not report the bound address, the configured one is the best answer.
        let Bound { listening, config, .. } = &self.start.bound;
        listening.admin.as_ref().and_then(|listener| listener.local_addr().ok().or(config.admin))
    }

    /// The line that `forebay serve` prints when it serves: `listening on udp 127.0.0.1:9000, admin
    /// http://127.0.0.1:9001`, or `admin off`. Commas without spaces separate several UDP
    /// addresses.
    pub fn announcement(&self) -> String {
        let admin = self.admin_address().map_or_else(|| "off".to_owned(), |address| format!("http://{address}"));
        format!("listening on udp {}, admin {admin}", listen_text(self.udp_addresses()))
    }

    /// A handle that reads this server's measurements from another thread.
    pub fn metrics(&self) -> Metrics {
        self.start.metrics.clone()
    }

    /// A handle that stops the server from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.start.conduct.stop.clone()
    }

    /// Also stops on SIGTERM, SIGINT and SIGQUIT; each signal acts as one call of
    /// [`StopHandle::stop`]. SIGHUP makes a program of `forebay::main` reload its configuration. In
    /// other programs it does nothing, and neither do SIGUSR1 and SIGUSR2. Uncaught, each would
    /// kill the process without a drain. Signals that the launcher blocked or ignored are caught
    /// too: even under `nohup`, SIGHUP reloads the configuration.
    ///
    /// If a handler never reaches a checkpoint, a second signal ends the process with exit code 3,
    /// after the summary. After the drain, a second signal ends the process with exit code 3 within
    /// a second. This holds for whatever a handler has left: blocking tasks, destructors, metrics.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn stop_on_signals(mut self) -> Result<Server, ServeError> {
        self.start.signals = Some(life::stop::catch_signals()?);
        Ok(self)
    }

    /// Ends the process with exit code 3, after the summary, if a handler does not reach a
    /// checkpoint within the drain timeout. Also ends the process, without the summary, three
    /// seconds after the drain timeout, if anything else of the handler keeps the server. Without
    /// this, [`Server::run`] waits for the handler, because a thread cannot be taken away from it,
    /// or for a second signal of [`Server::stop_on_signals`].
    pub fn exit_when_stuck(mut self) -> Server {
        self.start.conduct.exit_when_stuck = true;
        self
    }

    /// Makes [`Server::run`] print where the server listens.
    #[cfg(feature = "cli")]
    pub(crate) fn announced(mut self) -> Server {
        self.announced = true;
        self
    }

    /// Tells systemd the server's state, if asked to (`NOTIFY_SOCKET`, `WATCHDOG_USEC`). A server
    /// that takes over from another one feeds that one's watchdog too.
    pub fn notify_supervisor(mut self) -> Server {
        let predecessor = self.start.bound.listening.predecessor.as_ref().and_then(|predecessor| predecessor.watchdog);
        self.start.conduct.supervisor = Supervisor::from_environment(predecessor);
        self
    }

    /// Lets the server reload its configuration by `load` on SIGHUP. `effective` is the
    /// configuration that it was bound with. Settings that may change then do, all of them or none.
    #[cfg(feature = "cli")]
    pub(crate) fn reload_with(
        mut self,
        effective: Effective,
        load: impl Fn() -> Result<Effective, Problems> + Send + Sync + 'static,
    ) -> Server {
        self.start.reloads = Reloads::new(effective, Some(Box::new(load)));
        self
    }

    /// Calls `then` with each configuration that the server takes.
    #[cfg(feature = "cli")]
    pub(crate) fn follow(mut self, then: impl Fn(&Config) + Send + Sync + 'static) -> Server {
        self.start.reloads.then.push(Box::new(then));
        self
    }

    /// Calls `take` on each SIGHUP with new values of the settings that the program adds. `A` is
    /// the struct that [`main`](crate::main) gave to the program, or `()`. Use it also to read
    /// files again. If `take` returns an error or panics, nothing changes, and the log says why.
    /// The server's own settings change after `take`. Serving goes on meanwhile; a stop waits until
    /// `take` returns. A second call replaces the first.
    #[cfg(feature = "cli")]
    pub fn on_reload<A: clap::Args, E: fmt::Display>(
        mut self,
        take: impl Fn(A) -> Result<(), E> + Send + Sync + 'static,
    ) -> Server {
        self.start.reloads.service = Some(Box::new(move |own| {
            let own = A::from_arg_matches(&own.matches).map_err(|error| error.to_string())?;
            take(own).map_err(|error| error.to_string())
        }));
        self
    }

    /// Shows `counter` on `/metrics`, under `name` with the suffix `_total`. Keep a clone of it, to
    /// add to it.
    ///
    /// # Errors
    /// [`ServeError::Name`] unless the name is new, begins with a letter, and has only letters,
    /// digits and `_`. The server's own prefixes (`forebay_`, `process_`) are not allowed, nor are
    /// more than 256 metrics.
    pub fn counter(mut self, name: &str, help: &str, counter: &Counter) -> Result<Server, ServeError> {
        shown::add(&mut self.start.bound.own, name, help, Metric::Counter(counter.clone()))?;
        Ok(self)
    }

    /// As [`Server::counter`], for a value that may also fall. The name gets no `_total`.
    ///
    /// # Errors
    /// As [`Server::counter`].
    pub fn gauge(mut self, name: &str, help: &str, gauge: &Gauge) -> Result<Server, ServeError> {
        shown::add(&mut self.start.bound.own, name, help, Metric::Gauge(gauge.clone()))?;
        Ok(self)
    }

    /// A [`Spawner`] that puts work on this server's workers. Work spawned before [`Server::run`]
    /// waits for it. At a stop, accepted work is finished like requests, within the drain timeout.
    pub fn spawner(&self) -> Spawner {
        self.start.bound.spawning.spawner()
    }

    /// Leaves panics of the handler to the process's panic hook. Without this, [`Server::run`]
    /// installs a hook that lets the control thread log them, within a second and at most ten per
    /// second. It logs through `tracing`, or to standard error without a subscriber. All other
    /// panics go to the previous hook. A hook that writes from the worker's thread stops the
    /// service if nothing reads its output.
    pub fn keep_panic_hook(mut self) -> Server {
        self.start.conduct.log_panics = false;
        self
    }

    /// Serves requests with `handler`, any [`Service`], until stopped, then drains. Under
    /// `forebay::main` it prints its [announcement](Server::announcement) once all threads run.
    ///
    /// # Errors
    /// [`ServeError::Name`] if a name in [`Service::CLASS_NAMES`] or [`Service::REASON_NAMES`] is
    /// not allowed. [`ServeError::Admin`] if the endpoint fails. [`ServeError::Unavailable`] if
    /// [`Service::shard`] or the default of a ticket panics, or with `burn = "sleep"`, which only
    /// the bench server supports. Others when the kernel refuses threads or readiness queues.
    pub fn run<H: Service>(self, handler: &H) -> Result<Report, ServeError> {
        self.run_as::<KernelLink, H>(handler)
    }

    /// As [`Server::run`], on cores of kind `C`.
    pub(super) fn run_as<C: Cores, H: Service>(self, handler: &H) -> Result<Report, ServeError> {
        let line = self.announced.then(|| self.announcement() + "\n");
        let serving = || {
            if let Some(Err(error)) = line.map(|line| output::print(&line)) {
                tracing::error!(%error, "standard output does not take the line that says where the server listens");
            }
        };
        if self.start.bound.config.burn != C::BURN {
            let why = "burn = \"sleep\": only the bench server sleeps in place of work; allowed: burn cpu";
            return Err(ServeError::Unavailable(why.to_owned()));
        }
        shown::check(&H::CLASS_NAMES, H::REASON_NAMES)?;
        if H::TRANSPORT {
            self.start.bound.listening.group.be_transport()?;
        }
        let (count, config) = (self.start.packets, &self.start.bound.config);
        let packet = |number| PacketBody::new(number, config.datagram_max);
        let packets = made("a ticket", || ObjectPool::new(count, packet))?;
        let credit = Credit::new(config.amplification, config.amplification_allowance, config.source_prefix);
        let outside = &self.start.bound.spawning.0.outside;
        let bounds = sizes::shards(config, H::ROOM, self.start.bound.listening.group.sockets.len());
        let requests = made("a shard", || Serving::new(handler, outside, self.udp_addresses(), credit, bounds))?;
        made("its start", || handler.started(&Teller::new(requests.room.reached())))?;
        let mut ending = Ending::default();
        let report = life::run::run::<C, _, _>(self.start, &requests, &packets, requests.make(), serving, &mut ending);
        // Tickets are dropped one by one: a panic on the way keeps no other one.
        packets.empty(discard);
        drop(requests);
        // Now no destructor of the service can hang any more.
        drop(ending);
        report
    }
}

/// What `make` makes with the service's own code, before the first request.
fn made<T>(what: &str, make: impl FnOnce() -> T) -> Result<T, ServeError> {
    let said = |panic: Panic| format!("the service cannot make {what}: it panicked: {}", panic.message());
    guarded(make).map_err(|panic| ServeError::Unavailable(said(panic)))
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("udp_addresses", &self.udp_addresses()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests;
