//! Requests in a simulation. A request has a cost and checkpoints, and ends with one fate.

use super::driver::VirtualEngine;
use super::requests::{Request, RequestId, Requests, stretch};
use super::tally::Tally;
use super::{ArrivingRequest, Follows, Setup};
use forebay_base::fate::Fate;
use forebay_base::time::Nanos;
use forebay_metrics::Work;
use forebay_runtime::samples::{Sampler, Samples};
use forebay_sched::overload::{Cause, Shedding, Stay, WaitLimits};
use forebay_sched::turn::{Action, Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use forebay_sched::{Outcome, Policy, Resume, Step, WorkerId};
use std::cell::RefCell;
use std::collections::VecDeque;

/// All requests of one simulated group of workers, and the costs of steps.
pub(crate) struct CostModel<'a> {
    pub setup: &'a Setup,
    now: Nanos,
    worker: WorkerId,
    sockets: Box<[VecDeque<RequestId>]>,
    requests: Requests,
    /// Free packets.
    pub packets: usize,
    /// For each worker: the request that ends with the current slice, and its fate.
    ending: Box<[Option<(RequestId, Fate)>]>,
    /// For each worker: its view of the queues, by which it sheds requests that waited too long.
    shedding: Box<[Shedding]>,
    /// Requests in the server that a worker has interrupted.
    interrupted: usize,
    /// The cost of the current step so far.
    cost: Nanos,
    tally: &'a RefCell<Tally>,
    /// The present limits on waiting times.
    pub waits: WaitLimits,
    /// Datagrams received, and datagrams that arrived at a full socket.
    pub received: u64,
    pub lost: u64,
    /// The gate's samples, and one writer for each worker; `None` without a gate.
    samples: Option<(&'a Samples, Vec<Sampler<'a>>)>,
    /// The server's measurements, if it measures.
    work: Option<Box<Work>>,
    follows: Option<Follows>,
}

