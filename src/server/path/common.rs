//! What the engines of all workers share.

use super::admit::limits::Limits;
use super::flows::Flows;
use super::packet::{Packet, PacketBody, Serving};
use super::slot::{Job, Slot};
use super::wait_slots::WaitSlots;
use crate::handler::Handler;
use crate::net::{AddressFilter, Socket};
use crate::queue::ObjectPool;
use crate::runtime::continuation::Outside;
use crate::sched::WorkerId;
use crate::server::path::transport::Transport;

/// State shared by all engines of a server.
pub(crate) struct Common<'s, 'e, H: Handler, M, F, S = Socket> {
    /// What requests use while they run, the handler among it.
    pub(crate) serving: &'e Serving<'s, 'e, H>,
    /// Makes the future that runs the handler on a packet: the one place where its type is named.
    pub(crate) make: &'e M,
    /// The sockets: those of worker 0 first, one for each address, then those of worker 1, and so on.
    pub(crate) sockets: &'e [S],
    pub(crate) filter: &'e AddressFilter,
    pub(crate) packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    pub(crate) slots: &'e ObjectPool<Slot<F>>,
    /// Requests that wait.
    pub(crate) wait_slots: WaitSlots<Job<'s, 'e, F, H::Ticket>>,
    /// Requests whose flow is busy.
    pub(crate) flows: Flows<Packet<'s, H::Ticket>>,
    /// Requests that were woken, and work that was spawned, by other threads than workers.
    pub(crate) outside: &'e Outside,
    /// Identity of this server among the servers of the process.
    pub(crate) runtime_id: u64,
    /// True if the policy may know a request's class.
    pub(crate) classified: bool,
    /// True if cost is slept on emulated cores.
    pub(crate) emulated: bool,
    /// Record of calls that could not receive, or send.
    pub(crate) transport: &'e Transport,
    /// True if what is shed is not answered.
    pub(crate) silent: bool,
    /// How long requests may wait.
    pub(crate) limits: &'e Limits,
}

impl<'e, H: Handler, M, F, S> Common<'_, 'e, H, M, F, S> {
    /// The sockets of `owner`, one for each address.
    pub(crate) fn sockets_of(&self, owner: WorkerId) -> &'e [S] {
        let addresses = self.serving.addresses.len();
        &self.sockets[owner * addresses..][..addresses]
    }

    /// Requests in queues of continuations, about; each of `workers` has a slot in use for what it runs, or kept for that.
    pub(crate) fn continuations(&self, workers: usize) -> usize {
        self.slots.in_use().saturating_sub(workers + self.wait_slots.waiting())
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.sockets.len() / self.serving.addresses.len()
    }
}
