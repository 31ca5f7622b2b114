//! Virtual time: what a server under a policy would do with given requests, without threads,
//! sockets or a clock.
//!
//! [`simulate`] drives the very worker that the server's threads drive,
//! [`Turn`](forebay::inside::sched::turn::Turn), under the same [`Policy`] objects. `world` is what
//! that worker acts on, `model.rs` what a request is. What threads do beside the work has a price
//! ([`Overheads`]), and they wait for one another where only one can be at a time
//! (`world/contention.rs`). The same requests give the same result, bit for bit. Several servers
//! behind a balancer are a [`Fleet`], in one time (`servers.rs`), and so are the groups of one
//! server.
//!
//! Sockets, deques, queues and packets are bounded as in the server, so memory does not grow with
//! the run.

mod balance;
#[cfg_attr(test, allow(dead_code, reason = "the explorer of the server uses more of it"))]
pub(crate) mod driver;
mod event_list;
mod fit;
mod fleet;
mod model;
mod open_loop;
mod reference;
mod replay;
mod requests;
mod servers;
mod stability;
mod tally;
#[cfg_attr(test, allow(dead_code, reason = "the explorer of the server uses more of it"))]
pub(crate) mod world;

pub use balance::{Balance, ZIPF_MAX};
pub use fit::Fit;
pub(crate) use fit::slice_of;
pub use fleet::Fleet;
pub(crate) use open_loop::spread;
pub use open_loop::{ArrivingRequest, OpenLoop};
pub use reference::Reference;
pub use replay::Replay;
pub(crate) use tally::Figure;
pub use tally::{FATES, Tally};

use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::sched::bounds::{BATCH, ROOM, packets_per_worker};
use forebay::inside::sched::estimate::{ServiceTimes, TimesOfClass};
use forebay::inside::sched::overload::WaitLimits;
use forebay::inside::sched::{Adaptation, MaxWait, Policy, Tuning, Wait};
use forebay::time::Nanos;
use servers::Servers;
use std::cell::RefCell;

/// A server to simulate.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The policy that the workers follow; that of the largest group where they form groups.
    pub policy: Policy,
    /// Workers of each group, the largest first.
    pub groups: Vec<usize>,
    /// What each step costs.
    pub overheads: Overheads,
    /// What an idle worker does.
    pub rest: Rest,
    /// CPU time between two checkpoints of a handler; above zero.
    pub checkpoint_step: Nanos,
    /// Whether the policy may know a request's class.
    pub classified: bool,
    /// Bounds.
    pub limits: Limits,
    /// How long requests may wait, and the service that is expected of them: one with a deadline
    /// must not begin where less time is left.
    pub waits: WaitLimits,
    /// When all workers stand still, and for how long, in the order of time. Requests come
    /// meanwhile.
    pub pauses: Vec<(Nanos, Nanos)>,
    /// What the server does with its measurements; `None` = nothing changes.
    pub follows: Option<Follows>,
}

/// What a server does with its measurements.
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
    /// The shortest time for which the watcher backs off after a spurious wake.
    pub nap_min: Nanos,
}

impl Rest {
    /// The worker never sleeps: it sees at once whatever it may take.
    pub const LOOKS: Rest = Rest { wait: Wait::Spin, nap_min: Nanos::ZERO };
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Datagrams that one receive takes at most.
    pub batch: usize,
    /// Packets for each worker.
    pub packets_per_worker: usize,
    /// Jobs in all queues together, for each worker.
    pub queued_per_worker: usize,
    /// Datagrams that a socket holds.
    pub socket_capacity: usize,
}

impl Limits {
    /// The bounds of `forebay serve`, whose sockets have 4 MiB, in which a small datagram takes 832
    /// bytes.
    pub const SERVER: Limits = Limits {
        batch: BATCH,
        packets_per_worker: packets_per_worker(ROOM),
        queued_per_worker: ROOM,
        socket_capacity: (4 << 20) / 832,
    };
}

impl Setup {
    /// A server of workers that always look, without any overhead, with a checkpoint for each
    /// microsecond of cost.
    pub fn ideal(policy: Policy) -> Setup {
        Setup {
            groups: vec![policy.topology.workers],
            policy,
            overheads: Overheads::NONE,
            rest: Rest::LOOKS,
            checkpoint_step: Nanos::from_micros(1),
            classified: false,
            limits: Limits::SERVER,
            waits: WaitLimits::NONE,
            pauses: Vec::new(),
            follows: None,
        }
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.groups.iter().sum()
    }

    /// The time on clocks when workers have not stood still for `worked`.
    fn on_clock(&self, worked: Nanos) -> Nanos {
        let after = |time: Nanos, (at, length): &(Nanos, Nanos)| if time >= *at { time.plus(*length) } else { time };
        self.pauses.iter().fold(worked, after)
    }

    /// How long workers have not stood still when clocks show `time`.
    fn worked(&self, time: Nanos) -> Nanos {
        let before =
            |time: Nanos, (at, length): &(Nanos, Nanos)| if time >= *at { time.minus(*length).max(*at) } else { time };
        self.pauses.iter().rev().fold(time, before)
    }

    /// The same server, where requests wait as under `max_wait` at a server that has measured
    /// `times`. A request that is expected to end after its deadline does not begin.
    ///
    /// `of_class`: the times of each class, where classes may be known.
    pub fn with_max_wait(self, max_wait: MaxWait, times: &ServiceTimes, of_class: Option<&TimesOfClass>) -> Setup {
        let tuning =
            Tuning { max_wait, beside: self.overheads.per_request(), ..Tuning::new(self.workers(), Nanos::ZERO) };
        let mut waits = WaitLimits::unmeasured(max_wait);
        waits.follow(&tuning, self.policy.first_slice(), times, of_class);
        Setup { waits, ..self }
    }

    /// A server with these overheads. Where waking costs something its workers sleep as in
    /// `forebay serve`.
    pub fn with_overheads(policy: Policy, overheads: Overheads) -> Setup {
        let sleeps = Rest { wait: Wait::Adaptive, nap_min: Nanos::from_millis(1) };
        let rest = if overheads.wake > Nanos::ZERO { sleeps } else { Rest::LOOKS };
        Setup { overheads, rest, ..Setup::ideal(policy) }
    }
}

/// The result of `setup` for `incoming`, which come in the order of their times and are all
/// consumed.
///
/// # Panics
/// If a request comes to a socket that does not exist, or has no cost.
pub fn simulate(setup: &Setup, incoming: impl Iterator<Item = ArrivingRequest>) -> Tally {
    let tally = RefCell::default();
    simulate_into(setup, incoming, &tally);
    tally.into_inner()
}

/// As [`simulate`], into a tally that `incoming` may look at. Each request is drawn when the one
/// before it has come.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_into(setup: &Setup, incoming: impl Iterator<Item = ArrivingRequest>, tally: &RefCell<Tally>) {
    Servers::new(setup, 1, tally).run(incoming.map(|request| (request, 0)), |_, _, _| 0);
}

#[cfg(test)]
mod tests;
