//! Composition and life cycle: sockets, workers, admin HTTP, shutdown.
//!
//! A [`Server`] is bound, then run on the calling thread until it is told to stop, and ends with a
//! [`Report`]:
//!
//! ```
//! use forebay::{Reply, Request, Server, handler_fn};
//! use forebay::server::Ended;
//! use std::net::UdpSocket;
//!
//! let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(2).bind()?;
//! let (address, stop) = (server.udp_address(), server.stop_handle());
//! let thread = std::thread::spawn(move || {
//!     server.run(&handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
//!         reply.put(request.bytes()).expect("it is as long as the request");
//!     }))
//! });
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"anyone there?", address)?;
//! assert_eq!(client.recv(&mut [0; 64])?, 13);
//!
//! stop.stop();
//! let report = thread.join().expect("no panic")?;
//! assert_eq!((report.ended, report.totals.fates.answered), (Ended::Drained, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admin;
#[cfg(feature = "cli")]
mod bench;
mod builder;
mod cores;
pub(crate) mod emulated;
mod error;
#[cfg(all(test, feature = "cli"))]
mod explore;
#[cfg(test)]
#[path = "../../tests/support/golden.rs"]
mod golden;
mod life;
mod listening;
mod notices;
mod path;
mod sender;
mod shown;
mod sizes;
mod spawner;
pub(crate) mod yields;

pub use admin::Metrics;
#[cfg(feature = "cli")]
pub(crate) use bench::run_bench;
pub use builder::Builder;
pub use error::ServeError;
pub use life::handover::HandOverError;
pub use life::stop::StopHandle;
pub use sender::Sender;
pub use sizes::Memory;
pub use spawner::{SpawnError, Spawned, Spawner, Unfinished};

use crate::config::{Config, listen_text};
use crate::handler::Handler;
use crate::metrics::{OwnValue, Snapshot, SpawnEnd, WorkerMetrics};
use crate::net::{AddressFilter, HostAddresses, KernelLink, probe};
use crate::output;
use crate::queue::ObjectPool;
use crate::sched::bounds::PACKETS_PER_WORKER;
use crate::sched::overload::WaitLimits;
use crate::time::clock;
use admin::Questions;
use admin::waiting;
use arc_swap::ArcSwap;
use cores::Cores;
use life::reload::Reloads;
use life::stop::Demands;
use life::supervisor::Supervisor;
use listening::{Inherited, Listening};
use path::common::Transport;
use path::packet::{PacketBody, Serving};
use path::reply::credit::Credit;
use path::samples::Samples;
use shown::Read;
use spawner::Spawning;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::{fmt, io};

/// How a server run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Everything received or spawned was finished.
    Drained,
    /// The drain timeout passed, or a second signal came, with requests, spawned work or blocking
    /// tasks unfinished.
    Forced,
}

impl Ended {
    /// Determined by what was lost, and by whether blocking tasks were `all_done`, not by how long
    /// the stop took or whether it was hastened.
    fn with(totals: &Snapshot, all_done: bool) -> Ended {
        let lost =
            totals.fates.shed_draining + totals.fates.in_flight + totals.gauges.spawned[SpawnEnd::Stopped as usize];
        if lost > 0 || !all_done { Ended::Forced } else { Ended::Drained }
    }
}

/// The result of a server run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// How the run ended.
    pub ended: Ended,
    /// All counters and measurements, exact because nothing moves any more.
    pub totals: Snapshot,
    /// Packets not returned to their pool at the end; 0 if nothing is in flight.
    pub packets_away: usize,
}

/// A server that listens and does not serve yet.
///
/// Requests that arrive before [`Server::run`] wait in the sockets.
pub struct Server {
    bound: Bound,
    demands: Demands,
    signals: Option<signal_hook::iterator::Signals>,
    reloads: Reloads,
    questions: Questions,
    announced: bool,
    metrics: Metrics,
}

/// What a server keeps to its end.
// Dropped in this order: the sockets before the spawned work that no worker takes any more.
struct Bound {
    listening: Listening,
    config: Config,
    filter: AddressFilter,
    notices: notices::Found,
    stop: StopHandle,
    exit_when_stuck: bool,
    log_panics: bool,
    supervisor: Supervisor,
    /// Metrics of the handler's own, in the order in which they were added.
    own_metrics: Vec<(OwnValue, Read)>,
    spawning: spawner::Owner,
    packets: usize,
    /// How long requests may wait. Written by the admin thread once a second.
    limits: ArcSwap<WaitLimits>,
    /// The kernel's number of each worker's thread; 0 before it runs.
    threads: Box<[AtomicI32]>,
    /// Who uses the workers' time.
    samples: Samples,
    /// The workers' record of failed receives and sends.
    transport: Transport,
    metrics: WorkerMetrics,
}

