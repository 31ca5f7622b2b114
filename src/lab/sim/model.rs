//! What requests are in a simulation: a cost each, with a checkpoint after each step, and a fate.

use super::driver::VirtualEngine;
use super::requests::{Request, RequestId, Requests};
use super::tally::Tally;
use super::{ArrivingRequest, Setup};
use crate::fate::Fate;
use crate::sched::overload::{HeavyQueue, StandingQueues, latest_start};
use crate::sched::turn::{Arrived, Boundary, Description, Did, Discarded, Engine, Ran, Received, Requeued, Tried};
use crate::sched::{Looked, Resume, WorkerId};
use crate::time::Nanos;
use std::cell::RefCell;
use std::collections::VecDeque;

/// All requests of a simulation, and what each step costs.
pub(super) struct CostModel<'a> {
    setup: &'a Setup,
    now: Nanos,
    worker: WorkerId,
    sockets: Box<[VecDeque<RequestId>]>,
    requests: Requests,
    /// Packets that are free.
    packets: usize,
    /// For each worker, the request that ends with the slice that it is running, and how.
    ending: Box<[Option<(RequestId, End)>]>,
    /// For each worker, the sockets by owner, and behind them the queues of continuations.
    queues: Box<[StandingQueues]>,
    /// For each worker, the queue of continuations.
    heavy: Box<[HeavyQueue]>,
    /// Requests under way that have been interrupted.
    interrupted: usize,
    tally: &'a RefCell<Tally>,
}

/// How a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Paused,
    Expired,
    Waited,
}

impl<'a> CostModel<'a> {
    /// The requests of a server at rest, which are counted in `tally`.
    pub(super) fn new(setup: &'a Setup, tally: &'a RefCell<Tally>) -> CostModel<'a> {
        assert!(setup.checkpoint_step > Nanos::ZERO, "checkpoints are apart");
        let workers = setup.policy.topology().workers();
        CostModel {
            setup,
            now: Nanos::ZERO,
            worker: 0,
            sockets: vec![VecDeque::new(); workers].into(),
            requests: Requests::default(),
            packets: setup.limits.packets_per_worker * workers,
            ending: vec![None; workers].into(),
            queues: (0..workers).map(|_| StandingQueues::new(workers + 1)).collect(),
            heavy: vec![HeavyQueue::default(); workers].into(),
            interrupted: 0,
            tally,
        }
    }

    /// Requests that came and have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Ends a request that is not answered and holds a packet.
    fn end(&mut self, request: RequestId, fate: Fate) {
        let request = self.removed(request);
        self.tally.borrow_mut().lost(request.class, Some(fate), request.counts);
    }

    /// The request that ends and gives its packet back.
    fn removed(&mut self, request: RequestId) -> Request {
        let request = self.requests.remove(request);
        self.packets += 1;
        self.interrupted -= usize::from(request.continuation);
        request
    }

    /// True if a fresh request that turns out heavy would wait for too long when it is to go on.
    fn would_be_shed_later(&mut self, request: &Request) -> bool {
        let Setup { waits, expected, .. } = *self.setup;
        let (waiting, waited) = (self.continuations(), self.now.minus(request.came_at));
        let start_by = latest_start(request.expires_at, request.deadline, expected, Nanos::ZERO);
        let (heavy, waits) = (&mut self.heavy[self.worker], waits.interrupted);
        let within = waits.within(start_by.minus(request.came_at));
        heavy.is_certain() && waits.bound != Nanos::MAX && heavy.is_full(self.now, waiting, waited, &within)
    }

    /// Requests in queues of continuations, about: one for each worker runs.
    fn continuations(&self) -> usize {
        self.interrupted.saturating_sub(self.sockets.len())
    }

    /// When `request`, which is about to wait, must be looked at before it begins.
    fn start_by(&self, request: &Request) -> Nanos {
        let Setup { waits, expected, .. } = *self.setup;
        let served = request.cost.minus(request.left);
        let target = waits.of(request.continuation).target;
        let old = if request.resumed { Nanos::MAX } else { request.came_at.plus(served).plus(target) };
        old.min(latest_start(request.expires_at, request.deadline, expected, served))
    }

    /// How `request` ends that is about to run, if it must not.
    fn shed_cause(&mut self, request: Request) -> Option<End> {
        let Setup { ref waits, expected, .. } = *self.setup;
        let queues = &mut self.queues[self.worker];
        let queue = if request.continuation { self.sockets.len() } else { request.socket };
        if self.now < request.start_by {
            // What is still at hand says nothing of the queue, and what was in it before says too much.
            if request.start_by != Nanos::MAX && !request.resumed {
                queues.on_young(queue);
            }
            return None;
        }
        let served = request.cost.minus(request.left);
        if self.now >= latest_start(request.expires_at, request.deadline, expected, served) {
            return Some(End::Expired);
        }
        let wait = self.now.minus(request.came_at).minus(served);
        let waits = waits.of(request.continuation);
        let old = wait >= waits.target && !request.resumed;
        (old && queues.on_old(queue, self.now, wait, waits)).then_some(End::Waited)
    }

    /// Gives the request that the worker's last slice ended, if any, its fate; returns how long that takes.
    fn finish(&mut self) -> Nanos {
        match self.ending[self.worker].take() {
            Some((request, End::Done)) => {
                let send = self.setup.overheads.send;
                let request = self.removed(request);
                if !request.continuation {
                    self.heavy[self.worker].on_light();
                }
                let sent = self.now.plus(send);
                let (latency, counts) = (sent.minus(request.due), request.counts);
                self.tally.borrow_mut().answered(request.class, request.cost, latency, sent, counts);
                send
            }
            Some((request, end)) => {
                self.end(request, if end == End::Waited { Fate::ShedWaited } else { Fate::ShedExpired });
                Nanos::ZERO
            }
            None => Nanos::ZERO,
        }
    }
}

