//! What the engines of all workers share, and whether datagrams come and go.

use super::job::{Job, Slot, WaitSlots};
use super::packet::{Make, Packet, PacketBody, Serving};
use super::repeats::Repeats;
use super::samples::Samples;
use super::shards::Shards;
#[cfg(any(test, feature = "admin"))]
use crate::fate::{ReceiveError, Unsent};
use crate::handler::Service;
use crate::net::{AddressFilter, Socket};
use crate::queue::ObjectPool;
use crate::runtime::continuation::Outside;
use crate::sched::WorkerId;
use crate::sched::overload::{Shedding, WaitLimits};
use crate::time::Nanos;
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
    /// The shards, and the requests whose shard is busy.
    pub(crate) shards: Shards<Packet<'s, H::Ticket>>,
    /// Requests that were woken, and work that was spawned, by other threads than workers.
    pub(crate) outside: &'e Outside,
    /// Identity of this server among the servers of the process.
    pub(crate) runtime_id: u64,
    /// True if the policy may know a request's class.
    pub(crate) classified: bool,
    /// Record of calls that could not receive, or send.
    pub(crate) transport: &'e Transport,
    /// What a worker takes to answer a shed request; `None` = it answers none.
    pub(crate) shed_answer: Option<Nanos>,
    /// What workers know of the queues that they take from; each has a clone.
    pub(crate) shedding: Shedding,
    /// How long requests may wait. The control thread writes it once a second.
    pub(crate) limits: &'e ArcSwap<WaitLimits>,
    /// Who uses the workers' time.
    pub(crate) samples: &'e Samples,
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

/// Failures that have lasted for this long are the system's, not momentary.
#[cfg(any(test, feature = "admin"))]
const LASTING: Nanos = Nanos::from_secs(1);
/// Failures that have not been seen for this long are over: no worker receives there any more. A
/// worker that fails is woken to try again every second.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(5);

/// Whether datagrams can be received and sent at all, from the workers' own calls, for `/readyz`
/// and the log.
///
/// A single call may fail while the next one succeeds: such failures are counted by reason.
/// Failures that go on for a second make the server not ready. Each worker writes to cache lines of
/// its own, only when a call fails or the one before has failed. The admin thread reads once a
/// second and when asked.
#[derive(Debug)]
pub(crate) struct Transport {
    /// Those of worker 0 first, one for each address, then those of worker 1, and so on.
    results: Box<[CachePadded<Directions>]>,
    addresses: usize,
}

/// Results of one thread at one address, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Directions {
    pub(crate) receiving: Streak,
    pub(crate) sending: Streak,
}

/// Consecutive failures, without a success between them.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    /// Time of the first failure, in nanoseconds; 0 after a success.
    since: AtomicU64,
    /// Time of the last failure, in nanoseconds.
    last: AtomicU64,
    /// The reason of the last failure, by number.
    reason: AtomicUsize,
}

impl Transport {
    /// Results of `workers` workers, and of the thread that stops them, at this many addresses.
    pub(crate) fn new(workers: usize, addresses: usize) -> Transport {
        let results = (0..(workers + 1) * addresses).map(|_| CachePadded::default()).collect();
        Transport { results, addresses }
    }

    /// The results of `worker` by address, for it to write to.
    pub(crate) fn of(&self, worker: usize) -> &[CachePadded<Directions>] {
        &self.results[worker * self.addresses..][..self.addresses]
    }

    /// All results, each with its worker.
    fn by_worker(&self) -> impl Iterator<Item = (usize, &Directions)> {
        self.results.iter().enumerate().map(|(number, found)| (number / self.addresses, &**found))
    }

