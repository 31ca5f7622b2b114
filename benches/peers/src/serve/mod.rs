//! The servers: this same binary, started again as one of the peers.

mod bare;
mod rayon_pool;
mod rayon_split;
mod tokio_runtime;
mod tokio_yield;

use crate::service::{Service, Work};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use forebay::inside::emulation::overheads::Overheads;
use forebay::time::Nanos;
use nix::sys::prctl::{set_pdeathsig, set_timerslack};
use nix::sys::signal::Signal;
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register_conditional_shutdown;
use std::io::Write;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How a peer is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// A loop of recvmmsg and sendmmsg per thread, each with a socket of its own.
    Bare,
    /// tokio: one socket, one task per packet.
    TokioTask,
    /// tokio: one receiving loop per worker, each with a socket of its own.
    TokioLoop,
    /// tokio: as [`Shape::TokioTask`], heavy requests through `spawn_blocking`.
    TokioBlocking,
    /// tokio: one socket, one task per packet, which yields after each quantum.
    TokioYield,
    /// rayon behind one socket and one receiving thread.
    Rayon,
    /// rayon: receiving and each quantum of each request are small tasks of one pool.
    RayonSplit,
}

/// The flags of a peer.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArguments {
    #[arg(long)]
    pub(crate) shape: Shape,
    /// Threads that serve requests
    #[arg(long)]
    pub(crate) threads: usize,
    /// The most threads for blocking work
    #[arg(long, default_value_t = 512)]
    pub(crate) blocking: usize,
    /// A request that costs more, in nanoseconds, is heavy.
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) heavy_ns: u64,
    /// What a peer does with a request's cost
    #[arg(long)]
    pub(crate) work: Work,
    /// The number of emulated cores, if costs are slept
    #[arg(long, default_value_t = 1)]
    pub(crate) cores: usize,
    /// Prices of the steps of an emulated core, before the time scale.
    #[arg(long, default_value = "none")]
    pub(crate) overheads: Overheads,
    /// How long a microsecond of an emulated core takes, in microseconds
    #[arg(long, default_value_t = 1)]
    pub(crate) time_scale: u64,
    /// Nanoseconds of its cost after which a request yields, if the shape can
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) quantum_ns: u64,
}

/// Serves until SIGTERM comes or the parent has ended.
pub(crate) fn serve(arguments: &ServeArguments) -> ExitCode {
    let Err(error) = try_serve(arguments);
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// The result type of a peer, which never ends on its own.
pub(crate) enum Never {}

fn try_serve(arguments: &ServeArguments) -> Result<Never> {
    set_pdeathsig(Signal::SIGTERM).context("asking to be told when the parent ends")?;
    register_conditional_shutdown(SIGTERM, 0, Arc::new(AtomicBool::new(true))).context("listening for SIGTERM")?;
    // Emulated cores must wake on time. Threads inherit the setting.
    set_timerslack(1).context("setting the timer slack")?;
    let service =
        Arc::new(Service::of(arguments.work, arguments.cores, arguments.overheads.times(arguments.time_scale)));
    match arguments.shape {
        Shape::Bare => bare::serve(arguments, &service),
        Shape::TokioTask | Shape::TokioLoop | Shape::TokioBlocking => tokio_runtime::serve(arguments, &service),
        Shape::TokioYield => tokio_yield::serve(arguments, &service),
        Shape::RayonSplit => rayon_split::serve(arguments, service),
        Shape::Rayon => rayon_pool::serve(arguments, &service),
    }
}

/// For this long after the last datagram, a thread looks for more before it sleeps, as in Forebay's
/// `--wait adaptive`.
const SPIN: Nanos = Nanos::from_micros(50);

/// Tells the parent the address of the server.
fn announce(socket: &UdpSocket) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "listening on udp {}, admin none", socket.local_addr()?)?;
    Ok(stdout.flush()?)
}