impl VirtualEngine for CostModel<'_> {
    type Arrival = ArrivingRequest;

    fn socket(arrival: &ArrivingRequest) -> WorkerId {
        arrival.socket
    }

    fn time(arrival: &ArrivingRequest) -> Nanos {
        arrival.at
    }

    fn arrive(&mut self, arrival: ArrivingRequest) -> bool {
        assert!(arrival.cost > Nanos::ZERO, "a request asks for something");
        let socket = &mut self.sockets[arrival.socket];
        let fits = socket.len() < self.setup.limits.socket_capacity;
        if fits {
            socket.push_back(self.requests.add(Request::new(&arrival)));
        } else {
            self.tally.borrow_mut().lost(arrival.class, None, arrival.counts);
        }
        fits
    }

    fn set(&mut self, worker: WorkerId, now: Nanos) {
        (self.worker, self.now) = (worker, now);
    }

    #[inline]
    fn charge(&mut self, did: Did) -> Nanos {
        let overheads = &self.setup.overheads;
        let look = |looked: Option<Looked>| {
            looked.map_or(Nanos::ZERO, |Looked { waiting, by_kernel }| overheads.learning(by_kernel, waiting))
        };
        let search = |tried: Tried| overheads.poll.times(tried.polls).plus(overheads.look.times(tried.looks));
        match did {
            Did::Took { stole, tried } => {
                let steal = if stole { overheads.steal } else { Nanos::ZERO };
                search(tried).plus(steal)
            }
            Did::Received { datagrams, tried } => search(tried).plus(overheads.receive.times(datagrams)),
            Did::Nothing { tried, .. } => search(tried),
            Did::Ran(ran) => ran,
            Did::Ended => self.finish(),
            Did::Kept { looked } => look(looked),
            Did::Leaves { hops, looked } => look(looked).plus(if hops { overheads.hop } else { overheads.yield_ }),
            Did::Put => Nanos::ZERO,
        }
    }
}