    /// The reason why the server is not ready, in words; `None` if it is ready.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn trouble(&self, now: Nanos) -> Option<String> {
        self.by_worker().find_map(|(worker, found)| {
            let receiving = found.receiving.lasting(now).map(|reason| ("receiving", ReceiveError::ALL[reason].name()));
            let sending = || found.sending.lasting(now).map(|reason| ("sending", Unsent::ALL[reason].name()));
            let (action, reason) = receiving.or_else(sending)?;
            Some(format!("{action} fails on worker {worker}: {reason}"))
        })
    }

    /// Workers whose last attempt to receive failed. They must try again: nothing else would ever
    /// wake them.
    pub(crate) fn deaf(&self, now: Nanos) -> impl Iterator<Item = usize> {
        self.by_worker().filter_map(move |(worker, found)| found.receiving.fails(now).then_some(worker))
    }
}

impl Streak {
    /// Records a failed call.
    #[cold]
    pub(crate) fn failed(&self, now: Nanos, reason: usize) {
        // Ordering: relaxed throughout, one writer; a reader that sees them apart errs by one
        // failure.
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(now.get().max(1), Ordering::Relaxed);
        }
        self.last.store(now.get(), Ordering::Relaxed);
        self.reason.store(reason, Ordering::Relaxed);
    }

    /// Records a successful call: one load, nearly always.
    #[inline]
    pub(crate) fn succeeded(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// True if the last call failed, not long ago.
    fn fails(&self, now: Nanos) -> bool {
        let last = Nanos::new(self.last.load(Ordering::Relaxed));
        self.since.load(Ordering::Relaxed) != 0 && now.minus(last) < FORGOTTEN_AFTER
    }

    /// The reason of the failures, if they have lasted for [`LASTING`].
    #[cfg(any(test, feature = "admin"))]
    fn lasting(&self, now: Nanos) -> Option<usize> {
        let (since, last) = (self.since.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        let lasting = self.fails(now) && Nanos::new(last).minus(Nanos::new(since)) >= LASTING;
        lasting.then(|| self.reason.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(100).plus(Nanos::from_millis(millis))
    }

    // Is one failure ignored, are failures for a second a reason, and does one success end them?
    #[test]
    fn only_failures_that_last_keep_a_server_from_being_ready() {
        let transport = Transport::new(2, 1);
        let receiving = &transport.of(1)[0].receiving;
        receiving.failed(at(0), ReceiveError::NoMemory as usize);
        receiving.failed(at(900), ReceiveError::NoMemory as usize);
        assert_eq!((transport.trouble(at(900)), transport.deaf(at(900)).collect::<Vec<_>>()), (None, vec![1]));
        receiving.failed(at(1_000), ReceiveError::Denied as usize);
        assert_eq!(transport.trouble(at(1_100)).as_deref(), Some("receiving fails on worker 1: denied"));
        receiving.succeeded();
        assert_eq!((transport.trouble(at(1_100)), transport.deaf(at(1_100)).next()), (None, None));
        receiving.failed(at(1_200), ReceiveError::Denied as usize);
        assert_eq!(transport.trouble(at(1_200)), None, "a failure long ago does not count");
    }

    // Is a server ready again once its failing worker has moved to a pool that receives nothing?
    // Does what is received at one address hide what fails at another?
    #[test]
    fn failures_are_over_after_a_while_and_of_one_address() {
        let transport = Transport::new(2, 2);
        let results = transport.of(1);
        [0, 1_000].into_iter().for_each(|millis| results[1].receiving.failed(at(millis), ReceiveError::Other as usize));
        results[0].receiving.succeeded();
        assert_eq!(transport.trouble(at(1_100)).as_deref(), Some("receiving fails on worker 1: other"));
        assert_eq!(transport.deaf(at(1_100)).collect::<Vec<_>>(), [1]);
        let transport = Transport::new(1, 1);
        let sending = &transport.of(0)[0].sending;
        [0, 1_000].into_iter().for_each(|millis| sending.failed(at(millis), Unsent::Other as usize));
        assert_eq!(transport.trouble(at(2_000)).as_deref(), Some("sending fails on worker 0: other"));
        assert_eq!(transport.trouble(at(6_000)), None);
    }
}
