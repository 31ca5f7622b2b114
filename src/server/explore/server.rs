//! A server in virtual time: the engines of all workers, driven by the simulator's driver, and its
//! accounts.

use super::handler::Scripted;
use super::memory::{LIMITED, MemoryLink, Network};
use super::run::{Run, Trace};
use super::scenario::{Event, Scenario};
use crate::emulation::overheads::Overheads;
use crate::handler::{Inherited, Service};
use crate::metrics::WorkerMetrics;
use crate::net::{AddressFilter, Credit, HostAddresses, SourcePrefix};
use crate::runtime::activity::Activity;
use crate::runtime::continuation::{self, Outside, WaitSlot, new_runtime_id};
use crate::runtime::queue::ObjectPool;
use crate::runtime::samples::Samples;
use crate::sched::WorkerId;
use crate::sched::overload::Shedding;
use crate::sched::overload::sources::Rules;
use crate::sched::turn::{self, Action, Arrived, Boundary, Description, Discarded, Ran, Ready, Received, Requeued};
use crate::server::path::common::Common;
use crate::server::path::engine::Engine;
use crate::server::path::job::{Job, Slot, WaitSlots};
use crate::server::path::packet::{Packet, PacketBody};
use crate::server::path::repeats::Repeats;
use crate::server::path::serving::{Make, Serving};
use crate::shards::Sharded;
use crate::time::clock::virtual_time;
use crate::time::{Nanos, clock};
use arc_swap::ArcSwap;
use forebay_sim::driver::{Driver, VirtualEngine};
use forebay_sim::world::Fault;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// A defect planted in an explored server's own code. A [`Fault`] is one in its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A fresh job without room or time is dropped without a fate.
    ForgetsFates,
    /// A packet is not returned by a worker that rests.
    KeepsPackets,
    /// A request that was set aside never resumes.
    KeepsSetAside,
    /// Requests of one flow have different keys.
    SplitsFlows,
    /// Sources that may be forged are sent twice as much as comes from them.
    Amplifies,
    /// A discarded request counts with time that no worker spent.
    InventsTime,
}

/// Runs `scenario` to its end with `handler`. Returns the result, or the violated rule.
pub(super) fn explore(
    scenario: &Scenario,
    handler: &Scripted,
    fault: Option<Fault>,
    flaw: Option<Flaw>,
) -> Result<Run, String> {
    explore_service(scenario, handler, &|| handler.order.trouble(), fault, flaw)
}

/// As [`explore`], with a service. `trouble` is the rule that it has seen violated.
pub(super) fn explore_service<H: Service>(
    scenario: &Scenario,
    handler: &H,
    trouble: &dyn Fn() -> Option<String>,
    fault: Option<Fault>,
    flaw: Option<Flaw>,
) -> Result<Run, String> {
    virtual_time::set(Some(Nanos::ZERO));
    let packets = ObjectPool::new(scenario.packets, |number| PacketBody::new(number, DATAGRAM_BYTES));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let credit = Credit::new(if flaw == Some(Flaw::Amplifies) { 2 } else { 1 }, 0, SourcePrefix::NETWORK);
    let outside = Arc::new(Outside::new(scenario.packets + scenario.workers + 1));
    let serving = Serving::new(handler, &outside, &[address], credit, scenario.bounds()).unhashed();
    let result = explore_with(scenario, &packets, (&serving, &outside), serving.make(), trouble, (fault, flaw));
    virtual_time::set(None);
    let run = result?;
    if packets.in_use() == 0 { Ok(run) } else { Err(format!("{} packets are away after the end", packets.in_use())) }
}

