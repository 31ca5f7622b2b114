//! A server's life: threads start, work, drain, end. The order of a stop is argued in `runtime/README.md`.

use super::admin::{self, Probe};
use super::engine::{Common, Engine};
use super::slot::{Job, Slot};
use super::{Ended, Report, ServeError, Server, StopRequest, pin};
use crate::config::{Burn, Classify, Config, Wait};
use crate::handler::Handler;
use crate::metrics::{Board, Collector, Description, Surroundings, summary};
use crate::net::{BATCH, Group, Socket, kernel_dropped};
use crate::packet::{Depot, Packet, PacketBody};
use crate::runtime::{self, Shared};
use crate::sched::{Global, Isolated, Kind, Policy, PolicyName, Pools, Steal, Topology};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, ScopedJoinHandle};

/// Packets made for each worker. A worker holds at most 32 to receive into, 63 in its deque, 32 replies and one that
/// runs: 128. The rest is for the queues between pools, which together hold at most half of all packets, so that
/// however long those are, fresh requests can be received.
pub(super) const PACKETS_PER_WORKER: usize = 512;
const _: () = assert!(PACKETS_PER_WORKER / 2 > BATCH + 63 + BATCH);

/// How long a worker must have been in one job before thieves look into its socket, unscaled: longer than a light
/// request takes with its kernel part, shorter than anything worth waiting for.
const THIEF_THRESHOLD: Nanos = Nanos::from_micros(20);

/// Service time from which on a request counts as heavy for the flush rule, unscaled: some ten times what sending its
/// own reply costs.
const HEAVY_FROM: Nanos = Nanos::from_micros(20);

/// How long workers get to come to a checkpoint once the drain is over; then their handlers count as stuck.
const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// The exit code of a process that ends although a handler is stuck.
const EXIT_STUCK: i32 = 3;

/// How often a draining server looks whether it is done.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);

