//! The kind of core that a worker's thread stands for: real or emulated. Chosen by type where the
//! thread starts.

use super::board::Board;
use super::notices::NoticeWay;
use super::path::common::Common;
use super::path::engine::Engine;
use super::path::job::Job;
use super::path::packet::Packet;
use super::path::serving::Make;
use crate::config::{Burn, Config};
use crate::handler::Service;
use crate::net::{KernelLink, Link, Socket};
use crate::runtime::continuation::guarded;
use crate::sched::{WorkerId, turn};

/// A kind of core, as a worker's access to sockets on it.
pub(super) trait Cores: Link<Socket = Socket> + Sized {
    /// The value of `burn` that selects these cores.
    const BURN: Burn;

    /// Wraps the kernel's access to sockets.
    fn on(link: KernelLink) -> Self;

    /// Makes what drives `engine`, on the worker's own thread.
    fn begin<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
        _: &Config,
        _: &NoticeWay,
        engine: Engine<'s, 'e, '_, H, M, Self>,
    ) -> impl turn::Engine<Job = Job<'s, 'e, H, M>> {
        engine
    }
}

/// Real cores, which work and spend the time of each step themselves.
impl Cores for KernelLink {
    const BURN: Burn = Burn::Cpu;

    fn on(link: KernelLink) -> KernelLink {
        link
    }
}

/// Makes the engine of `worker`. The number after the last worker is the thread that stops the
/// server.
pub(super) fn engine<'s, 'e, 'c, C: Cores, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    config: &Config,
    board: &'e Board,
    common: &'c Common<'s, 'e, H, M>,
    worker: WorkerId,
) -> Engine<'s, 'e, 'c, H, M, C> {
    // What panics has joined nothing: each datagram is then a request, and has a fate, of its own.
    let joins = |first: &[u8], next: &[u8]| guarded(|| H::joins(first, next)).unwrap_or(false);
    let link = KernelLink::new(config.io, common.serving.addresses.len(), joins, H::TRANSPORT);
    Engine::new(common, worker, board.metrics.recorder(worker), C::on(link))
}
