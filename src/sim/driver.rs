//! The course of events: requests come, workers act, each when its time has come.

use super::agenda::Agenda;
use super::idle::Idle;
use super::job::Slice;
use super::queues::Queues;
use super::requests::{Request, RequestId, Requests};
use super::tally::{Tally, Unanswered};
use super::{Incoming, Setup};
use crate::sched::{Event, Local, Policy, Running, View, WorkerId};
use crate::time::Nanos;
use std::collections::VecDeque;

/// A server in virtual time.
pub(super) struct Driver<'a, I> {
    pub(super) setup: &'a Setup,
    pub(super) policy: &'a Policy,
    incoming: I,
    pub(super) sight: Sight,
    pub(super) agenda: Agenda,
    pub(super) workers: Box<[Worker]>,
    pub(super) sockets: Box<[Socket]>,
    pub(super) queues: Queues,
    pub(super) requests: Requests,
    pub(super) idle: Idle,
    /// Raised to ask a worker to step aside.
    pub(super) flags: Box<[bool]>,
    /// When somebody last looked whether requests wait while all are busy; none yet.
    pub(super) looked_at: Option<Nanos>,
    /// Requests in sockets, deques and queues.
    pub(super) waiting: usize,
    /// Those of them in sockets.
    pub(super) in_sockets: usize,
    /// Packets that are home.
    pub(super) packets: usize,
    pub(super) tally: Tally,
}

/// What the policy may know.
pub(super) struct Sight {
    pub(super) now: Nanos,
    pub(super) busy_since: Box<[Option<Nanos>]>,
    /// Each worker's. One for each, however many the policy asks for: where nobody meets anybody, more would change nothing
    /// but which jobs are robbed together.
    pub(super) deques: Box<[VecDeque<RequestId>]>,
}

impl View for Sight {
    fn now(&self) -> Nanos {
        self.now
    }

    fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
        self.busy_since[worker]
    }

    fn backlog(&self, worker: WorkerId) -> usize {
        self.deques[worker].len()
    }
}

pub(super) struct Worker {
    pub(super) local: Local,
    pub(super) running: Running,
    activity: Activity,
}

/// A worker's socket.
#[derive(Default)]
pub(super) struct Socket {
    pub(super) requests: VecDeque<RequestId>,
    /// It stands in the watch set: its owner may be busy, or never receives.
    pub(super) exposed: bool,
    /// Something came since a look at the watch set told so.
    pub(super) unheard: bool,
}

/// What a worker does when its time comes.
pub(super) enum Activity {
    /// It sleeps, or looks out for work. Its time comes when it is woken.
    Idle,
    Searching,
    Starting(RequestId),
    Running(Slice),
    /// It passes a continuation on.
    Leaving(RequestId, Event),
}

/// What a worker does next, and after how long; without a time it is idle, and the agenda holds when it looks again.
pub(super) type Next = (Activity, Option<Nanos>);

impl<'a, I: Iterator<Item = Incoming>> Driver<'a, I> {
    pub(super) fn new(setup: &'a Setup, incoming: I) -> Driver<'a, I> {
        let policy = &setup.policy;
        let topology = policy.topology();
        let workers = topology.workers();
        let packets = setup.limits.packets_per_worker * workers;
        assert!(setup.checkpoint_step > Nanos::ZERO, "checkpoints are apart");
        let worker = |id| Worker {
            local: Local::new(id, topology),
            running: Running {
                worker: id,
                pool: topology.pool_of(id),
                continuation: false,
                ran: Nanos::ZERO,
                flagged: false,
                waiting: false,
            },
            activity: Activity::Idle,
        };
        let socket = |id| Socket { exposed: !policy.receives_own(topology.pool_of(id)), ..Socket::default() };
        let mut driver = Driver {
            setup,
            policy,
            incoming,
            sight: Sight {
                now: Nanos::ZERO,
                busy_since: vec![None; workers].into(),
                deques: vec![VecDeque::new(); workers].into(),
            },
            agenda: Agenda::new(workers),
            workers: (0..workers).map(worker).collect(),
            sockets: (0..workers).map(socket).collect(),
            queues: Queues::new(policy.queues(), workers, packets / 2, policy.sharing().insertion),
            requests: Requests::default(),
            idle: Idle::new(policy),
            flags: vec![false; workers].into(),
            looked_at: None,
            waiting: 0,
            in_sockets: 0,
            packets,
            tally: Tally::new(),
        };
        for worker in 0..workers {
            driver.rest(worker, Nanos::ZERO);
        }
        driver
    }

    pub(super) fn run(mut self) -> Tally {
        let mut next = self.incoming.next();
        loop {
            let (time, worker) = self.agenda.first();
            match next {
                Some(incoming) if incoming.at < time => {
                    self.sight.now = incoming.at;
                    self.arrive(&incoming);
                    next = self.incoming.next();
                }
                _ if time < Nanos::MAX => {
                    self.sight.now = time;
                    self.act(worker);
                }
                _ => break,
            }
        }
        assert!(self.waiting == 0, "{} requests were forgotten", self.waiting);
        self.tally
    }

    /// A request comes to a socket.
    fn arrive(&mut self, incoming: &Incoming) {
        assert!(incoming.cost > Nanos::ZERO, "a request asks for something");
        let socket = &mut self.sockets[incoming.socket];
        if socket.requests.len() >= self.setup.limits.socket_capacity {
            self.tally.lost(incoming.class, Unanswered::KernelDropped, incoming.counts);
            return;
        }
        socket.requests.push_back(self.requests.add(Request::new(incoming)));
        self.waiting += 1;
        self.in_sockets += 1;
        self.readable(incoming.socket);
    }

    /// Lets `worker` act until it is idle or busy for a time.
    fn act(&mut self, worker: WorkerId) {
        loop {
            let next = match std::mem::replace(&mut self.workers[worker].activity, Activity::Searching) {
                Activity::Idle => self.rise(worker),
                Activity::Searching => self.search(worker),
                Activity::Starting(request) => self.start(worker, request),
                Activity::Running(slice) => self.pause(worker, slice),
                Activity::Leaving(request, event) => self.leave(worker, request, event),
            };
            self.workers[worker].activity = next.0;
            match next.1 {
                Some(Nanos::ZERO) => {}
                Some(after) => return self.agenda.set(worker, self.sight.now.plus(after)),
                None => return,
            }
        }
    }
}
