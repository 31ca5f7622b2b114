//! The table of policies: each row has the name, the help, when not to use it, and the constructor.
//!
//! A new policy is a row in [`ROWS`]. No other list of policies exists.

use super::{
    Back, Entry, Fresh, GiveWay, Limit, Made, Order, Patience, Permits, Policy, PolicyName, SearchPlace, Then,
    UNINTERRUPTED,
};
use crate::auto::{Auto, Decision};
use crate::interface::Topology;
use crate::ladder::Ladders;
use crate::time::Nanos;
use crate::tuning::Tuning;

/// Every policy of a server, in the order of help and error messages.
pub const ROWS: &[Entry] = &[
    Entry {
        name: "isolated",
        literature: Some("d-FCFS"),
        help: "each worker serves its own socket",
        not_for: "costs that differ: a request waits behind a long one while other workers are idle",
        constructor: |tuning| Made::plain(isolated(tuning.workers)),
        ..Entry::PLAIN
    },
    Entry {
        name: "global",
        literature: Some("c-FCFS, FIFO"),
        help: "all workers serve one queue",
        not_for: "costs that differ much, or requests as brief as the queue itself",
        shares_sockets: true,
        constructor: |tuning| Made::plain(global(tuning)),
        ..Entry::PLAIN
    },
    Entry {
        name: "steal",
        literature: Some("work stealing"),
        help: "idle workers take from busy ones, also from their sockets",
        not_for: "heavy requests on all workers at once: light ones wait for the first that ends",
        shares_sockets: true,
        constructor: |tuning| Made::plain(steal(tuning)),
        ..Entry::PLAIN
    },
    Entry {
        name: "shed",
        literature: Some("work shedding"),
        help: "as steal, and overloaded workers give work away",
        not_for: "few workers: as steal, with a queue to pay for",
        shares_sockets: true,
        constructor: |tuning| {
            let usual = &[Own, Queue, ReceiveOwn, Steal, ReceiveBusy];
            let rare = &[ReceiveDeserted, Own, Queue, ReceiveOwn, Steal, ReceiveBusy];
            // The queue comes before the socket. So a worker takes back jobs that it gave away
            // before it receives more, and the queue stays short.
            let first = Order { rare, ..Order::always(usual) };
            let policy = Policy { first, fresh: Fresh::OwnUpTo(OVERLOADED_FROM), ..steal(tuning) };
            Made::plain(policy)
        },
        ..Entry::PLAIN
    },
    Entry {
        name: "pools",
        literature: Some("micropools"),
        help: "heavy requests move on to workers of their own",
        not_for: "a mix that shifts: its sizes stay as they are",
        shares_sockets: true,
        settings: &["pools", "slice", "classify"],
        constructor: pools,
        ..Entry::PLAIN
    },
    Entry {
        name: "levels",
        literature: Some("two-level feedback queue"),
        help: "requests that have run for a slice give way to those that have not",
        not_for: "handlers without checkpoints, and a mix that shifts: its limit stays as it is",
        shares_sockets: true,
        adapts: true,
        settings: &["slice", "notices"],
        constructor: |tuning| Decision::given(tuning.budget).make(tuning),
    },
    Entry {
        name: "auto",
        literature: Some("Gittins index, in steps"),
        help: "levels of attained service, or first come first served, by what it measures",
        not_for: "experiments that compare policies: it changes",
        shares_sockets: true,
        adapts: true,
        settings: &["slice", "optimise", "classify", "notices"],
        constructor: |tuning| Auto::settled(tuning).current.explained(tuning),
    },
];

use SearchPlace::{
    Neglected, Own, Queue, QueueFor, QueueOf, Queues, ReceiveAll, ReceiveBusy, ReceiveDeserted, ReceiveNext,
    ReceiveNoticed, ReceiveOwn, ReceiveRest, Steal,
};

/// The longest interval between two looks of all closely watching workers together, before the time
/// scale. Without the kernel's notices, a fresh request may wait this long until a worker with a
/// heavy one finds it.
pub const LOOK_AFTER: Nanos = Nanos::from_micros(10);

/// The longest interval between two looks of all workers that do not watch closely, together,
/// before the time scale.
const LOOK_RARELY: Nanos = Nanos::from_micros(7);

/// A worker with this many jobs in its deque puts further ones into the queue. It runs about this
/// many jobs itself before a woken worker would take the first one.
const OVERLOADED_FROM: usize = 8;

