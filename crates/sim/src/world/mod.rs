//! The world of the workers in virtual time. A decision of a worker takes effect at once, at the
//! time that the driver has set.

mod contention;
mod help;
mod idle;
mod notices;
mod take;

pub use notices::VainPauses;

use super::Rest;
use super::event_list::EventList;
use contention::{Contention, Serial};
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_runtime::queues::Queues;
use forebay_sched::turn::{Acts, Taken, World};
use forebay_sched::{Noticed, Place, Policy, PoolId, Step, View, Watch, WorkerId, longest_after, look_interval};
use idle::Idle;
use notices::Notice;
use std::cell::Cell;
use std::collections::VecDeque;

/// The state of one server in virtual time, as one worker at a time sees it.
pub struct VirtualWorld<J> {
    pub(crate) now: Nanos,
    /// The worker that acts now.
    pub(crate) me: WorkerId,
    /// The shortest back-off of the watcher.
    nap_min: Nanos,
    /// Time from waking a sleeping worker to its first step.
    pub(crate) wake_cost: Nanos,
    /// The costs of a receive and of a look that find nothing.
    pub(crate) poll_and_look: [Nanos; 2],
    pub(crate) thief_threshold: Nanos,
    pub(crate) heartbeat: Nanos,
    /// When each busy worker began its current job; [`Nanos::MAX`] for a worker without one.
    pub(crate) busy_since: Box<[Nanos]>,
    /// The deque of each worker. There is only one, even if the policy asks for several. Without
    /// contention, more deques would only change which jobs are stolen together.
    pub(crate) deques: Box<[VecDeque<J>]>,
    pub(crate) in_deques: usize,
    /// Whether searches skip empty deques and queues. If all of them are empty, no search is
    /// carried out, but its time is charged.
    pub(crate) skips_empty: bool,
    pub(crate) queues: Queues<J>,
    /// The shard at which each worker begins its next search of each queue.
    next_shards: Box<[Box<[usize]>]>,
    pub(crate) sockets: Box<[Socket]>,
    pub(crate) in_sockets: usize,
    /// For each worker, whether it is asked to give way.
    pub(crate) flags: Box<[Cell<bool>]>,
    /// Whether a worker was asked to give way in this step.
    pub(crate) flagged: Cell<bool>,
    /// For each worker, the pauses of its job that the simulation skips.
    pub(crate) vain: Box<[Option<VainPauses>]>,
    /// The time of the last step, and the highest number of a worker that acted at this time.
    pub(crate) acted: (Nanos, WorkerId),
    /// For each worker, how its running job notices arrivals.
    pub(crate) notices: Box<[Notice]>,
    /// Workers whose jobs wait for a notice of the kernel. The first one gets the next notice.
    pub(crate) armed: VecDeque<WorkerId>,
    /// The time between two looks, for jobs that notice arrivals by looks.
    pub(crate) interval: Nanos,
    /// When a worker last looked; one look serves all workers.
    pub(crate) looked_at: Nanos,
    /// When each worker last looked on its own account, once in a slice.
    pub(crate) looked_rarely_at: Box<[Nanos]>,
    /// The socket with which the next look begins.
    pub(crate) looks_from: WorkerId,
    /// The number of workers in work that must not be interrupted.
    uninterrupted: usize,
    longest_piece: Nanos,
    /// The socket that is tried next, when workers try sockets in turn.
    socket_turn: WorkerId,
    abandoned: bool,
    pub(crate) idle: Idle,
    pub(crate) event_list: EventList,
    pub(crate) contention: Contention,
    /// An injected fault, if any.
    pub fault: Option<Fault>,
}

/// A fault in a world. A test injects it to show that it would find a server with this fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No sleeper is woken for a job in a queue.
    LosesWakes,
    /// No worker looks into the queues of pools that no longer exist.
    OrphansQueues,
    /// No permit for uninterrupted work is returned.
    KeepsPermits,
    /// Every steal is disturbed by another thief.
    Contends,
}

/// The state of a worker's socket. The engine holds its datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Socket {
    pub(crate) datagrams: usize,
    /// Whether the socket is in the watch set. It is while its owner may be busy, or never
    /// receives.
    pub(crate) watched: bool,
}

