//! A server's life: threads start, work, drain, end. The order of a stop is argued in `runtime/README.md`.

use super::admin::{self, Probe as _};
use super::control::{Control, Following};
use super::engine::{Common, Engine};
use super::sizes::Sizes;
use super::slot::{Job, Slot};
use super::stations::Stations;
use super::stop::Demand;
use super::transport::Transport;
use super::{Report, ServeError, Server, pin};
use crate::config::{Burn, Classify, Config};
use crate::handler::{Handler, Station, new_home};
use crate::metrics::{Board, Collector};
use crate::net::{Drops, Io, KernelLink, Socket};
use crate::packet::{Depot, Packet, PacketBody};
use crate::runtime::{self, Shared};
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, Once};
use std::thread::{self, ScopedJoinHandle};

/// The exit code of a process that ends although a handler is stuck.
const EXIT_STUCK: i32 = 3;

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
    let sizes = Sizes::of(config.workers);
    let home = new_home();
    let mut numbers = 0..;
    let slots = Depot::new(sizes.slots, || {
        let number = numbers.next().expect("numbers without end");
        Slot::<F>::new(Station::new(home, number))
    });
    let board = Board::new(config.workers);
    let ways = &server.ways;
    let transport = Transport::new(config.workers);
    let common = Common {
        handler,
        make: &make,
        sockets,
        filter: &server.filter,
        packets,
        slots: &slots,
        stations: Stations::new(sizes.slots),
        home,
        classified: config.classify == Classify::Header,
        emulated: config.burn == Burn::Sleep,
        transport: &transport,
    };
    let following = Following::new(config);
    let policy = following.policy();
    let ingress: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let (shared, workers) = Shared::<Job<'s, '_, F>>::new(policy, config.wait, &ingress, sizes.queued)?;
    let mut collector = Collector::new(&board);
    let control = Control {
        config,
        group: &server.group,
        filter: &server.filter,
        addresses_known: AtomicBool::new(true),
        shared: &shared,
        stations: &common.stations,
        board: &board,
        ready: AtomicBool::new(true),
        following: Mutex::new(following),
        drops: Mutex::new(Drops::new(sockets.iter().map(Socket::inode))),
        drops_unread: Once::new(),
        transport: &transport,
        said: Mutex::default(),
        unstamped: server.ways.receive == Io::Portable,
    };
    let (ended, totals) = thread::scope(|scope| {
        // Whatever way out is taken, the threads must end, or the scope would wait for them for ever.
        let _end = EndWorkers(&shared);
        let _guard = runtime::AbortOnPanic;
        let threads = workers
            .into_iter()
            .map(|worker| {
                let (common, shared, recorder) = (&common, &shared, board.recorder(worker.id()));
                let name = format!("forebay-{}", worker.id());
                thread::Builder::new().name(name).spawn_scoped(scope, move || {
                    let _guard = runtime::AbortOnPanic;
                    prepare_thread(config, worker.id());
                    let mut engine =
                        Engine::new(common, worker.id(), recorder, KernelLink::new(ways.receive, ways.send));
                    worker.run(shared, &mut engine);
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let (admin_stopper, admin_stop) = admin::stop_pair();
        let (control, listener) = (&control, server.admin);
        let admin = thread::Builder::new().name(admin::THREAD_NAME.into()).spawn_scoped(scope, move || {
            if let Err(error) = admin::run(listener, &mut collector, control, admin_stop) {
                tracing::error!(%error, "the admin endpoint has ended; requests are still served");
            }
            collector
        })?;
        let signals = server.signals.map(|mut signals| {
            let (handle, stop) = (signals.handle(), server.stop.clone());
            scope.spawn(move || signals.forever().for_each(|_| stop.stop()));
            handle
        });
        // A stop must always find packets to receive into, so these are set aside.
        let mut engine = Engine::new(
            &common,
            config.workers,
            board.recorder(config.workers),
            KernelLink::new(ways.receive, ways.send),
        );
        engine.stock_up();
        tracing::info!(policy = config.policy.name(), workers = config.workers, "serving");
        // An error means that no handle is left that could stop the server; there is always the server's own.
        while let Ok(Demand::Follow(config)) = server.demands.recv() {
            control.follow(&config);
        }
        let all_ended = || threads.iter().all(ScopedJoinHandle::is_finished);
        let ended = control.stop(&mut engine, &server.demands, all_ended);
        let exit = server.exit_when_stuck && !all_ended();
        if !exit {
            threads.into_iter().for_each(join);
            control.leave(&mut engine);
        }
        drop(engine);
        drop(admin_stopper);
        if let Some(handle) = signals {
            handle.close();
        }
        let mut collector = join(admin);
        collector.collect(|worker| control.wake(worker));
        let totals = collector.snapshot(control.surroundings());
        if exit {
            super::print_summary(&totals);
            std::process::exit(EXIT_STUCK);
        }
        Ok::<_, io::Error>((ended, totals))
    })?;
    Ok(Report { ended, totals, packets_away: packets.away() })
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

/// Ends the workers when dropped.
struct EndWorkers<'a, J: Send>(&'a Shared<J>);

impl<J: Send> Drop for EndWorkers<'_, J> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