impl Server {
    /// Binds the addresses of `config`, on each of `listen` one UDP socket per worker. With
    /// `handover` in `config`, it takes the sockets of the server that listens there, if there is
    /// one. Raises this process's limit of open files to its hard limit.
    ///
    /// # Errors
    /// [`ServeError::Bind`] names the address. [`ServeError::Unavailable`] says which setting asks
    /// for more open files, memory or system calls than this system gives. [`ServeError::HandOver`]
    /// says why the running server serves on.
    pub fn bind(config: &Config) -> Result<Server, ServeError> {
        Server::with(config, Inherited::default())
    }

    /// Like [`Server::bind`], but with the sockets that systemd passes (`LISTEN_FDS`), if there are
    /// any. Removes these variables from the environment, and so must be called before other
    /// threads read it.
    ///
    /// # Errors
    /// See [`Server::bind`]; [`ServeError::Unavailable`] when the sockets are not those that
    /// `config` asks for.
    #[cfg(feature = "admin")]
    pub fn bind_or_inherit(config: &Config) -> Result<Server, ServeError> {
        Server::with(config, Inherited::from_environment()?)
    }

    fn with(config: &Config, inherited: Inherited) -> Result<Server, ServeError> {
        // The clock counts from its first reading, and what comes to the sockets must not come
        // before that.
        clock::now();
        sizes::provide_descriptors(config.workers, config.listen.len())?;
        Memory::of(config).probe(config.stack_bytes)?;
        // If they cannot be read, the control thread logs that once a second has passed.
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
            listening.group.addresses(),
            &config.reject_source_ports,
            &config.trusted_networks,
            addresses,
        );
        let addresses = listening.group.addresses().len();
        let is_gated = admin::gate::is_on(config);
        let samples = Samples::new(config.workers, waiting::beside(config), config.source_prefix, is_gated);
        let bound = Bound {
            listening,
            config: config.clone(),
            filter,
            notices,
            stop,
            exit_when_stuck: false,
            log_panics: true,
            supervisor: Supervisor::default(),
            own_metrics: Vec::new(),
            spawning: spawner::Owner(Arc::new(Spawning::new(config.workers))),
            packets: config.workers * PACKETS_PER_WORKER,
            limits: ArcSwap::from_pointee(waiting::limits(config)),
            samples,
            threads: (0..config.workers).map(|_| AtomicI32::new(0)).collect(),
            transport: Transport::new(config.workers, addresses),
            metrics: WorkerMetrics::new(config.workers),
        };
        let reloads = Reloads::none(config);
        Ok(Server { bound, demands, signals: None, reloads, questions, announced: false, metrics })
    }

    /// The bound UDP address, where requests arrive; of several the first.
    pub fn udp_address(&self) -> SocketAddr {
        self.udp_addresses()[0]
    }

    /// The bound UDP addresses, where requests arrive, at least one, in the order of `listen`.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        self.bound.listening.group.addresses()
    }

    /// The bound address of the admin endpoint; `None` if there is none.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        // A bound listener has an address; if the kernel does not report it, the configured one is
        // the best answer.
        self.bound.listening.admin.as_ref().and_then(|listener| listener.local_addr().ok().or(self.bound.config.admin))
    }

    /// What `forebay serve` says when it serves:
    /// `listening on udp 127.0.0.1:9000, admin http://127.0.0.1:9001`, or `admin off`. Several UDP
    /// addresses are separated by commas, without spaces.
    pub fn announcement(&self) -> String {
        let admin = self.admin_address().map_or_else(|| "off".to_owned(), |address| format!("http://{address}"));
        format!("listening on udp {}, admin {admin}", listen_text(self.udp_addresses()))
    }

    /// A handle that tells what this server has measured, from another thread.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// A handle that stops the server from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.bound.stop.clone()
    }

    /// Also stops on SIGTERM, SIGINT and SIGQUIT, each signal acting as one call of
    /// [`StopHandle::stop`]. SIGHUP makes a program of `forebay::main` read its configuration
    /// again; in other programs it does nothing, and neither do SIGUSR1 and SIGUSR2. Uncaught, each
    /// would kill the process without a drain. It makes no difference whether the launcher had
    /// blocked or ignored them: under `nohup` too, SIGHUP reads the configuration.
    ///
    /// Where a handler never reaches a checkpoint, a second signal ends the process with exit code
    /// 3, after the summary. After the drain a second signal ends the process with exit code 3
    /// within a second, whatever a handler has left: blocking tasks, destructors, metrics.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn stop_on_signals(mut self) -> Result<Server, ServeError> {
        self.signals = Some(life::stop::catch_signals()?);
        Ok(self)
    }

    /// Ends the process with exit code 3, after printing the summary. It does so if the drain
    /// timeout has passed and a handler does not reach a checkpoint. It also ends the process,
    /// without the summary, three seconds after the drain timeout, if something else of the handler
    /// keeps the server. Without this, [`Server::run`] waits for the handler, because a thread
    /// cannot be taken away from it, or for the second signal of [`Server::stop_on_signals`].
    pub fn exit_when_stuck(mut self) -> Server {
        self.bound.exit_when_stuck = true;
        self
    }

    /// Makes [`Server::run`] print where the server listens.
    #[cfg(feature = "cli")]
    pub(crate) fn announced(mut self) -> Server {
        self.announced = true;
        self
    }

    /// Tells systemd what the server does, where it asks for that (`NOTIFY_SOCKET`,
    /// `WATCHDOG_USEC`). A server that takes over from another one feeds the watchdog of that one
    /// too.
    pub fn notify_supervisor(mut self) -> Server {
        let predecessor = self.bound.listening.predecessor.as_ref().and_then(|predecessor| predecessor.watchdog);
        self.bound.supervisor = Supervisor::from_environment(predecessor);
        self
    }

    /// Leaves panics of the handler to the panic hook of the process. Without this, [`Server::run`]
    /// installs a hook that lets the control thread log them, within a second and ten per second at
    /// most. It logs through `tracing`, or to standard error if there is no subscriber. All other
    /// panics go to the previous hook. A hook that writes from the worker's thread stops the
    /// service if its output is not read.
    pub fn keep_panic_hook(mut self) -> Server {
        self.bound.log_panics = false;
        self
    }

    /// Serves requests with `handler` until stopped, then drains. Under `forebay::main` it prints
    /// its [announcement](Server::announcement) once all threads run.
    ///
    /// # Errors
    /// [`ServeError::Name`] when a name in [`Handler::CLASS_NAMES`] or [`Handler::REASON_NAMES`] is
    /// not allowed, [`ServeError::Admin`], and when the kernel refuses threads, readiness queues or
    /// the like. [`ServeError::Unavailable`] with `burn = "sleep"`, which is the bench server's.
    pub fn run<H: Handler>(self, handler: &H) -> Result<Report, ServeError> {
        self.run_as::<KernelLink, H>(handler)
    }

    /// As [`Server::run`], on cores of kind `C`.
    fn run_as<C: Cores, H: Handler>(self, handler: &H) -> Result<Report, ServeError> {
        let line = self.announced.then(|| self.announcement() + "\n");
        self.run_on::<C, H>(handler, || {
            if let Some(Err(error)) = line.map(|line| output::print(&line)) {
                tracing::error!(%error, "standard output does not take the line that says where the server listens");
            }
        })
    }

    /// Like [`Server::run`], and calls `serving` once all threads run. Prints nothing of its own.
    ///
    /// # Errors
    /// See [`Server::run`].
    pub fn run_announced<H: Handler>(self, handler: &H, serving: impl FnOnce()) -> Result<Report, ServeError> {
        self.run_on::<KernelLink, H>(handler, serving)
    }

    /// As [`Server::run_announced`], on cores of kind `C`.
    fn run_on<C: Cores, H: Handler>(self, handler: &H, serving: impl FnOnce()) -> Result<Report, ServeError> {
        if self.bound.config.burn != C::BURN {
            let why = "burn = \"sleep\": only the bench server sleeps in place of work; allowed: burn cpu";
            return Err(ServeError::Unavailable(why.to_owned()));
        }
        shown::check::<H>()?;
        let (count, config) = (self.bound.packets, &self.bound.config);
        let packets = ObjectPool::new(count, |number| PacketBody::new(number, config.datagram_max));
        let credit = Credit::new(config.amplification, config.amplification_allowance, config.source_prefix);
        let requests = Serving::new(handler, self.udp_addresses(), credit, count);
        life::run::run::<C, _, _>(self, &requests, &packets, requests.make(), serving)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("udp_addresses", &self.udp_addresses()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests;