/// Up to this queue length, requests keep the order of arrival. At a load of .9 without bursts, one
/// request in 850 finds a longer queue: .9 to the power of 64 (M/M/k).
const IN_ORDER_UP_TO: usize = 64;

/// Each worker serves only its own socket. A free worker cannot help another one, so no worker has
/// to stay free, and uninterrupted work needs no permits.
fn isolated(workers: usize) -> Policy {
    Policy::plain(workers, &[Own, ReceiveOwn])
}

/// All workers serve one queue. Requests in a socket may be older than those in the queue. So
/// before a worker takes from the queue, it receives from the socket that was served longest ago.
/// README.md says what this costs.
pub fn global(tuning: &Tuning) -> Policy {
    Policy {
        fresh: Fresh::QueueUpTo(usize::MAX),
        back: Back::Queue,
        look_after: tuning.scaled(LOOK_AFTER),
        uninterrupted: Some(Permits::all_but_one(tuning)),
        ..Policy::plain(tuning.workers, &[ReceiveNext, Queue, Own, ReceiveAll])
    }
}

/// Idle workers steal. If they stole only from deques, head-of-line blocking would remain:
/// datagrams behind a long job wait in the busy worker's socket. So thieves also receive from the
/// sockets of workers that have been in one job for a threshold. Below the threshold, the worker is
/// probably soon back itself. Under overload no worker is idle. So rare searches begin at sockets
/// that are deserted. Otherwise clients of a parked worker would get no answer.
fn steal(tuning: &Tuning) -> Policy {
    let usual = &[Own, ReceiveOwn, Steal, ReceiveBusy];
    let rare = &[ReceiveDeserted, Own, ReceiveOwn, Steal, ReceiveBusy];
    Policy {
        first: Order { rare, ..Order::always(usual) },
        stuck_after: tuning.thief_threshold(),
        uninterrupted: Some(Permits::all_but_one(tuning)),
        ..Policy::plain(tuning.workers, usual)
    }
}

/// The first pool receives every request and runs it for at most one slice. Longer requests
/// continue in the next pool, which serves only these. A request's class or handler may send it
/// there sooner. In the last pool, requests take turns.
fn pools(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let sizes = tuning.sizes.clone().unwrap_or_else(|| default_pools(workers));
    assert_eq!(sizes.iter().sum::<usize>(), workers, "the pools have all workers");
    let joined = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("+");
    let chosen = format!("pools {joined}, slice {}", tuning.budget);
    let limit = if sizes.len() > 1 { Limit::Stay { slice: tuning.budget, then: Then::Hop } } else { Limit::None };
    let policy = Policy {
        topology: Topology::new(&sizes),
        rest: Order::always(&[Queue, Own]),
        fresh: Fresh::ByPool,
        back: Back::Queue,
        limit,
        ..Policy::plain(workers, &[Own, Queue, ReceiveAll, Steal])
    };
    Made { budget: Some(tuning.budget), chosen, ..Made::plain(policy) }
}

/// The default sizes: a fifth of the workers, rounded up, in the first pool, and the others in the
/// second, if any are left.
pub fn default_pools(workers: usize) -> Vec<usize> {
    let front = workers.div_ceil(5);
    if workers > front { vec![front, workers - front] } else { vec![front] }
}

impl Decision {
    /// The name of the decided policy.
    pub(crate) fn name(&self) -> PolicyName {
        PolicyName::named(if self.in_order && !self.gives_way() { "global" } else { "levels" })
    }

    /// The policy of this decision, made from `tuning`.
    pub fn make(&self, tuning: &Tuning) -> Made {
        let measured = tuning.measured.as_ref().filter(|measured| !self.is_start && measured.times.count() > 0);
        let Some(budget) = self.ladders.first_limit() else {
            let (policy, chosen) = if self.in_order { (ordered(tuning), "") } else { (one_level(tuning), "one level") };
            let (chosen, reason) = (chosen.to_owned(), self.reason.clone());
            return Made { chosen, reason, name: self.name(), ..Made::plain(policy) };
        };
        let together = tuning.scaled(LOOK_AFTER);
        let patience = measured.map(|measured| Patience::new(&measured.times, budget, together, tuning));
        let patient = |patience: Patience| format!(", patient from {} waiting on", patience.queued(tuning.workers));
        let who = patience.map_or_else(String::new, patient);
        let limits = self.ladders.all.limits().map(|limit| limit.to_string()).collect::<Vec<_>>().join(", ");
        let policy = by_level(self.ladders.clone(), self.in_order, patience, tuning);
        let chosen = format!("levels from {limits}{who}");
        let (name, budget, reason) = (self.name(), Some(budget), self.reason.clone());
        Made { name, budget, chosen, reason, ..Made::plain(policy) }
    }