impl<'a> CostModel<'a> {
    /// The requests of this many idle workers. They are counted in `tally`, and in `samples` for
    /// the gate.
    pub(crate) fn new(
        setup: &'a Setup,
        workers: usize,
        samples: Option<(&'a Samples, Vec<Sampler<'a>>)>,
        tally: &'a RefCell<Tally>,
    ) -> CostModel<'a> {
        assert!(setup.checkpoint_step > Nanos::ZERO, "checkpoints are apart");
        CostModel {
            setup,
            now: Nanos::ZERO,
            worker: 0,
            sockets: vec![VecDeque::new(); workers].into(),
            requests: Requests::default(),
            packets: setup.limits.packets_per_worker * workers,
            ending: vec![None; workers].into(),
            shedding: vec![
                Shedding::new(workers, workers, setup.limits.queued_per_worker * workers, setup.classified);
                workers
            ]
            .into(),
            interrupted: 0,
            cost: Nanos::ZERO,
            tally,
            waits: setup.waits,
            received: 0,
            lost: 0,
            samples,
            work: setup.follows.as_ref().map(|follows| Box::new(Work::new(workers, follows.every))),
            follows: setup.follows.clone(),
        }
    }

    /// Gives a request that has a packet to `other`, the model of another group.
    pub(crate) fn give(&mut self, request: RequestId, other: &mut CostModel<'_>) -> RequestId {
        let request = self.removed(request);
        other.packets -= 1;
        other.interrupted += usize::from(request.continuation);
        other.requests.add(Request { socket: other.worker, ..request })
    }

    /// Moves a batch from the socket of `owner` to the socket of the current worker of `other`, the
    /// model of another group.
    pub(crate) fn give_datagrams(&mut self, owner: WorkerId, other: &mut CostModel<'_>) -> usize {
        let batch = self.setup.limits.batch.min(other.packets).min(self.sockets[owner].len());
        for request in self.sockets[owner].drain(..batch) {
            let request = Request { socket: other.worker, ..self.requests.remove(request) };
            other.sockets[other.worker].push_back(other.requests.add(request));
        }
        batch
    }

    /// Adds `more` to the cost of the current step.
    fn pay(&mut self, more: Nanos) {
        self.cost = self.cost.plus(more);
    }

    /// Lets the policy follow the measurements until `now`; returns the new policy if it changes.
    /// `idle` is the time without work since the start, summed over workers. `running` has the ages
    /// of the current slices.
    pub(crate) fn follow(&mut self, now: Nanos, idle: Nanos, running: &[Nanos]) -> Option<Policy> {
        let Follows { adaptation, .. } = self.follows.as_mut()?;
        let recent = self.work.as_mut()?.recent(now, idle, running);
        let is_new = adaptation.follow(&recent);
        self.waits = adaptation.limits;
        if !is_new {
            return None;
        }
        self.tally.borrow_mut().changed(self.setup.on_clock(now), &adaptation.made);
        Some(adaptation.made.policy.clone())
    }

    /// Records an event of `request` for the gate, if there is one.
    fn note(&mut self, request: RequestId, what: impl FnOnce(&mut Sampler<'a>, u64, u64, &Stay)) {
        let (Some((_, samplers)), Some(scale)) = (&mut self.samples, self.setup.gate) else { return };
        let Request { source, stay, .. } = self.requests.get(request);
        what(&mut samplers[self.worker], scale, u64::from(*source), stay);
    }

    /// Records that `request` was refused: as a heavy request it may not begin, or not go on.
    fn refused(&mut self, request: RequestId) {
        let (heavy, stands) = (self.waits.heavy, self.shedding[self.worker].continuations_stand());
        self.note(request, |sampler, scale, source, stay| {
            sampler.refuse(heavy.minus(stay.service).times(scale), || source, stay);
            sampler.continuations_stand(stands);
        });
    }

    /// Ends a request without an answer, and frees its packet.
    fn end(&mut self, request: RequestId, fate: Fate) {
        let request = self.removed(request);
        self.work.iter_mut().for_each(|work| work.ended(request.class, request.stay.service, false));
        self.tally.borrow_mut().lost(request.class, Some(fate), request.stay.service, request.counts);
    }

    /// Removes a request that ends, and frees its packet.
    fn removed(&mut self, request: RequestId) -> Request {
        let request = self.requests.remove(request);
        self.packets += 1;
        self.interrupted -= usize::from(request.continuation);
        request
    }

    /// Estimates how many requests wait in queues of continuations. It assumes that each worker
    /// runs one of the interrupted requests.
    fn continuations(&self) -> usize {
        self.interrupted.saturating_sub(self.sockets.len())
    }

    /// If `request` must not run now, the fate with which it ends.
    fn shed_fate(&mut self, request: RequestId) -> Option<Fate> {
        let (waiting, limits) = (self.continuations(), &self.waits);
        let shedding = &mut self.shedding[self.worker];
        let is_limited =
            self.samples.as_ref().is_some_and(|all| all.0.limits(self.requests.get(request).source.into()));
        let Request { stay, class, socket, continuation, .. } = self.requests.of(request);
        if self.now >= stay.expires_at {
            return Some(Fate::ShedExpired);
        }
        let cause = match continuation {
            true => shedding.on_resume(stay, *class, self.now, limits),
            false => shedding.on_begin(stay, *class, *socket, self.now, || (waiting, is_limited), limits),
        };
        Some(match cause? {
            Cause::Expired(_) => Fate::ShedExpired,
            Cause::Waited => {
                self.note(request, |sampler, _, source, stay| sampler.shed(|| source, stay));
                Fate::ShedWaited
            }
            Cause::Refused => {
                self.refused(request);
                Fate::ShedWaited
            }
        })
    }

    /// Ends the `request` whose last slice is over, with this `fate`. Returns the time to send the
    /// reply; zero if there is none.
    fn finish(&mut self, request: RequestId, fate: Fate) -> Nanos {
        if fate != Fate::Answered {
            self.end(request, fate);
            return Nanos::ZERO;
        }
        let send = self.setup.overheads.send;
        let request = self.removed(request);
        self.shedding[self.worker].on_end(&request.stay, self.now);
        self.work.iter_mut().for_each(|work| work.ended(request.class, request.cost, true));
        let sent = self.now.plus(send);
        let Request { class, cost, stay, due, counts, .. } = request;
        let waited = self.now.minus(stay.came_at).minus(cost);
        let late = self.now >= stay.expires_at || waited >= self.waits.of(true).patience;
        let mut tally = self.tally.borrow_mut();
        match late {
            true => tally.answered_late(class, cost, sent, counts),
            false => tally.answered(class, cost, sent.minus(due), sent, counts),
        }
        send
    }
}

