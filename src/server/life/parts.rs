//! What the threads of a server share, made before any of them.

use crate::config::{Burn, Classify, ShedAnswers};
use crate::handler::Handler;
use crate::metrics::WorkerMetrics;
use crate::queue::ObjectPool;
use crate::runtime::continuation::WaitSlot;
use crate::runtime::{Shared, Worker};
use crate::sched::Policy;
use crate::sched::bounds::{SET_ASIDE_OF_FLOW, SET_ASIDE_PER_WORKER};
use crate::server::Bound;
use crate::server::admin::run_queue::RunQueue;
use crate::server::admin::waiting::Waiting;
use crate::server::path::common::Common;
use crate::server::path::flows::Flows;
use crate::server::path::packet::{PacketBody, Serving};
use crate::server::path::slot::Slot;
use crate::server::path::transport::Transport;
use crate::server::path::wait_slots::WaitSlots;
use crate::server::sizes::Sizes;
use std::io;
use std::os::fd::AsRawFd;

/// What knows neither the handler nor its jobs.
pub(in crate::server) struct Parts {
    pub(in crate::server) sizes: Sizes,
    /// How long requests may wait. Written by the admin thread once a second.
    pub(in crate::server) waiting: Waiting,
    pub(in crate::server) run_queue: RunQueue,
    /// The workers' record of failed receives and sends.
    pub(in crate::server) transport: Transport,
    pub(in crate::server) metrics: WorkerMetrics,
}

impl Parts {
    pub(in crate::server) fn new(bound: &Bound) -> Parts {
        let workers = bound.config.workers;
        Parts {
            sizes: Sizes::of(workers),
            metrics: WorkerMetrics::new(workers),
            transport: Transport::new(workers, bound.listening.group.addresses().len()),
            run_queue: RunQueue::new(workers),
            waiting: Waiting::new(&bound.config),
        }
    }

    /// Empty slots for half-done requests.
    pub(in crate::server) fn slots<F>(&self, bound: &Bound) -> ObjectPool<Slot<F>> {
        let spawning = &bound.spawning.0;
        let mut numbers = 0..;
        ObjectPool::new(self.sizes.slots, || {
            let number = numbers.next().expect("numbers without end");
            Slot::new(WaitSlot::new(spawning.runtime_id, number, &spawning.outside))
        })
    }

    /// What the engines of all workers share.
    pub(in crate::server) fn common<'s, 'e, H: Handler, M, F>(
        &'e self,
        bound: &'e Bound,
        serving: &'e Serving<'s, 'e, H>,
        packets: &'s ObjectPool<PacketBody<H::Ticket>>,
        slots: &'e ObjectPool<Slot<F>>,
        make: &'e M,
    ) -> Common<'s, 'e, H, M, F> {
        let (config, spawning) = (&bound.config, &bound.spawning.0);
        Common {
            serving,
            make,
            sockets: bound.listening.group.sockets(),
            filter: &bound.filter,
            packets,
            slots,
            wait_slots: WaitSlots::new(self.sizes.slots, self.sizes.waiting),
            flows: Flows::new(config.workers, SET_ASIDE_PER_WORKER, SET_ASIDE_OF_FLOW),
            outside: &spawning.outside,
            runtime_id: spawning.runtime_id,
            classified: config.classify == Classify::Header,
            emulated: config.burn == Burn::Sleep,
            transport: &self.transport,
            silent: config.shed_answers == ShedAnswers::Silence,
            limits: self.waiting.limits(),
        }
    }

    /// The workers that follow `policy`, and what they share.
    ///
    /// # Errors
    /// When the kernel has no more descriptors for readiness queues.
    pub(in crate::server) fn workers<J: Send>(
        &self,
        bound: &Bound,
        policy: Policy,
    ) -> io::Result<(Shared<J>, Vec<Worker<J>>)> {
        let config = &bound.config;
        let ingress: Vec<_> = bound.listening.group.sockets().iter().map(AsRawFd::as_raw_fd).collect();
        let (shared, workers) = Shared::new(policy, config.wait, &ingress, self.sizes.queued)?;
        let shared = shared.with_kernel_notices(bound.notices.by_kernel);
        let shared = match config.burn {
            Burn::Cpu => shared,
            Burn::Sleep => shared.with_emulated_looks(config.overheads_scaled().look, config.time_scale),
        };
        Ok((shared, workers))
    }
}