    /// Makes the policy as [`Decision::make`] does, and adds the reason to its text.
    pub(crate) fn explained(&self, tuning: &Tuning) -> Made {
        let made = self.make(tuning);
        let settings = if made.chosen.is_empty() { String::new() } else { format!(", {}", made.chosen) };
        let reason = format!("{}{}", self.reason, self.ladders.classes_text());
        Made { chosen: format!("{}{settings}: {reason}", made.name), reason, ..made }
    }
}

/// Acts as `global` while fewer than `IN_ORDER_UP_TO` requests wait. During a burst there is no
/// time to pass on each request. So each worker then keeps the requests that it receives until its
/// deque is empty, and receives from all sockets in turn. The result is nearly the order of
/// arrival.
pub fn ordered(tuning: &Tuning) -> Policy {
    let order = &[ReceiveNext, Queue, Own, Steal, ReceiveAll];
    Policy { first: Order::always(order), fresh: Fresh::QueueUpTo(IN_ORDER_UP_TO), ..global(tuning) }
}

/// Each worker serves the requests that it receives itself. It receives from the sockets that have
/// held datagrams for longest. Only idle workers steal, so few requests pass between workers.
pub fn one_level(tuning: &Tuning) -> Policy {
    Policy {
        uninterrupted: Some(Permits::all_but_one(tuning)),
        ..Policy::plain(tuning.workers, &[Own, ReceiveNoticed, Steal, ReceiveRest])
    }
}

/// A multilevel feedback queue: every worker receives, and lower levels go first. Deques and
/// sockets hold only fresh requests. Before a worker resumes a heavy request, it asks the kernel
/// which sockets hold datagrams. To receive from each of 14 sockets instead would take as long as
/// five light requests.
///
/// All workers watch for fresh requests and ask one another to yield, with this patience.
///
/// With `in_order`, level 0 has one queue. Until this queue is empty, workers act as under
/// `global`; afterwards as described above.
pub fn by_level(ladders: Ladders, in_order: bool, patience: Option<Patience>, tuning: &Tuning) -> Policy {
    let order = &[Own, ReceiveNoticed, Steal, QueueOf(UNINTERRUPTED), Queues, ReceiveRest];
    let scarce = &[Own, ReceiveOwn, QueueOf(UNINTERRUPTED), Queues, ReceiveNoticed, Steal, ReceiveRest];
    const ARRIVAL: Order =
        Order::always(&[ReceiveNext, QueueOf(0), Own, ReceiveNoticed, QueueOf(UNINTERRUPTED), Queues, ReceiveRest]);
    let first = if in_order { ARRIVAL } else { Order { scarce, ..Order::always(order) } };
    let notices = tuning.notices_between_arrivals();
    let gives_way = GiveWay { rarely: tuning.scaled(LOOK_RARELY), notices, patience };
    Policy {
        first,
        rest: if in_order { ARRIVAL } else { Order::always(order) },
        fresh: Fresh::ByLevel { in_order },
        back: Back::Levels,
        look_after: tuning.scaled(LOOK_AFTER),
        limit: Limit::Attained { ladders, gives_way },
        uninterrupted: Some(Permits::all_but_one(tuning)),
        ..Policy::plain(tuning.workers, order)
    }
}

/// The policy of the runtime as a library, without sockets. Each pool has one queue for high, one
/// for normal and one for background tasks. A task's children wait in the deque of its worker, and
/// workers of a pool steal from one another. After a slice, a task yields at its next checkpoint if
/// a task that is at least as urgent waits.
pub fn tasks(topology: &Topology, slice: Nanos) -> Policy {
    // A task that yields goes to the back of its priority's queue. In the worker's own deque it
    // would be the next job again.
    let order = Order {
        usual: &[QueueFor(0), Own, QueueFor(1), Steal, QueueFor(2)],
        rare: &[Neglected, QueueFor(0), Own, QueueFor(1), Steal, QueueFor(2)],
        scarce: &[QueueFor(0), Own, QueueFor(1), Steal, QueueFor(2)],
    };
    let policy = Policy {
        topology: topology.clone(),
        first: order,
        rest: order,
        back: Back::Priorities,
        limit: Limit::Stay { slice, then: Then::GiveWay },
        switched: false,
        ..Policy::plain(topology.workers, order.usual)
    };
    policy.checked()
}

#[cfg(test)]
mod tests;