impl<J> VirtualWorld<J> {
    /// An idle server under `policy`; `queued` bounds the jobs in its queues.
    pub(crate) fn new(policy: &Policy, rest: Rest, overheads: &Overheads, queued: usize) -> VirtualWorld<J> {
        let topology = &policy.topology;
        let workers = topology.workers;
        let queues = Queues::new(policy.queues(), workers, queued);
        let socket = |id| Socket { watched: !policy.receives_own(topology.pool_of(id)), ..Socket::default() };
        VirtualWorld {
            now: Nanos::ZERO,
            me: 0,
            nap_min: rest.nap_min,
            wake_cost: overheads.wake,
            poll_and_look: [overheads.poll, overheads.look],
            thief_threshold: policy.stuck_after,
            heartbeat: Nanos::MAX,
            busy_since: vec![Nanos::MAX; workers].into(),
            deques: (0..workers).map(|_| VecDeque::new()).collect(),
            in_deques: 0,
            skips_empty: false,
            next_shards: (0..workers).map(|worker| vec![worker; policy.queues()].into()).collect(),
            queues,
            sockets: (0..workers).map(socket).collect(),
            in_sockets: 0,
            flags: vec![Cell::new(false); workers].into(),
            flagged: Cell::new(false),
            vain: vec![None; workers].into(),
            acted: (Nanos::ZERO, 0),
            notices: vec![Notice::Off; workers].into(),
            armed: VecDeque::with_capacity(workers),
            interval: look_interval(overheads.look),
            looked_at: Nanos::ZERO,
            looked_rarely_at: vec![Nanos::ZERO; workers].into(),
            looks_from: 0,
            uninterrupted: 0,
            longest_piece: Nanos::MAX,
            socket_turn: 0,
            abandoned: false,
            idle: Idle::new(policy, rest.wait),
            event_list: EventList::new(workers),
            contention: Contention::new(overheads, policy.queues(), workers),
            fault: None,
        }
    }

    /// From now on, workers discard jobs instead of running them, and receive nothing. Sleepers
    /// wake, so that they discard jobs too.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
        self.wake_all();
    }

    /// Marks the socket of `owner` as empty, though no worker received from it.
    pub fn emptied(&mut self, owner: WorkerId) {
        self.in_sockets -= std::mem::take(&mut self.sockets[owner].datagrams);
    }

    /// Puts another policy into force. Wakes all sleepers, so that each follows it and searches.
    pub(crate) fn switch(&mut self, policy: &Policy) {
        self.thief_threshold = policy.stuck_after;
        self.wake_all();
    }

    /// Makes this worker, which is awake, follow `policy` from now on.
    pub(crate) fn follow(&mut self, policy: &Policy) {
        let id = self.me;
        self.idle.roster.follow(id, policy);
        if !self.idle.roster.is_candidate(id) {
            self.hand_on();
        }
        self.idle.seats[id].owns = policy.receives_own(policy.topology.pool_of(id));
        if !self.idle.seats[id].owns {
            // No worker sleeps on this socket any more, so the watcher must see it.
            self.sockets[id].watched = true;
        }
        // This worker may have been woken for a job that it does not serve under the new policy.
        // So all sleepers wake and search.
        self.wake_all();
    }

    /// Records a datagram that has arrived at the socket of `owner`.
    pub(crate) fn arrived(&mut self, owner: WorkerId) {
        self.sockets[owner].datagrams += 1;
        self.in_sockets += 1;
        if self.sockets[owner].watched {
            self.notify();
        }
        self.readable(owner);
    }

    /// Carries out `operations` on `place`, with contention.
    #[inline]
    pub(crate) fn hold(&mut self, place: Serial, operations: usize) {
        self.contention.hold(place, self.me, self.now, operations);
    }
}

impl<J> View for VirtualWorld<J> {
    // These two never panic: policies ask them for each worker in a loop.
    #[inline]
    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        self.busy_since.get(worker).copied().filter(|since| *since < Nanos::MAX)
    }

    #[inline]
    fn backlog(&self, worker: WorkerId) -> usize {
        self.deques.get(worker).map_or(0, VecDeque::len)
    }

    #[inline]
    fn queue_len(&self, pool: PoolId) -> usize {
        if self.queues.count() == 0 { 0 } else { self.queues.len(pool) }
    }

    fn queued(&self) -> usize {
        self.queues.count()
    }

    fn asleep(&self, pool: PoolId) -> usize {
        self.idle.asleep(pool, self.now)
    }

    fn places(&self) -> usize {
        self.queues.capacity
    }

    #[inline]
    fn finds_nothing(&self, step: Step) -> bool {
        let is_empty = match step {
            Step::Own => self.deques[self.me].is_empty(),
            Step::Queue(pool) => self.queue_len(pool) == 0,
            Step::Steal(victim) => self.in_deques == 0 || self.deques[victim].is_empty(),
            Step::Receive(_) | Step::ReceiveNext | Step::Look => false,
        };
        is_empty && self.skips_empty
    }
}

