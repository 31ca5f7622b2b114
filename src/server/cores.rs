//! What a worker's thread stands for. The choice is made where the thread starts, by type.

use super::board::Board;
use super::notices::Found;
use super::path::common::Common;
use super::path::engine::Engine;
use super::path::job::Job;
use super::path::packet::{Make, Packet};
use crate::config::{Burn, Config};
use crate::handler::Service;
use crate::net::{KernelLink, Link, Socket};
use crate::sched::{WorkerId, turn};

/// A kind of cores: a worker's access to sockets on one of them.
pub(super) trait Cores: Link<Socket = Socket> + Sized {
    /// The setting that asks for these cores.
    const BURN: Burn;

    /// The same access as the kernel's.
    fn on(link: KernelLink) -> Self;

    /// What drives `engine`, on its worker's own thread.
    fn begin<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
        _: (&Config, &Found),
        engine: Engine<'s, 'e, '_, H, M, Self>,
    ) -> impl turn::Engine<Job = Job<'s, 'e, H, M>> {
        engine
    }
}

/// Cores that work, and pay for each step by themselves.
impl Cores for KernelLink {
    const BURN: Burn = Burn::Cpu;

    fn on(link: KernelLink) -> KernelLink {
        link
    }
}

/// The engine of `worker`. The number after the last worker's is that of the thread that stops the
/// server.
pub(super) fn engine<'s, 'e, 'c, C: Cores, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    config: &Config,
    board: &'e Board,
    common: &'c Common<'s, 'e, H, M>,
    worker: WorkerId,
) -> Engine<'s, 'e, 'c, H, M, C> {
    let link = KernelLink::new(config.io, common.serving.addresses.len());
    Engine::new(common, worker, board.metrics.recorder(worker), C::on(link))
}
