//! Virtual time: how a server under a policy would treat given requests, computed without threads,
//! sockets or a clock.
//!
//! [`simulate`] runs the worker code of the server's threads, [`Turn`](forebay_sched::turn::Turn),
//! under the same [`Policy`] objects. Each worker acts on the state in [`world`], and `model.rs`
//! defines requests. Steps beside the work cost time
//! ([`Overheads`]). Some places serve one worker at a time, so other workers wait
//! (`world/contention.rs`). The same requests give the same result, bit for bit. The groups of a
//! server share one virtual time (`server.rs`).
//!
//! Sockets, deques, queues and packets are bounded as in the server, so memory does not grow with
//! the length of the run.

pub mod driver;
mod event_list;
mod fit;
mod gate;
#[doc(hidden)]
pub mod inputs;
mod model;
mod open_loop;
mod reference;
mod replay;
mod requests;
mod server;
mod stability;
pub mod stats;
mod tally;
pub mod workload;
pub mod world;

pub use fit::Fit;
pub use fit::slice_of;
pub use open_loop::spread;
pub use open_loop::{ArrivingRequest, OpenLoop};
pub use reference::Reference;
pub use replay::Replay;
pub use tally::Figure;
pub use tally::{FATES, Tally};

use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::bounds::{BATCH, ROOM, packets_per_worker};
use forebay_sched::estimate::{ServiceTimes, TimesOfClass};
use forebay_sched::overload::WaitLimits;
use forebay_sched::{Adaptation, MaxWait, Policy, Tuning, Wait};
use server::Server;
use std::cell::RefCell;

/// A server to simulate.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The policy that the workers follow. With groups, the policy for the largest group.
    pub policy: Policy,
    /// Workers of each group, the largest first.
    pub groups: Vec<usize>,
    /// What each step costs.
    pub overheads: Overheads,
    /// What an idle worker does.
    pub rest: Rest,
    /// CPU time between two checkpoints of a handler; above zero.
    pub checkpoint_step: Nanos,
    /// Requests with this cost or more have no checkpoint. They work uninterrupted, with a permit;
    /// [`Nanos::MAX`] = none.
    pub uninterrupted_from: Nanos,
    /// Whether the policy may know a request's class.
    pub classified: bool,
    /// Bounds of sockets, queues and packets.
    pub limits: Limits,
    /// The limits on waiting times, and the expected service times. A request does not begin if its
    /// deadline is nearer than its expected service time.
    pub waits: WaitLimits,
    /// Pauses of all workers: the beginning and the length of each, in the order of time. Requests
    /// arrive during pauses.
    pub pauses: Vec<(Nanos, Nanos)>,
    /// How the server changes its policy by measurements; `None` = the policy stays.
    pub follows: Option<Follows>,
    /// The gate's time scale: the gate sees each simulated time multiplied by this. `None` = the
    /// server has no gate.
    pub gate: Option<u64>,
}

/// How a server changes its policy by measurements.
#[derive(Clone, Debug)]
pub struct Follows {
    /// The policy in force, and the rule that changes it.
    pub adaptation: Adaptation,
    /// The time between two decisions; above zero.
    pub every: Nanos,
}

/// What an idle worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Whether the worker spins before it sleeps.
    pub wait: Wait,
    /// The watcher backs off for at least this long after a spurious wake.
    pub nap_min: Nanos,
}

impl Rest {
    /// The worker never sleeps: it sees available work at once.
    pub const LOOKS: Rest = Rest { wait: Wait::Spin, nap_min: Nanos::ZERO };
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most datagrams of one receive.
    pub batch: usize,
    /// Packets for each worker.
    pub packets_per_worker: usize,
    /// Jobs in all queues together, for each worker.
    pub queued_per_worker: usize,
    /// Datagrams that a socket holds.
    pub socket_capacity: usize,
}

impl Limits {
    /// The bounds of `forebay serve`. A socket's buffer has 4 MiB, of which a small datagram takes
    /// 832 bytes.
    pub const SERVER: Limits = Limits {
        batch: BATCH,
        packets_per_worker: packets_per_worker(ROOM),
        queued_per_worker: ROOM,
        socket_capacity: (4 << 20) / 832,
    };
}

impl Setup {
    /// A server without overheads, whose workers never sleep. Requests have a checkpoint for each
    /// microsecond of cost.
    pub fn ideal(policy: Policy) -> Setup {
        Setup {
            groups: vec![policy.topology.workers],
            policy,
            overheads: Overheads::NONE,
            rest: Rest::LOOKS,
            checkpoint_step: Nanos::from_micros(1),
            uninterrupted_from: Nanos::MAX,
            classified: false,
            limits: Limits::SERVER,
            waits: WaitLimits::NONE,
            pauses: Vec::new(),
            follows: None,
            gate: None,
        }
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.groups.iter().sum()
    }

    /// Converts the time without pauses into the time on a clock, which includes pauses.
    fn on_clock(&self, worked: Nanos) -> Nanos {
        let after = |time: Nanos, (at, length): &(Nanos, Nanos)| if time >= *at { time.plus(*length) } else { time };
        self.pauses.iter().fold(worked, after)
    }

    /// Converts the time on a clock into the time without pauses.
    fn worked(&self, time: Nanos) -> Nanos {
        let before =
            |time: Nanos, (at, length): &(Nanos, Nanos)| if time >= *at { time.minus(*length).max(*at) } else { time };
        self.pauses.iter().rev().fold(time, before)
    }

    /// The same server with the limits of `max_wait`, after it has measured the service times
    /// `times`. A request does not begin if it is expected to end after its deadline.
    ///
    /// `of_class`: the service times of each class, if the policy may know classes.
    pub fn with_max_wait(self, max_wait: MaxWait, times: &ServiceTimes, of_class: Option<&TimesOfClass>) -> Setup {
        let tuning =
            Tuning { max_wait, beside: self.overheads.per_request(), ..Tuning::new(self.workers(), Nanos::ZERO) };
        let mut waits = WaitLimits::unmeasured(max_wait);
        waits.follow(&tuning, self.policy.first_slice(), times, of_class);
        Setup { waits, ..self }
    }

    /// A server with these overheads. If waking a worker costs time, idle workers sleep as in
    /// `forebay serve`; otherwise they never sleep.
    pub fn with_overheads(policy: Policy, overheads: Overheads) -> Setup {
        let sleeps = Rest { wait: Wait::Adaptive, nap_min: Nanos::from_millis(1) };
        let rest = if overheads.wake > Nanos::ZERO { sleeps } else { Rest::LOOKS };
        Setup { overheads, rest, ..Setup::ideal(policy) }
    }
}

/// Simulates `setup` with the requests `incoming`, which are in the order of their times. Runs
/// until each request has its fate.
///
/// # Panics
/// If a request comes to a socket that does not exist, or has no cost.
pub fn simulate(setup: &Setup, incoming: impl Iterator<Item = ArrivingRequest>) -> Tally {
    let tally = RefCell::default();
    simulate_into(setup, incoming, &tally);
    tally.into_inner()
}

/// Like [`simulate`], but counts in a tally that `incoming` may read during the run. A request is
/// drawn only after the request before it has arrived.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_into(setup: &Setup, incoming: impl Iterator<Item = ArrivingRequest>, tally: &RefCell<Tally>) {
    let samples = setup.gate.map(|scale| gate::samples(setup.workers(), setup.overheads.per_request(), scale));
    Server::new(setup, samples.as_ref(), tally).run(incoming);
}

#[cfg(test)]
mod tests;