fn explore_with<'s, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    scenario: &Scenario,
    packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    (serving, outside): (&Serving<'s, '_, H>, &Arc<Outside>),
    make: M,
    trouble: &dyn Fn() -> Option<String>,
    (fault, flaw): (Option<Fault>, Option<Flaw>),
) -> Result<Run, String> {
    let (workers, runtime_id) = (scenario.workers, new_runtime_id());
    let count = scenario.packets + workers + 1;
    let slots = ObjectPool::new(count, |number| Slot::<M::Future>::new(WaitSlot::new(runtime_id, number, outside)));
    let metrics = WorkerMetrics::new(workers);
    let sockets: Vec<WorkerId> = (0..workers).collect();
    let network = Network::new(scenario);
    let filter = AddressFilter::new(&serving.addresses, &[], &[], HostAddresses::default());
    let limits = ArcSwap::from_pointee(scenario.waits);
    let samples = Samples::new(workers, Nanos::ZERO, SourcePrefix::NETWORK, true);
    let limited = vec![(SourcePrefix::NETWORK.of(LIMITED.into()), 0.5)];
    samples.gate_changed(Rules { limited, ..Rules::OPEN }, Nanos::ZERO);
    let common = Common {
        serving,
        make: &make,
        sockets: &sockets,
        filter: &filter,
        packets,
        slots: &slots,
        wait_slots: WaitSlots::new(count, outside),
        repeats: Repeats::new(640),
        outside,
        runtime_id,
        classified: scenario.classified,
        shed_answer: Some(Nanos::from_micros(3)),
        shedding: Shedding::new(sockets.len() + 1, workers, scenario.queued, scenario.classified),
        limits: &limits,
        samples: &samples,
        activity: Activity::default(),
    };
    let engine = |worker| Engine::new(&common, worker, metrics.recorder(worker), MemoryLink::new(&network));
    let mut engines: Vec<_> = (0..=workers).map(engine).collect();
    // As in a server, the thread that stops it has its own packets from the start.
    engines[workers].stock_up();
    let engines = Engines {
        engines,
        ready: (0..=workers).map(|_| VecDeque::new()).collect(),
        network: Rc::clone(&network),
        current: 0,
        step: scenario.step,
        flaw,
        kept: Vec::new(),
    };
    let overheads = Overheads { wake: scenario.wake, ..Overheads::NONE };
    let mut driver =
        Driver::new(scenario.policy.clone(), engines, scenario.rest, &overheads, scenario.queued).heartbeat(HEARTBEAT);
    driver.world.fault = fault;
    let mut books = Books { metrics: &metrics, packets, trouble, trace: Trace::default() };
    let mut offered = 0;
    for (at, event) in &scenario.events {
        run_until(*at, &mut driver, &mut books)?;
        virtual_time::set(Some(*at));
        match event {
            Event::Datagram(owner, bytes) => {
                offered += 1;
                driver.arrive(*at, *owner, bytes.clone());
            }
            Event::Switch(policy) => driver.switch(policy.as_ref().clone(), *at),
            Event::Stop => {
                network.borrow_mut().gate_shut = true;
                serving.room.events.permit_hand_over();
                serving.room.events.stop(H::HEARS_STOP);
            }
            Event::Inherit(parts) => assert_eq!(serving.room.events.inherit(parts, Inherited), 0, "there is room"),
            // Wakes workers for what is due, as the alarm does.
            Event::Tick => {
                if serving.room.events.is_due(*at) && outside.is_empty() {
                    outside.put(continuation::Ready::Events);
                }
                if !outside.is_empty() {
                    driver.wake_all(*at);
                }
            }
        }
        books.check(&driver)?;
    }
    let deadline = scenario.events.last().map_or(Nanos::ZERO, |(at, _)| *at).plus(scenario.drain);
    run_until(deadline, &mut driver, &mut books)?;
    // After the drain, waiting requests are shed and running ones end at their next checkpoint.
    serving.room.events.close();
    driver.abandon(deadline);
    driver.engine.shed_waiting(workers);
    (0..workers).for_each(|owner| driver.world.emptied(owner));
    run_until(Nanos::MAX, &mut driver, &mut books)?;
    books.check(&driver)?;
    let (odd, counted) = (network.borrow().odd, metrics.clock_anomalies());
    if odd != counted {
        return Err(format!("{odd:?} stamps could not be true, counted {counted:?}"));
    }
    if serving.room.turns.busy() > 0 {
        return Err(format!("{} shards are busy after the end", serving.room.turns.busy()));
    }
    let (received, ends) = metrics.ends();
    offered += metrics.counts().counted.shard_events.iter().sum::<u64>();
    let (ended, dropped) = (ends.iter().sum::<u64>(), network.borrow().dropped);
    if received != ended || received + dropped != offered {
        return Err(format!("{offered} came: {received} received, {ended} ended, {dropped} dropped"));
    }
    drop(driver);
    if slots.in_use() > 0 {
        return Err(format!("{} places for requests are away after the end", slots.in_use()));
    }
    scenario.check_time(&metrics)?;
    let (expired, handed_over) = (metrics.counts().counted.expired, serving.room.events.take_handed_over());
    Ok(Run { ends, expired, handed_over, trace: books.trace })
}