/// Serves with `handler`; `make` runs it on a packet. `F` is inferred here, once, and named nowhere.
pub(super) fn run<'s, H, M, F>(
    server: Server,
    handler: &H,
    packets: &'s Depot<PacketBody>,
    make: M,
) -> Result<Report, ServeError>
where
    H: Handler,
    M: Fn(Packet<'s>) -> F + Sync,
    F: Future<Output = Packet<'s>> + Send,
{
    let config = &server.config;
    let sockets = server.group.sockets();
    // Each packet can be in one continuation, and each worker keeps one slot at hand.
    let slots = Depot::new(packets.capacity() + config.workers, Slot::<F>::new);
    let common = Common {
        handler,
        make: &make,
        sockets,
        packets,
        slots: &slots,
        classified: config.classify == Classify::Header,
        emulated: config.burn == Burn::Sleep,
        heavy_from: config.scaled(HEAVY_FROM),
    };
    let board = Board::new(config.workers);
    let policy = policy(config);
    let ingress: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let queue_capacity = packets.capacity() / 2 / policy.topology().pools();
    let (shared, workers) = Shared::<Job<'s, '_, F>>::new(policy, wait(config), &ingress, queue_capacity)?;
    let mut collector = Collector::new(&board);
    let control = Control {
        config,
        group: &server.group,
        shared: &shared,
        board: &board,
        ready: AtomicBool::new(true),
        inodes: sockets.iter().map(Socket::inode).collect(),
    };
    let (ended, totals) = thread::scope(|scope| {
        let threads = workers
            .into_iter()
            .map(|worker| {
                let (common, shared, recorder) = (&common, &shared, board.recorder(worker.id()));
                let name = format!("forebay-{}", worker.id());
                thread::Builder::new().name(name).spawn_scoped(scope, move || {
                    let _guard = AbortOnPanic;
                    prepare_thread(config, worker.id());
                    let pool = shared.policy().topology().pool_of(worker.id());
                    let mut engine = Engine::new(common, worker.id(), pool, recorder);
                    worker.run(shared, &mut engine);
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let (admin_stopper, admin_stop) = admin::stop_pair();
        let (control, listener) = (&control, server.admin);
        let admin = thread::Builder::new().name(admin::THREAD_NAME.into()).spawn_scoped(scope, move || {
            let served = admin::run(listener, &mut collector, control, admin_stop);
            (collector, served)
        })?;
        let signals = server.signals.map(|mut signals| {
            let (handle, stop) = (signals.handle(), server.stop.clone());
            scope.spawn(move || signals.forever().for_each(|_| stop.stop()));
            handle
        });
        // A stop must always find packets to receive into, so these are set aside.
        let mut engine = Engine::new(&common, config.workers, 0, board.recorder(config.workers));
        engine.stock_up();
        tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
        // An error means that no handle is left that could stop the server; there is always the server's own.
        let _ = server.requests.recv();
        let ended = control.stop(&mut engine, &server.requests);
        let deadline = clock::now().plus(STUCK_AFTER);
        let stuck = || !threads.iter().all(ScopedJoinHandle::is_finished);
        while stuck() && clock::now() < deadline {
            thread::sleep(DRAIN_POLL.into());
        }
        let exit = stuck() && server.exit_when_stuck;
        if !exit {
            threads.into_iter().for_each(join);
            control.leave(&mut engine);
        }
        drop(engine);
        drop(admin_stopper);
        if let Some(handle) = signals {
            handle.close();
        }
        let (mut collector, served) = join(admin);
        collector.collect(|worker| control.wake(worker));
        let totals = collector.snapshot(control.surroundings());
        if exit {
            print!("{}", summary(&totals));
            std::process::exit(EXIT_STUCK);
        }
        served?;
        Ok::<_, io::Error>((ended, totals))
    })?;
    Ok(Report { ended, totals, packets_away: packets.away() })
}

/// What the control threads share: the one that waits for the stop, and the admin endpoint.
struct Control<'a, J> {
    config: &'a Config,
    group: &'a Group,
    shared: &'a Shared<J>,
    board: &'a Board,
    ready: AtomicBool,
    inodes: Vec<u64>,
}

impl<J: Send> Control<'_, J> {
    /// Stops: shuts the gate, ends what waits in the sockets, and lets the workers finish what they have.
    fn stop(&self, engine: &mut impl runtime::Engine<Job = J>, requests: &Receiver<StopRequest>) -> Ended {
        // Ordering: relaxed, a probe that comes a moment later sees it.
        self.ready.store(false, Ordering::Relaxed);
        tracing::info!(in_flight = self.board.in_flight(), "draining");
        if let Err(error) = self.group.shut_gate() {
            tracing::warn!(%error, "the gate cannot be shut: what arrives while the sockets close is lost uncounted");
        }
        self.shared.stop_receiving();
        (0..self.config.workers).for_each(|owner| shed_waiting(engine, owner));
        let ended = self.drain(requests);
        if ended == Ended::Forced {
            self.shared.abandon();
        }
        self.shared.stop();
        ended
    }

    /// All workers have ended: ends what none of them took, and takes the sockets out of the kernel's sight.
    fn leave(&self, engine: &mut impl runtime::Engine<Job = J>) {
        while let Some(job) = self.shared.leftover() {
            engine.shed_draining(job);
        }
        engine.flush();
        if let Err(error) = self.group.leave() {
            tracing::warn!(%error, "the sockets cannot leave: drops of the last moment are not counted");
        }
    }

    /// Waits until nothing is in flight, the timeout passes, or a second request comes.
    fn drain(&self, requests: &Receiver<StopRequest>) -> Ended {
        let deadline = clock::now().plus(self.config.drain_timeout);
        loop {
            if self.board.in_flight() == 0 {
                return Ended::Drained;
            }
            if clock::now() >= deadline || requests.recv_timeout(DRAIN_POLL.into()).is_ok() {
                return Ended::Forced;
            }
        }
    }
}

impl<J: Send> Probe for Control<'_, J> {
    fn ready(&self) -> bool {
        // Ordering: relaxed, see `stop`.
        self.ready.load(Ordering::Relaxed)
    }

    fn surroundings(&self) -> Surroundings {
        let config = self.config;
        let names = |pool: usize| match config.policy {
            PolicyName::Pools => config.pools[pool].name.clone(),
            PolicyName::Isolated | PolicyName::Global | PolicyName::Steal => "all".to_owned(),
        };
        let mut queue_depths: Vec<(String, usize)> =
            self.shared.queue_lengths().enumerate().map(|(pool, length)| (names(pool), length)).collect();
        queue_depths.push(("deques".to_owned(), self.shared.deque_lengths().sum()));
        Surroundings {
            description: Description {
                policy: config.policy.name().to_owned(),
                workers: config.workers,
                burn: config.burn.name().to_owned(),
                time_scale: config.time_scale,
            },
            // Without the table no drop can be told; zero is then what is known.
            kernel_dropped: kernel_dropped(&self.inodes).unwrap_or_else(|_| vec![0; self.inodes.len()]),
            queue_depths,
        }
    }

    fn wake(&self, worker: usize) {
        // The last recorder is this side's own.
        if worker < self.config.workers {
            self.shared.wake(worker);
        }
    }
}

/// Ends every datagram that waits in the socket of `owner`, behind a shut gate.
fn shed_waiting<J>(engine: &mut impl runtime::Engine<Job = J>, owner: usize) {
    let mut jobs = Vec::with_capacity(BATCH);
    loop {
        let received = engine.receive(owner, &mut |job, _| {
            jobs.push(job);
            Ok(())
        });
        // Batch by batch, so that their packets serve for the next one.
        jobs.drain(..).for_each(|job| engine.shed_draining(job));
        engine.flush();
        if received == 0 {
            return;
        }
    }
}

fn policy(config: &Config) -> Policy {
    let sizes: Vec<usize> = config.pools.iter().map(|pool| pool.workers).collect();
    let kind = match config.policy {
        PolicyName::Isolated => Kind::Isolated(Isolated),
        PolicyName::Global => Kind::Global(Global),
        PolicyName::Steal => Kind::Steal(Steal { thief_threshold: config.scaled(THIEF_THRESHOLD) }),
        PolicyName::Pools => Kind::Pools(Pools { slice: config.slice_scaled() }),
    };
    Policy::new(kind, &Topology::new(&sizes))
}

fn wait(config: &Config) -> runtime::Wait {
    match config.wait {
        Wait::Adaptive => runtime::Wait::Adaptive,
        Wait::Spin => runtime::Wait::Spin,
        Wait::Park => runtime::Wait::Park,
    }
}

/// What a worker's thread needs from the kernel; it works without, only less well.
fn prepare_thread(config: &Config, worker: usize) {
    if config.pin
        && let Err(error) = pin::pin_to_cpu_of(worker)
    {
        tracing::warn!(worker, %error, "the worker cannot be pinned");
    }
    if config.burn == Burn::Sleep
        && let Err(error) = nix::sys::prctl::set_timerslack(1)
    {
        tracing::warn!(worker, %error, "emulated cores will oversleep: the timer slack cannot be set");
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A panic of the runtime itself is the end: other workers would wait forever for what this one held.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
