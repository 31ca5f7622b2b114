//! Emulated cores (`--burn sleep`): a worker's engine and link, wrapped so that each step is paid
//! for. [`emulation`] says when a charge is paid.

use super::cores::Cores;
use super::error::ServeError;
use super::life::report::Report;
use super::notices::NoticeWay;
use super::path::engine::Engine;
use super::path::job::Job;
use super::path::packet::{Envelope, Packet};
use super::path::serving::Make;
use super::serve::Server;
use crate::config::{Burn, Config};
use crate::emulation::{self, overheads::Overheads};
use crate::handler::Service;
use crate::metrics::{Spent, receiver};
use crate::net::{BATCH, Datagram, KernelLink, Link, Message, Outcomes, Socket};
use crate::runtime::notice;
use crate::sched::turn::{self, Arrived, Boundary, Description, Discarded, Ran, Ready, Received, Requeued};
use crate::sched::{Outcome, Spinning, Step, Wait, WorkerId};
use crate::time::{Nanos, ThreadUse, clock};
use arrayvec::ArrayVec;
use std::{io, mem};

/// As [`Server::run`], on cores that are emulated.
///
/// # Errors
/// Those of [`Server::run`].
pub fn run_emulated<H: Service>(server: Server, handler: &H) -> Result<Report, ServeError> {
    server.run_as::<CoreLink, H>(handler)
}

/// Cores that sleep in place of work, and are charged for each step.
impl Cores for CoreLink {
    const BURN: Burn = Burn::Sleep;

    fn on(link: KernelLink) -> CoreLink {
        CoreLink { link, datagrams: ArrayVec::new(), sent: None }
    }

    fn begin<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>>(
        config: &Config,
        notices: &NoticeWay,
        engine: Engine<'s, 'e, '_, H, M, CoreLink>,
    ) -> impl turn::Engine<Job = Job<'s, 'e, H, M>> {
        let (prices, worker) = (config.overheads_scaled(), engine.worker);
        // Where the kernel gives no notices, a job that would wait for one looks.
        let notice = if notices.by_kernel { prices.notice } else { prices.look };
        let spinning = Spinning::new(Wait::Adaptive, config.time_scale);
        emulation::set_prices(Overheads { notice, ..prices }, spinning);
        if let Err(error) = nix::sys::prctl::set_timerslack(1) {
            tracing::warn!(worker, %error, "emulated cores will oversleep: the timer slack cannot be set");
        }
        Core { engine, slept: Nanos::ZERO, read_at: Nanos::ZERO, from_queue: false, behind: Nanos::ZERO }
    }
}

/// The engine of a worker on an emulated core.
struct Core<'s, 'e, 'c, H: Service, M: Make<Packet<'s, H::Ticket>>> {
    engine: Engine<'s, 'e, 'c, H, M, CoreLink>,
    /// What the core has slept for jobs since the last reply or end that was on time or late.
    slept: Nanos,
    /// The clock at the end of the last receive or job. Other workers go by it, while the core is
    /// unaware of what its thread overslept.
    read_at: Nanos,
    /// Whether the job that it runs next is out of a queue.
    from_queue: bool,
    /// How far the thread was behind its core when that was last recorded.
    behind: Nanos,
}

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>> Core<'s, '_, '_, H, M> {
    /// Charges what the core did to come to `boundary`.
    fn charge(&mut self, boundary: Boundary) {
        let price = emulation::price();
        if let Boundary::Tried { step, outcome: Outcome::Found, .. } = boundary {
            self.from_queue = matches!(step, Step::Queue(_));
        }
        match boundary {
            Boundary::Tried { step: Step::Look, jobs, .. } => emulation::delay(price.look_at(jobs)),
            Boundary::Tried { step: Step::Steal(_), outcome: Outcome::Found, .. } => emulation::charge(price.steal),
            Boundary::Looked { waiting, by_kernel } if waiting > 0 => {
                emulation::charge(price.learning(by_kernel, waiting));
            }
            Boundary::Idle { .. } => emulation::look_on(true),
            Boundary::Busy { .. } => emulation::look_on(false),
            Boundary::Rest { looked_at } => {
                self.record();
                emulation::rest(looked_at);
                self.behind = emulation::paused();
            }
            _ => {}
        }
    }

    /// Records what the core was charged, and how late its replies were.
    fn record(&mut self) {
        if let Some((paid, behind)) = self.engine.link.sent.take() {
            self.overslept(paid, behind);
        }
        self.engine.recorder.spend(Spent::Charged, emulation::take_charged());
    }

    /// Records by how much more than the last time the thread is `behind` its core, which has slept
    /// and `paid` since. A pause counts once, however many replies leave before the thread has
    /// caught up.
    fn overslept(&mut self, paid: Nanos, behind: Nanos) {
        let behind = behind.plus(emulation::paused());
        let grown = behind.minus(std::mem::replace(&mut self.behind, behind));
        self.engine.recorder.overshoot(std::mem::take(&mut self.slept).plus(paid), grown);
    }
}

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> turn::Engine for Core<'s, 'e, '_, H, M> {
    type Job = Job<'s, 'e, H, M>;

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<Self::Job>>) -> Received {
        let received = self.engine.receive(owner, batch);
        self.read_at = clock::now();
        self.record();
        received
    }

    fn has_emptied_own(&self) -> bool {
        self.engine.has_emptied_own()
    }

    fn may_leave_sockets(&self) -> bool {
        // So a core looks once more before it sleeps, and pays for it, as in virtual time.
        false
    }

    fn visit(&mut self, first: WorkerId) {
        self.engine.visit(first);
    }

    fn run(&mut self, mut job: Self::Job, at_most: Nanos) -> Ran<Self::Job> {
        let (price, worker) = (emulation::price(), self.engine.worker);
        // A server has at most 1,024 workers.
        let hold = |envelope: &mut Envelope| mem::replace(&mut envelope.held_by, worker as u16);
        let (ready_at, held_by) = match &mut job {
            Job::Fresh(packet) => {
                hold(&mut packet.envelope);
                (packet.envelope.stay.ready_at, receiver(packet.envelope.id))
            }
            Job::Continuation(slot) => (slot.envelope.stay.ready_at, hold(&mut slot.envelope).into()),
            Job::Child(child) => (child.ready_at(), worker),
        };
        if mem::take(&mut self.from_queue) && held_by != worker {
            emulation::charge(price.hop);
        }
        let begun = emulation::start(ready_at);
        if let Job::Fresh(packet) = &mut job {
            // Of a batch the core receives each datagram when that has come, and not when the last
            // one has.
            packet.envelope.received_at = packet.envelope.received_at.min(begun);
        }
        let done = self.engine.run(job, at_most);
        self.read_at = clock::now();
        emulation::charge(price.look.times(notice::take_vain()));
        let ran = done.time();
        self.slept = self.slept.plus(ran);
        // Where a reply is paid for, it is that payment whose end may be late.
        if matches!(done, Ran::Ended { .. }) && price.send == Nanos::ZERO && self.slept > Nanos::ZERO {
            self.overslept(Nanos::ZERO, self.read_at.minus(self.engine.now));
        }
        self.record();
        done
    }

    fn describe(&self, job: &Self::Job) -> Description {
        self.engine.describe(job)
    }

    fn discard(&mut self, job: Self::Job, why: Discarded) {
        self.engine.discard(job, why);
    }

    fn requeued(&mut self, job: &mut Self::Job, why: Requeued) -> bool {
        emulation::charge(emulation::price().yield_);
        self.engine.now = emulation::pay();
        self.engine.requeued(job, why)
    }

    fn ready(&mut self) -> Option<Ready<Self::Job>> {
        self.engine.ready()
    }

    fn flush(&mut self) {
        self.engine.flush();
        self.record();
    }

    fn boundary(&mut self, boundary: Boundary) {
        self.engine.boundary(boundary);
        self.charge(boundary);
    }

    fn now(&self) -> Nanos {
        self.read_at
    }
}