/// Lets the workers act until `end`.
fn run_until<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    end: Nanos,
    driver: &mut Driver<Engines<'s, 'e, 'c, H, M>>,
    books: &mut Books<'_, H::Ticket>,
) -> Result<(), String> {
    while driver.next_at() < end {
        driver.act();
        end_forsaken(driver, books.metrics);
        books.check(driver)?;
    }
    Ok(())
}

/// Ends requests that nothing will wake, as the control thread does once a second; here when
/// nothing else happens. Deadlines do not count, so that they cannot hide a lost wake.
fn end_forsaken<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>>(
    driver: &mut Driver<Engines<'s, 'e, 'c, H, M>>,
    metrics: &WorkerMetrics,
) {
    if driver.next_at() < Nanos::MAX || metrics.in_flight() == 0 {
        return;
    }
    let engines = &mut driver.engine;
    engines.current().common.wait_slots.for_each(|job| {
        if let Job::Continuation(slot) = job {
            slot.wake_overdue(Nanos::ZERO);
        }
    });
    engines.gather_ready();
    if !engines.ready[engines.current].is_empty() {
        driver.world.wake_all();
    }
}

/// Longer than any request.
const DATAGRAM_BYTES: usize = 256;

/// The longest time for which a running job keeps its worker.
const HEARTBEAT: Nanos = Nanos::from_micros(40);

/// The accounts that must balance after every event.
struct Books<'b, T> {
    metrics: &'b WorkerMetrics,
    packets: &'b ObjectPool<PacketBody<T>>,
    trouble: &'b dyn Fn() -> Option<String>,
    trace: Trace,
}

impl<T> Books<'_, T> {
    /// Checks three rules. Each packet in use is held by a request in flight until its reply is
    /// sent, or by a worker about to receive. If every worker is parked, no job waits. Flows are
    /// served in order.
    fn check<'s, H: Service<Ticket = T>, M: Make<Packet<'s, T>>>(
        &mut self,
        driver: &Driver<Engines<'s, '_, '_, H, M>>,
    ) -> Result<(), String> {
        let (received, ends) = self.metrics.ends();
        self.trace.note(turn::Engine::now(&driver.engine), (received, ends));
        let in_flight = received - ends.iter().sum::<u64>();
        let (away, held) = (self.packets.in_use() as u64, driver.engine.packets_held() as u64);
        if away != in_flight + held {
            return Err(format!("{away} packets are away: {in_flight} requests in flight, {held} held by workers"));
        }
        let waiting = driver.world.waiting();
        if driver.next_at() == Nanos::MAX && (waiting > 0 || in_flight > 0) {
            return Err(format!("stuck: {waiting} wait, {in_flight} are in flight, and every worker is idle"));
        }
        (self.trouble)().map_or(Ok(()), Err)
    }
}

type ReadyJobs<'s, 'e, H, M> = VecDeque<Ready<Job<'s, 'e, H, M>>>;

/// The engines of all workers, and of the thread that stops them.
struct Engines<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>> {
    engines: Vec<Engine<'s, 'e, 'c, H, M, MemoryLink<'c>>>,
    /// Jobs made ready by each worker's last job. All workers share one thread here, and so its
    /// list of ready jobs.
    ready: Vec<ReadyJobs<'s, 'e, H, M>>,
    network: Rc<RefCell<Network<'c>>>,
    current: WorkerId,
    step: Nanos,
    flaw: Option<Flaw>,
    /// The jobs that [`Flaw::KeepsSetAside`] keeps.
    kept: Vec<Ready<Job<'s, 'e, H, M>>>,
}

