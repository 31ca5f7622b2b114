//! The workers' threads: how each is prepared, and its engine.

use super::parts::Parts;
use super::threads::Starter;
use crate::config::{Burn, Config, Wait};
use crate::emulation::{self, overheads::Overheads};
use crate::handler::Handler;
use crate::metrics::Recorder;
use crate::net::KernelLink;
use crate::runtime::{AbortOnPanic, Shared, Worker};
use crate::server::path::common::Common;
use crate::server::path::execute::Engine;
use crate::server::path::packet::Packet;
use crate::server::path::slot::Job;
use crate::server::{Bound, pin};
use std::future::Future;
use std::io;
use std::thread::ScopedJoinHandle;
use tokio::runtime::Runtime;

/// What each worker's thread uses.
pub(super) struct Crew<'a, 's, 'e, H: Handler, M, F> {
    pub(super) bound: &'a Bound,
    pub(super) parts: &'e Parts,
    pub(super) common: &'a Common<'s, 'e, H, M, F>,
    pub(super) shared: &'a Shared<Job<'s, 'e, F, H::Ticket>>,
    pub(super) runtime: &'a Runtime,
}

impl<'s, 'e, H, M, F> Crew<'_, 's, 'e, H, M, F>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
{
    /// Starts the thread of each of `workers`.
    pub(super) fn start<'scope>(
        &'scope self,
        starter: &mut Starter<'scope, '_>,
        workers: Vec<Worker<Job<'s, 'e, F, H::Ticket>>>,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        let prices = prices(&self.bound.config, self.bound.notices.by_kernel);
        let start = |worker: Worker<_>| {
            let id = worker.id();
            let recorder = self.parts.metrics.recorder(id);
            starter.start(&format!("forebay-{id}"), move |starting| {
                let _guard = AbortOnPanic;
                // For the timers that handlers wait for.
                let _entered = self.runtime.enter();
                prepare_thread(&self.bound.config, id, prices);
                self.parts.run_queue.enter(id);
                let mut engine = self.engine(id, recorder);
                if starting.begins() {
                    worker.run(self.shared, &mut engine);
                }
            })
        };
        workers.into_iter().map(start).collect()
    }

    /// The engine of the thread that stops the server.
    pub(super) fn stopping_engine(&self) -> Engine<'s, 'e, '_, H, M, F, KernelLink> {
        let worker = self.bound.config.workers;
        let mut engine = self.engine(worker, self.parts.metrics.recorder(worker));
        // It must always find packets to receive into, so these are set aside.
        engine.stock_up();
        engine
    }

    fn engine(&self, worker: usize, recorder: Recorder<'e>) -> Engine<'s, 'e, '_, H, M, F, KernelLink> {
        let Bound { ways, listening, .. } = self.bound;
        let link = KernelLink::new(ways.receive, ways.send, listening.group.addresses().len());
        Engine::new(self.common, worker, recorder, link)
    }
}

/// Applies kernel settings to a worker's thread, without which it works, only less well, and the `prices` of what an
/// emulated core does.
fn prepare_thread(config: &Config, worker: usize, prices: Overheads) {
    if config.pin
        && let Err(error) = pin::pin_to_cpu_of(worker)
    {
        tracing::warn!(worker, %error, "the worker cannot be pinned");
    }
    if config.burn == Burn::Sleep {
        emulation::set_prices(prices, config.scaled(Wait::Adaptive.spin_for()));
    }
    if config.burn == Burn::Sleep
        && let Err(error) = nix::sys::prctl::set_timerslack(1)
    {
        tracing::warn!(worker, %error, "emulated cores will oversleep: the timer slack cannot be set");
    }
}

/// What each step costs an emulated core. Where the kernel gives no notices, a job that would wait for one looks.
fn prices(config: &Config, notices_by_kernel: bool) -> Overheads {
    let prices = config.overheads_scaled();
    let notice = if notices_by_kernel { prices.notice } else { prices.look };
    Overheads { notice, ..prices }
}