impl<J> World for VirtualWorld<J> {
    fn any_asleep(&self, pool: PoolId) -> bool {
        self.idle.any_asleep(pool)
    }

    fn is_flagged(&self) -> bool {
        self.flags[self.me].get()
    }

    fn accepts(&self) -> bool {
        !self.abandoned
    }

    fn longest_piece(&self) -> Nanos {
        self.longest_piece
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned
    }
}

impl<J> Acts for VirtualWorld<J> {
    type Job = J;

    const AT_ONCE: bool = false;

    fn take(&mut self, from: Step) -> Taken<J> {
        match from {
            Step::Own => self.deques[self.me].pop_front().inspect(|_| self.in_deques -= 1).into(),
            Step::Queue(pool) => self.pop_queue(pool).into(),
            Step::Steal(victim) => self.steal(victim),
            Step::Receive(_) | Step::ReceiveNext | Step::Look => Taken::Nothing,
        }
    }

    fn put(&mut self, place: Place, job: J) -> Result<(), J> {
        match place {
            Place::Own => {
                self.in_deques += 1;
                self.deques[self.me].push_back(job);
            }
            Place::Queue(pool) => {
                self.queues.push(pool, self.me, job)?;
                self.hold(Serial::Queue(pool), 1);
            }
        }
        Ok(())
    }

    fn received(&mut self, owner: WorkerId, datagrams: usize) {
        self.sockets[owner].datagrams -= datagrams;
        self.in_sockets -= datagrams;
        if datagrams > 0 {
            self.hold(Serial::Socket(owner), datagrams);
        }
    }

    fn next_socket(&mut self) -> WorkerId {
        let next = (self.socket_turn + 1) % self.sockets.len();
        std::mem::replace(&mut self.socket_turn, next)
    }

    fn begin_work(&mut self, policy: &Policy, since: Option<Nanos>, more: bool) {
        self.end_idle();
        let socket = &mut self.sockets[self.me];
        if !std::mem::replace(&mut socket.watched, true) {
            if socket.datagrams > 0 {
                self.notify();
            }
            // A worker that has only spun has not taken its socket out of the watch set.
            if self.idle.seats[self.me].slept && (policy.has_watchers() || policy.watches()) {
                self.hold(Serial::WatchSet, 1);
            }
        }
        self.hand_on();
        if more {
            self.wake_for(policy, self.idle.roster.pool_of(self.me));
        }
        self.busy_since[self.me] = since.unwrap_or(Nanos::MAX);
        self.flags[self.me].set(false);
    }

    fn end_work(&mut self) {
        self.busy_since[self.me] = Nanos::MAX;
    }

    fn wake_for(&mut self, policy: &Policy, pool: PoolId) {
        if self.fault == Some(Fault::LosesWakes) {
            return;
        }
        if let Some(worker) = self.idle.choose(policy.server_of(pool)) {
            self.wake(worker);
        }
    }

    fn flag(&self, worker: WorkerId) {
        self.flags[worker].set(true);
        self.flagged.set(true);
    }

    fn take_permit(&mut self, max: usize) -> bool {
        let begins = self.uninterrupted < max;
        if begins {
            self.uninterrupted += 1;
            self.disarm();
        }
        begins
    }

    fn return_permit(&mut self, piece: Option<Nanos>) {
        if self.fault == Some(Fault::KeepsPermits) {
            return;
        }
        if let Some(piece) = piece {
            self.longest_piece = longest_after(self.longest_piece, piece);
        }
        self.uninterrupted -= 1;
    }

    fn look(&mut self) -> Noticed {
        self.seen(1)
    }

    fn watch(&mut self, watch: Watch) -> Nanos {
        self.heartbeat.min(match watch {
            Watch::Never => Nanos::MAX,
            Watch::Every(_) => Nanos::new(1),
            Watch::Notices => self.watch_for_notice(),
            Watch::Looks => self.until_look(),
        })
    }

    fn noticed(&mut self, watch: Watch, now: Nanos) -> Option<Noticed> {
        match watch {
            Watch::Never => None,
            Watch::Notices => self.notice(),
            Watch::Looks => self.looked(now),
            Watch::Every(slice) => self.noticed_rarely(slice, now),
        }
    }
}