impl<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>> Engines<'s, 'e, 'c, H, M> {
    fn current(&mut self) -> &mut Engine<'s, 'e, 'c, H, M, MemoryLink<'c>> {
        &mut self.engines[self.current]
    }

    fn gather_ready(&mut self) {
        while let Some(ready) = turn::Engine::ready(&mut self.engines[self.current]) {
            self.ready[self.current].push_back(ready);
        }
    }

    /// Packets ready to receive into, and those of requests that have a fate but whose answer is
    /// unsent.
    fn packets_held(&self) -> usize {
        self.engines.iter().map(|engine| engine.receiving.spare() + engine.replying.refusals()).sum()
    }

    /// Sheds the datagrams in the sockets, as the stopping thread does.
    fn shed_waiting(&mut self, workers: usize) {
        self.current = workers;
        let mut batch = Vec::new();
        for owner in 0..workers {
            while self.network.borrow().waiting(owner) > 0 {
                let received = turn::Engine::receive(self, owner, &mut batch);
                batch.drain(..).for_each(|arrived| turn::Engine::discard(self, arrived.job, Discarded::Draining));
                turn::Engine::flush(self.current());
                if received.datagrams == 0 {
                    break;
                }
            }
        }
        let looked_at = turn::Engine::now(self);
        turn::Engine::boundary(self.current(), Boundary::Rest { looked_at });
    }
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> VirtualEngine for Engines<'s, '_, '_, H, M> {
    type Arrival = Vec<u8>;

    fn arrive(&mut self, owner: WorkerId, bytes: Vec<u8>) -> bool {
        self.network.borrow_mut().arrive(owner, bytes)
    }

    fn set(&mut self, worker: WorkerId, now: Nanos) {
        self.current = worker;
        virtual_time::set(Some(now));
    }

    fn charge(&mut self, next: &Action<Self::Job>) -> Nanos {
        if let Action::Settle(ran) = next { ran.time() } else { self.step }
    }
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> turn::Engine for Engines<'s, 'e, '_, H, M> {
    type Job = Job<'s, 'e, H, M>;

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received {
        self.current().receive(owner, batch)
    }

    fn run(&mut self, job: Self::Job, at_most: Nanos) -> Ran<Self::Job> {
        let begun_at = clock::now();
        let ran = self.current().run(job, at_most);
        virtual_time::at(begun_at, || self.gather_ready());
        ran
    }

    fn describe(&self, job: &Self::Job) -> Description {
        self.engines[self.current].describe(job)
    }

    fn discard(&mut self, job: Self::Job, why: Discarded) {
        if self.flaw == Some(Flaw::ForgetsFates) && matches!(job, Job::Fresh(_)) {
            return drop(job);
        }
        if self.flaw == Some(Flaw::InventsTime) {
            self.current().recorder.unanswered(0, Nanos::from_micros(1));
        }
        self.current().discard(job, why);
        self.gather_ready();
    }

    fn requeued(&mut self, job: &mut Self::Job, why: Requeued) -> bool {
        self.current().requeued(job, why)
    }

    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        if H::KEEPS {
            self.gather_ready();
        }
        let ready = self.ready[self.current].pop_front()?;
        if matches!(ready, Ready::Arrived(_)) && self.flaw == Some(Flaw::KeepsSetAside) {
            self.kept.push(ready);
            return None;
        }
        Some(ready)
    }

    fn flush(&mut self) {
        self.current().flush();
    }

    fn boundary(&mut self, boundary: Boundary) {
        if matches!(boundary, Boundary::Rest { .. }) && self.flaw == Some(Flaw::KeepsPackets) {
            self.current().receiving.lose();
        }
        self.current().boundary(boundary);
    }

    fn now(&self) -> Nanos {
        self.engines[self.current].now()
    }
}