/// A worker's access to sockets, which its core pays for.
struct CoreLink {
    link: KernelLink,
    /// The datagrams of the last receive, as the core sees them.
    datagrams: ArrayVec<Datagram, BATCH>,
    /// What the core has paid for sends, and how late the last one was.
    sent: Option<(Nanos, Nanos)>,
}

impl CoreLink {
    /// Pays for `count` datagrams that were just received, before another worker sees any of them.
    /// They wait in the kernel until the core is through with that.
    fn pay_for(&mut self, count: usize) {
        let price = emulation::price();
        self.datagrams.clear();
        if count == 0 {
            return emulation::delay(price.poll);
        }
        emulation::charge(price.receive.times(count as u64));
        let (received, now) = (self.link.datagrams(), clock::now());
        let waits = || received.iter().map(|datagram| datagram.kernel_wait);
        // The core was idle if none of them had come when it was through with its last job.
        emulation::start(now.minus(waits().max().unwrap_or(Nanos::ZERO)));
        let latest = now.minus(waits().min().unwrap_or(Nanos::ZERO));
        let paid = emulation::pay().max(latest);
        emulation::received(paid);
        let seen =
            |datagram: &Datagram| Datagram { kernel_wait: datagram.kernel_wait.plus(paid).minus(now), ..*datagram };
        self.datagrams.extend(received.iter().map(seen));
    }
}

impl Link for CoreLink {
    type Socket = Socket;

    fn now() -> Nanos {
        emulation::now()
    }

    /// An emulated core catches up with what its thread has missed, but for pauses.
    fn used(now: Nanos) -> ThreadUse {
        ThreadUse { cpu: now.minus(emulation::paused()), waits: 0 }
    }

    fn receive<'b>(&mut self, socket: &Socket, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        let count = self.link.receive(socket, buffers)?;
        self.pay_for(count);
        Ok(count)
    }

    fn holds(&self, socket: &Socket) -> bool {
        self.link.holds(socket)
    }

    fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }

    fn left(&self) -> usize {
        self.link.left()
    }

    fn discard(&mut self) {
        self.link.discard();
    }

    /// Pays first: no reply leaves earlier than its core's time.
    fn send(&mut self, socket: &Socket, messages: &[Message<'_>], now: Nanos) -> Outcomes {
        let paid = emulation::price().send.times(messages.len() as u64);
        if paid > Nanos::ZERO {
            emulation::charge(paid);
            let late = emulation::pay_on_time();
            let before = self.sent.map_or(Nanos::ZERO, |(before, _)| before);
            self.sent = Some((before.plus(paid), late));
        }
        self.link.send(socket, messages, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a long pause of the host time in which the worker had no CPU, so that nothing has waited
    // then?
    #[test]
    fn a_core_that_the_host_stops_has_no_cpu() {
        let begun = emulation::start(clock::now());
        std::thread::sleep(emulation::PAUSE.into());
        std::thread::sleep(std::time::Duration::from_millis(1));
        let had_before = CoreLink::used(begun).cpu;
        let resumed = emulation::start(begun);
        let had = CoreLink::used(resumed).cpu;
        assert!(had.minus(had_before) < resumed.minus(begun).minus(emulation::PAUSE), "{had_before} to {had}");
    }
}