impl VirtualEngine for CostModel<'_> {
    type Arrival = ArrivingRequest;

    fn arrive(&mut self, owner: WorkerId, arrival: ArrivingRequest) -> bool {
        assert!(arrival.cost > Nanos::ZERO, "a request asks for something");
        let socket = &mut self.sockets[owner];
        let fits = socket.len() < self.setup.limits.socket_capacity;
        if fits {
            socket.push_back(self.requests.add(Request::new(&arrival)));
        } else {
            self.lost += 1;
            self.tally.borrow_mut().lost(arrival.class, None, Nanos::ZERO, arrival.counts);
        }
        fits
    }

    fn set(&mut self, worker: WorkerId, now: Nanos) {
        (self.worker, self.now) = (worker, self.setup.on_clock(now));
    }

    #[inline]
    fn charge(&mut self, next: &Action<RequestId>) -> Nanos {
        let overheads = &self.setup.overheads;
        let more = match next {
            Action::Settle(ran) => {
                let (time, step) = (ran.time(), self.setup.checkpoint_step);
                self.work.iter_mut().for_each(|work| work.ran(time, time > step));
                time
            }
            Action::Put(..) => overheads.yield_,
            Action::Begin(job, Step::Queue(_)) if self.requests.get(*job).held_by != self.worker => overheads.hop,
            _ => self.ending[self.worker].take().map_or(Nanos::ZERO, |(request, fate)| self.finish(request, fate)),
        };
        std::mem::take(&mut self.cost).plus(more)
    }

    #[inline]
    fn slices(&self, job: &RequestId, slice: Nanos) -> (Nanos, u64) {
        let request = self.requests.get(*job);
        let sheds = !request.continuation && self.waits.of(true).bound != Nanos::MAX;
        if sheds || request.stay.expires_at != Nanos::MAX {
            return (Nanos::ZERO, 0);
        }
        let (step, checkpoint) = (self.setup.checkpoint_step, self.setup.overheads.checkpoint);
        let each = step.plus(checkpoint);
        let checkpoints = slice.get().div_ceil(each.get()).max(1);
        (each.times(checkpoints), (request.left().get() - 1) / step.get() / checkpoints)
    }

    fn ran_on(&mut self, job: &RequestId, time: Nanos) {
        let (step, checkpoint) = (self.setup.checkpoint_step, self.setup.overheads.checkpoint);
        let stay = &mut self.requests.of(*job).stay;
        stay.service = stay.service.plus(step.times(time.get() / step.plus(checkpoint).get()));
        self.note(*job, |sampler, scale, source, stay| sampler.spend(time.times(scale), false, false, || source, stay));
        self.work.iter_mut().for_each(|work| work.ran(time, true));
    }
}