impl Engine for CostModel<'_> {
    type Job = RequestId;

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<RequestId>>) -> Received {
        let datagrams = self.setup.limits.batch.min(self.packets).min(self.sockets[owner].len());
        for _ in 0..datagrams {
            let request = self.sockets[owner].pop_front().expect("there are as many");
            self.packets -= 1;
            let known = *self.requests.get(request);
            if self.now >= known.expires_at {
                self.end(request, Fate::ShedExpired);
                continue;
            }
            let (wait, waits) = (self.now.minus(known.came_at), &self.setup.waits.fresh);
            if wait >= waits.target && self.queues[self.worker].on_old(owner, self.now, wait, waits) {
                self.end(request, Fate::ShedWaited);
                continue;
            }
            self.requests.of(request).start_by = self.start_by(&known);
            let class = self.setup.classified.then_some(known.class);
            batch.push(Arrived { job: request, class });
        }
        Received { datagrams, more: false }
    }

    fn run(&mut self, job: RequestId, at_most: Nanos) -> Ran<RequestId> {
        let known = *self.requests.get(job);
        let expired = (self.now >= known.expires_at).then_some(End::Expired);
        let cause = expired.or_else(|| self.shed_cause(known));
        let cause = cause.or_else(|| (!known.continuation && self.would_be_shed_later(&known)).then_some(End::Waited));
        if let Some(end) = cause {
            self.ending[self.worker] = Some((job, end));
            return Ran::Ended { ran: Nanos::ZERO };
        }
        let known = self.requests.of(job);
        if known.continuation && known.start_by != Nanos::MAX && !known.resumed {
            known.resumed = true;
            self.heavy[self.worker].on_left(self.now.minus(known.put_at), known.behind);
        }
        known.start_by = Nanos::MAX;
        let (step, checkpoint) = (self.setup.checkpoint_step, self.setup.overheads.checkpoint);
        let (work, ran, end) = stretch(known.left, step, checkpoint, at_most, known.expires_at.minus(self.now));
        if end == End::Paused {
            known.left = known.left.minus(work);
            return Ran::Paused { job, resume: Resume::Here, ran };
        }
        self.ending[self.worker] = Some((job, end));
        Ran::Ended { ran }
    }

    fn describe(&self, job: &RequestId) -> Description {
        let request = self.requests.get(*job);
        let class = self.setup.classified.then_some(request.class);
        let attained = request.cost.minus(request.left);
        Description { level: 0, class, continuation: request.continuation, attained }
    }

    fn discard(&mut self, job: RequestId, _: Discarded) {
        self.end(job, Fate::ShedQueueFull);
    }

    fn requeued(&mut self, job: &mut RequestId, _: Requeued) {
        let (behind, now) = (self.continuations(), self.now);
        let request = self.requests.of(*job);
        if !std::mem::replace(&mut request.continuation, true) {
            (request.behind, request.put_at) = (behind, now);
            self.interrupted += 1;
            self.heavy[self.worker].on_heavy();
        }
        let start_by = self.start_by(self.requests.get(*job));
        self.requests.of(*job).start_by = start_by;
    }

    fn boundary(&mut self, boundary: Boundary) {
        if boundary == Boundary::Rest {
            self.queues[self.worker].on_rest(self.now);
            self.heavy[self.worker].on_rest();
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }
}

/// How far a request that still needs `left` comes until a checkpoint finds that `ask_after` or `expires_after` has
/// passed, or until it ends: the work done by then, the time that this takes, and how it ends.
fn stretch(left: Nanos, step: Nanos, checkpoint: Nanos, ask_after: Nanos, expires_after: Nanos) -> (Nanos, Nanos, End) {
    if left <= step {
        return (left, left, End::Done);
    }
    let until = ask_after.min(expires_after);
    if until == Nanos::MAX && checkpoint == Nanos::ZERO {
        return (left, left, End::Done);
    }
    // A checkpoint stands after each step but the last.
    let checkpoints = (left.get() - 1) / step.get();
    let each = step.plus(checkpoint);
    let asked = until.get().div_ceil(each.get()).max(1);
    if asked > checkpoints {
        return (left, left.plus(checkpoint.times(checkpoints)), End::Done);
    }
    let end = if each.times(asked) >= expires_after { End::Expired } else { End::Paused };
    (step.times(asked), each.times(asked), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    #[test]
    fn a_request_is_asked_at_the_first_checkpoint_after_the_time() {
        let never = Nanos::MAX;
        let plain = |left, ask_after| stretch(left, us(1), Nanos::ZERO, ask_after, never);
        assert_eq!(plain(us(500), never), (us(500), us(500), End::Done));
        assert_eq!(plain(us(500), Nanos::new(5_001)), (us(6), us(6), End::Paused));
        assert_eq!(plain(us(500), Nanos::ZERO), (us(1), us(1), End::Paused));
        assert_eq!(plain(us(5), us(5)), (us(5), us(5), End::Done), "there is none after the last step");
        assert_eq!(plain(Nanos::new(500), Nanos::ZERO), (Nanos::new(500), Nanos::new(500), End::Done));
    }

    #[test]
    fn checkpoints_take_their_time() {
        let ns = Nanos::new;
        assert_eq!(stretch(us(3), us(1), ns(20), Nanos::MAX, Nanos::MAX), (us(3), ns(3_040), End::Done));
        assert_eq!(stretch(us(9), us(1), ns(20), us(3), Nanos::MAX), (us(3), ns(3_060), End::Paused));
    }

    #[test]
    fn the_deadline_ends_it_at_the_next_checkpoint() {
        assert_eq!(stretch(us(9), us(1), Nanos::ZERO, us(7), Nanos::new(2_500)), (us(3), us(3), End::Expired));
        assert_eq!(stretch(us(9), us(1), Nanos::ZERO, us(2), Nanos::new(2_500)), (us(2), us(2), End::Paused));
    }
}
