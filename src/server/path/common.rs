//! What the engines of all workers share.

use super::job::{Job, Slot, WaitSlots};
use super::packet::{Packet, PacketBody};
use super::repeats::Repeats;
use super::serving::{Make, Serving};
use crate::handler::Service;
use crate::net::{AddressFilter, Socket};
use crate::runtime::activity::Activity;
use crate::runtime::continuation::Outside;
use crate::runtime::queue::ObjectPool;
use crate::runtime::samples::Samples;
use crate::sched::WorkerId;
use crate::sched::overload::{Shedding, WaitLimits};
use crate::time::Nanos;
use arc_swap::ArcSwap;

/// State shared by all engines of a server.
pub(crate) struct Common<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, S = Socket> {
    /// What requests use while they run, the handler among it.
    pub(crate) serving: &'e Serving<'s, 'e, H>,
    /// Makes the future that runs the handler on a packet: the one place where its type is named.
    pub(crate) make: &'e M,
    /// The sockets: those of worker 0 first, one for each address, then those of worker 1, and so
    /// on.
    pub(crate) sockets: &'e [S],
    pub(crate) filter: &'e AddressFilter,
    pub(crate) packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    pub(crate) slots: &'e ObjectPool<Slot<M::Future>>,
    /// Requests that wait.
    pub(crate) wait_slots: WaitSlots<Job<'s, 'e, H, M>>,
    /// The identities of the requests in the server.
    pub(crate) repeats: Repeats,
    /// Requests that were woken, and work that was spawned, by other threads than workers.
    pub(crate) outside: &'e Outside,
    /// Identity of this server among the servers of the process.
    pub(crate) runtime_id: u64,
    /// True if the policy may know a request's class.
    pub(crate) classified: bool,
    /// What a worker takes to answer a shed request; `None` = it answers none.
    pub(crate) shed_answer: Option<Nanos>,
    /// What workers know of the queues that they take from; each has a clone.
    pub(crate) shedding: Shedding,
    /// How long requests may wait. The control thread writes it once a second.
    pub(crate) limits: &'e ArcSwap<WaitLimits>,
    /// Who uses the workers' time.
    pub(crate) samples: &'e Samples,
    /// Told when a worker has had something to do, and sleeps.
    pub(crate) activity: Activity,
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>, S> Common<'s, 'e, H, M, S> {
    /// The sockets of `owner`, one for each address.
    pub(crate) fn sockets_of(&self, owner: WorkerId) -> &'e [S] {
        let addresses = self.serving.addresses.len();
        &self.sockets[owner * addresses..][..addresses]
    }

    /// Requests in queues of continuations, about; each of `workers` has a slot in use for what it
    /// runs, or kept for that.
    pub(crate) fn continuations(&self, workers: usize) -> usize {
        self.slots.in_use().saturating_sub(workers + self.wait_slots.waiting())
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.sockets.len() / self.serving.addresses.len()
    }
}