impl Engine for CostModel<'_> {
    type Job = RequestId;

    #[inline(always)]
    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<RequestId>>) -> Received {
        let datagrams = self.packets.min(self.sockets[owner].len()).min(self.setup.limits.batch);
        if datagrams == 0 {
            self.pay(self.setup.overheads.poll);
            return Received::default();
        }
        self.pay(self.setup.overheads.receive.times(datagrams as u64));
        self.work.iter_mut().for_each(|work| work.received(datagrams as u64));
        self.received += datagrams as u64;
        for _ in 0..datagrams {
            let request = self.sockets[owner].pop_front().expect("there are as many");
            self.packets -= 1;
            let Request { stay, class, held_by, .. } = self.requests.of(request);
            if self.now >= stay.expires_at {
                self.end(request, Fate::ShedExpired);
                continue;
            }
            let (limits, shedding) = (&self.waits, &mut self.shedding[self.worker]);
            if shedding.is_old(owner, self.now, stay.came_at, limits) {
                self.note(request, |sampler, _, source, stay| sampler.shed(|| source, stay));
                self.end(request, Fate::ShedWaited);
                continue;
            }
            stay.start_by = shedding.start_by(stay, *class, limits);
            *held_by = self.worker;
            let class = self.setup.classified.then_some(*class);
            batch.push(Arrived { job: request, class });
        }
        Received { datagrams, ..Received::default() }
    }

    fn run(&mut self, job: RequestId, at_most: Nanos) -> Ran<RequestId> {
        if let Some(fate) = self.shed_fate(job) {
            self.ending[self.worker] = Some((job, fate));
            return Ran::Ended { ran: Nanos::ZERO };
        }
        let request = self.requests.of(job);
        request.held_by = self.worker;
        let uninterrupted = request.cost >= self.setup.uninterrupted_from;
        if uninterrupted && !std::mem::replace(&mut request.asked, true) {
            return Ran::Paused { job, resume: Resume::Uninterrupted, ran: Nanos::ZERO };
        }
        let (left, stay) = (request.left(), &mut request.stay);
        stay.start_by = Nanos::MAX;
        let begins = !stay.has_begun();
        let expires_after = stay.expires_at.minus(self.now);
        let step = if uninterrupted { left } else { self.setup.checkpoint_step };
        let checkpoint = self.setup.overheads.checkpoint;
        let (work, ran, fate) = stretch(left, step, checkpoint, at_most, expires_after);
        if fate.is_none() {
            stay.service = stay.service.plus(work);
        }
        let ended = fate == Some(Fate::Answered);
        self.note(job, |sampler, scale, source, stay| {
            sampler.spend(ran.times(scale), begins, ended, || source, stay);
        });
        let Some(fate) = fate else { return Ran::Paused { job, resume: Resume::Here, ran } };
        self.ending[self.worker] = Some((job, fate));
        Ran::Ended { ran }
    }

    fn describe(&self, job: &RequestId) -> Description {
        let request = self.requests.get(*job);
        let class = self.setup.classified.then_some(request.class);
        // A real worker measures CPU time, which includes checkpoints.
        let checkpoints = request.stay.service.get() / self.setup.checkpoint_step.get();
        let attained = request.stay.service.plus(self.setup.overheads.checkpoint.times(checkpoints));
        Description { class, attained }
    }

    fn discard(&mut self, job: RequestId, _: Discarded) {
        self.refused(job);
        self.end(job, Fate::ShedWaited);
    }

    fn requeued(&mut self, job: &mut RequestId, why: Requeued) -> bool {
        let (waiting, limits) = (self.continuations(), &self.waits);
        let request = self.requests.of(*job);
        let is_limited = self.samples.as_ref().is_some_and(|all| all.0.limits(request.source.into()));
        if why != Requeued::Crowded {
            self.interrupted += usize::from(!std::mem::replace(&mut request.continuation, true));
        }
        request.stay.ready_at = self.now;
        let (stay, room) = (&mut request.stay, why != Requeued::Crowded);
        let shedding = &mut self.shedding[self.worker];
        let may_wait = shedding.on_put(stay, request.class, self.now, || (waiting, is_limited), room, limits);
        let stands = shedding.continuations_stand();
        self.samples.iter_mut().for_each(|(_, samplers)| samplers[self.worker].continuations_stand(stands));
        may_wait
    }

    #[inline(always)]
    fn boundary(&mut self, boundary: Boundary) {
        let overheads = &self.setup.overheads;
        match boundary {
            Boundary::Tried { step: Step::Look, jobs, .. } => self.pay(overheads.look_at(jobs)),
            Boundary::Tried { step: Step::Steal(_), outcome: Outcome::Found, .. } => self.pay(overheads.steal),
            Boundary::Looked { waiting, by_kernel } => self.pay(overheads.learning(by_kernel, waiting)),
            Boundary::Rest { .. } => {
                self.shedding[self.worker].on_rest(self.now);
                self.samples.iter_mut().for_each(|(_, samplers)| samplers[self.worker].continuations_stand(false));
            }
            _ => {}
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }
}
