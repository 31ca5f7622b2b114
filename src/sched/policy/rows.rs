//! The policies, one row each: its name, when not to use it, and how it is made.
//!
//! A new policy is a row in [`ROWS`]; nothing else lists them.

use super::super::estimate::softly_reserved_workers;
use super::super::ladder::{Ladder, Ladders};
use super::super::stability::{Help, share_out, unstable_from};
use super::super::{Objective, Patience, Topology, auto};
use super::tuning::{joined, unmeasured};
use super::{
    Back, Entry, Fresh, GiveWay, Groups, Limit, Made, Measured, Order, Policy, SearchPlace, Sizes, Then, Tuning,
    UNINTERRUPTED,
};
use crate::time::Nanos;

/// Every policy of a server, in the order in which help and error messages list them.
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
            let order = &[Own, Queue, ReceiveOwn, Steal, ReceiveBusy];
            // The queue before the socket: a worker that gave work away takes it back before it receives more, so the
            // queue stays short.
            let policy =
                Policy { first: Order::always(order), fresh: Fresh::OwnUpTo(OVERLOADED_FROM), ..steal(tuning) };
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
        sizes: Sizes::Pools,
        settings: &["pools", "slice", "classify"],
        constructor: pools,
        ..Entry::PLAIN
    },
    Entry {
        name: "reserve",
        literature: Some("DARC"),
        help: "classes, known from the header, have workers of their own, as many as their demand needs",
        not_for: "requests whose header does not tell their cost",
        needs_class: true,
        shares_sockets: true,
        sizes: Sizes::Groups,
        adapts: true,
        settings: &["reserved", "classify"],
        constructor: reserve,
    },
    Entry {
        name: "hybrid",
        literature: Some("soft reservation"),
        help: "heavy requests give way after a slice, sooner on reserved workers",
        not_for: "handlers without checkpoints",
        shares_sockets: true,
        sizes: Sizes::Reserved,
        adapts: true,
        settings: &["slice", "reserved", "notices"],
        constructor: hybrid,
        ..Entry::PLAIN
    },
    Entry {
        name: "ondemand",
        literature: Some("yield when somebody waits"),
        help: "heavy requests give way when a fresh one waits that finds no free worker",
        not_for: "handlers without checkpoints, and yields that cost as much as a light request",
        shares_sockets: true,
        adapts: true,
        settings: &["slice", "notices"],
        constructor: |tuning| {
            let chosen = format!("budget {}", tuning.budget);
            Made { budget: Some(tuning.budget), chosen, ..Made::plain(two_levels(tuning.budget, ON_ALL, tuning)) }
        },
        ..Entry::PLAIN
    },
    Entry {
        name: "levels",
        literature: Some("Gittins index, in steps"),
        help: "requests give way to those that have taken less CPU time, by levels that follow what is measured",
        not_for: "handlers without checkpoints",
        shares_sockets: true,
        adapts: true,
        settings: &["slice", "optimise", "classify", "notices"],
        constructor: levels,
        ..Entry::PLAIN
    },
    auto::ENTRY,
];

use SearchPlace::{
    Lighter, LighterInNeed, Neglected, Own, Queue, QueueFor, QueueOf, Queues, ReceiveAll, ReceiveBusy, ReceiveNext,
    ReceiveNoticed, ReceiveOwn, ReceiveRest, Steal,
};

/// Longest time between two looks for waiting requests, of all workers together, unscaled. Without notices of the kernel, a
/// request may wait for so long until a heavy one sees it.
const LOOK_AFTER: Nanos = Nanos::from_micros(10);

/// Longest time between two looks of all workers together that do not watch closely, unscaled.
const LOOK_RARELY: Nanos = Nanos::from_micros(7);

/// Time between two looks of a worker that is not reserved, unscaled. A look then costs next to nothing.
const LOOK_BESIDE_RESERVED: Nanos = Nanos::from_micros(50);

/// Jobs behind a worker from which on it gives further ones away. It would have done as many by the time that a woken worker
/// takes the first.
const OVERLOADED_FROM: usize = 8;

/// All workers watch closely, and ask one another to step aside.
const ON_ALL: GiveWay = GiveWay {
    closely: usize::MAX,
    rarely: LOOK_RARELY,
    together: true,
    flags_others: true,
    notices: u32::MAX,
    patience: None,
};

/// Every worker but one may work uninterrupted.
fn all_but_one(workers: usize) -> Option<usize> {
    Some(workers.saturating_sub(1).max(1))
}

/// Each worker serves its own socket. None can stand in for another, so all may work uninterrupted.
fn isolated(workers: usize) -> Policy {
    Policy::plain(workers, &[Own, ReceiveOwn])
}

/// What waits in a socket may have come before what is in the queue. So a worker looks into one socket before it takes
/// from the queue, each into the one into which none has looked for longest. README.md says what this costs.
fn global(tuning: &Tuning) -> Policy {
    Policy {
        fresh: Fresh::Queue,
        back: Back::Queue,
        look_after: tuning.scaled(LOOK_AFTER),
        uninterrupted: all_but_one(tuning.workers),
        ..Policy::plain(tuning.workers, &[ReceiveNext, Queue, Own, ReceiveAll])
    }
}

/// Stealing from deques alone does nothing for the packets behind a long job: they wait in the socket of the busy
/// worker. The threshold keeps thieves away from workers that will be back in a moment.
fn steal(tuning: &Tuning) -> Policy {
    Policy {
        stuck_after: tuning.thief_threshold(),
        uninterrupted: all_but_one(tuning.workers),
        ..Policy::plain(tuning.workers, &[Own, ReceiveOwn, Steal, ReceiveBusy])
    }
}

/// The first pool receives and runs every request for at most one slice. What takes longer goes on in the next pool,
/// which does nothing else; its class or its handler may send it there sooner. In the last pool requests take turns.
///
/// Where sizes are not given, there are two pools, with workers by what is measured of the requests.
fn pools(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let measured = tuning.measured.as_ref().filter(|measured| measured.times.count() > 0);
    let demands = |pools| measured.map(|measured| demands(measured, tuning, pools));
    let fitted = || match (workers, measured, demands(2)) {
        (1, _, _) => vec![1],
        (_, Some(measured), Some(demands)) => share_out(&demands, workers, measured.busy_workers, Help::None),
        _ => vec![workers.div_ceil(5), workers - workers.div_ceil(5)],
    };
    let sizes = tuning.sizes.clone().unwrap_or_else(fitted);
    assert_eq!(sizes.iter().sum::<usize>(), workers, "the pools have all workers");
    let chosen = format!("pools {}, slice {}", joined(&sizes), tuning.budget);
    let unstable_from = demands(sizes.len()).map(|demands| unstable_from(&demands, &sizes, Help::None));
    let limit = if sizes.len() > 1 { Limit::Stay { slice: tuning.budget, then: Then::Hop } } else { Limit::None };
    let policy = Policy {
        topology: Topology::new(&sizes),
        rest: Order::always(&[Queue, Own]),
        fresh: Fresh::ByPool,
        back: Back::Queue,
        limit,
        ..Policy::plain(workers, &[Own, Queue, ReceiveAll, Steal])
    };
    Made { budget: Some(tuning.budget), chosen, ..Made::plain(policy) }.bounded(unstable_from, tuning)
}

/// The share of the workers' time, in any unit, that is spent in each of `pools` pools. Where classes are known, each class
/// begins in a pool of its own, as far as there are pools. Otherwise all requests spend a slice in each pool but the last.
fn demands(measured: &Measured, tuning: &Tuning, pools: usize) -> Vec<f64> {
    if tuning.classified {
        let mut demands = vec![0.0; pools];
        for (class, (_, time)) in measured.by_class.iter().enumerate() {
            demands[class.min(pools - 1)] += time.as_secs_f64();
        }
        return demands;
    }
    let within = |pools: usize| measured.times.share_within(tuning.budget.times(pools as u64));
    let before = |pool: usize| if pool < pools { within(pool) } else { 1.0 };
    (0..pools).map(|pool| before(pool + 1) - before(pool)).collect()
}

/// Classes of like cost form a group, and each group has as many workers as its measured demand keeps busy. Workers of
/// heavier groups help lighter ones, never the other way round: a light request waits for no heavy one.
fn reserve(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let by_demand =
        |measured: &Measured| Groups::by_demand(&measured.by_class, measured.busy_workers, workers, tuning.reserved);
    let measured = tuning.measured.as_ref().and_then(by_demand);
    let beside = tuning.measured.as_ref().map(Measured::beside_text).unwrap_or_default();
    let reason = match &measured {
        Some(groups) => format!("workers by group of classes, the lightest first: {:?}{beside}", groups.sizes),
        None => unmeasured(tuning),
    };
    let mut groups = measured.unwrap_or_else(|| Groups::one(workers));
    if let Some(sizes) = tuning.sizes.as_ref().filter(|sizes| sizes.len() == groups.sizes.len()) {
        groups.sizes.clone_from(sizes);
    }
    let (chosen, reserved) = (format!("groups {}", joined(&groups.sizes)), Some(groups.sizes[0]));
    let unstable_from = tuning.measured.as_ref().map(|measured| groups.unstable_from(&measured.by_class));
    let made = Made::plain(by_group(groups, tuning));
    Made { reserved, chosen, reason, ..made }.bounded(unstable_from, tuning)
}

/// A worker of a heavier group serves a lighter one first where more wait there than that has workers. Where fewer wait, its
/// own are free for them in a moment. If heavier workers took these as well, as DARC's dispatcher does, lighter ones would
/// then stand idle while heavy requests wait. TPC-C on 14 workers would end below a load of .95. Helping takes half of the
/// time while heavier ones wait, so a flood of requests labelled light starves no other class.
pub fn by_group(groups: Groups, tuning: &Tuning) -> Policy {
    Policy {
        topology: Topology::new(&groups.sizes),
        rest: Order::always(&[ReceiveNext, LighterInNeed, Queue, Own, Lighter, ReceiveAll]),
        fresh: Fresh::ByGroup(groups),
        back: Back::Queue,
        look_after: tuning.scaled(LOOK_AFTER),
        ..Policy::plain(tuning.workers, &[ReceiveNext, Queue, Own, ReceiveAll])
    }
}

/// Heavy requests watch closely for fresh ones on the reserved workers, and look rarely on the others. A reserved worker
/// is never far from free, and never idle while there is heavy work.
fn hybrid(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let budget = tuning.ladders.as_ref().and_then(Ladders::first_limit).unwrap_or(tuning.budget);
    let given = tuning.reserved.or(tuning.sizes.as_ref().map(|sizes| sizes[0]));
    // A time without requests says nothing about the load to come.
    let measured = tuning.measured.as_ref().filter(|measured| given.is_none() && measured.times.count() > 0);
    let estimated = measured.map(|measured| {
        let reserved = softly_reserved_workers(&measured.times, budget, measured.busy_workers, workers);
        let (busy, share) = (measured.busy_workers, measured.times.handler_share_within(budget) * 100.0);
        let beside = measured.beside_text();
        (
            reserved,
            format!("{busy:.1} workers are busy, {share:.0} % of the time in handlers within the budget{beside}"),
        )
    });
    // Before anything is measured, the share that the front pool of `pools` has.
    let unmeasured = || (given.unwrap_or(workers.div_ceil(5)), unmeasured(tuning));
    let (reserved, reason) = estimated.unwrap_or_else(unmeasured);
    let policy = softly_reserved(budget, reserved, tuning);
    let chosen = format!("reserved {reserved}, budget {budget}");
    let made = Made::plain(policy);
    Made { budget: Some(budget), reserved: Some(reserved), chosen, reason, ..made }
}

/// `ondemand` of which the first `reserved` workers watch closely.
pub fn softly_reserved(budget: Nanos, reserved: usize, tuning: &Tuning) -> Policy {
    let gives_way =
        GiveWay { closely: reserved, rarely: LOOK_BESIDE_RESERVED, together: false, flags_others: false, ..ON_ALL };
    let uninterrupted = Some(tuning.workers.saturating_sub(reserved.max(1)).max(1));
    Policy { uninterrupted, ..two_levels(budget, gives_way, tuning) }
}

/// Requests are heavy once they have taken `budget`, and from their first pause on.
fn two_levels(budget: Nanos, gives_way: GiveWay, tuning: &Tuning) -> Policy {
    let mut policy = by_level(Ladders::blind(Ladder::from_iter([budget])), gives_way, tuning);
    if let Limit::Attained { resumed_is_heavy, .. } = &mut policy.limit {
        *resumed_is_heavy = true;
    }
    policy
}

/// A request's level is the CPU time that it has taken, cut at a few limits. Where the limits belong follows from the
/// measured service times ([`super::super::gittins`]).
fn levels(tuning: &Tuning) -> Made {
    let measured = tuning.measured.as_ref().filter(|measured| measured.times.count() > 0);
    let (ladders, reason) = match (&tuning.ladders, measured) {
        (Some(ladders), _) => (ladders.clone(), String::new()),
        (None, Some(measured)) => {
            let ladders = tuning.objective.ladders(measured, tuning.yield_cost);
            let reason = format!("a yield costs {}{}", tuning.yield_cost, ladders.classes_text());
            (ladders, reason)
        }
        (None, None) => (Ladders::blind(Ladder::from_iter([tuning.budget])), unmeasured(tuning)),
    };
    // Where all requests together have one level, those of each class have one too. To keep them apart would take queues,
    // and the order of arrival is as good.
    let Some(budget) = ladders.first_limit() else {
        // `auto` says by the levels that there is no time for the order of arrival.
        let in_order =
            tuning.ladders.is_none() && measured.is_some_and(|measured| tuning.has_time_to_pass_on(measured));
        let policy = if in_order { global(tuning) } else { one_level(tuning) };
        return Made { chosen: "one level".to_owned(), reason, ..Made::plain(policy) };
    };
    let from = ladders.all.limits().map(|limit| limit.to_string()).collect::<Vec<_>>().join(", ");
    let patience = measured.map(|measured| Patience::new(&measured.times, budget, tuning.scaled(LOOK_AFTER), tuning));
    let patient = patience.map(|patience| format!(", patient from {} waiting on", patience.queued(tuning.workers)));
    let chosen = format!("levels from {from}{}", patient.unwrap_or_default());
    let policy = by_level(ladders, GiveWay { patience, ..ON_ALL }, tuning);
    let policy = if tuning.objective == Objective::Latency { in_order(policy) } else { policy };
    Made { budget: Some(budget), chosen, reason, ..Made::plain(policy) }
}

/// Each worker serves what it receives, from the sockets in which something has waited for longest. So no request passes
/// from one worker to another, but for what an idle one steals.
fn one_level(tuning: &Tuning) -> Policy {
    Policy {
        uninterrupted: all_but_one(tuning.workers),
        ..Policy::plain(tuning.workers, &[Own, ReceiveNoticed, Steal, ReceiveRest])
    }
}

/// Every worker receives, and lower levels go first. Deques and sockets hold fresh requests only. A worker that has heavy
/// requests to go on with asks first where something waits. To receive from each of 14 sockets takes as long as five light
/// requests.
fn by_level(ladders: Ladders, gives_way: GiveWay, tuning: &Tuning) -> Policy {
    let order = &[Own, ReceiveNoticed, Steal, QueueOf(UNINTERRUPTED), Queues, ReceiveRest];
    let scarce = &[Own, ReceiveOwn, QueueOf(UNINTERRUPTED), Queues, ReceiveNoticed, Steal, ReceiveRest];
    let notices = tuning.notices_between_arrivals(gives_way.closely.min(tuning.workers));
    let gives_way = GiveWay { rarely: tuning.scaled(gives_way.rarely), notices, ..gives_way };
    Policy {
        first: Order { scarce, ..Order::always(order) },
        fresh: Fresh::ByLevel { in_order: false },
        back: Back::Levels,
        look_after: tuning.scaled(LOOK_AFTER),
        limit: Limit::Attained { ladders, resumed_is_heavy: false, gives_way },
        uninterrupted: all_but_one(tuning.workers),
        ..Policy::plain(tuning.workers, order)
    }
}

/// The same levels, with a queue for all of level 0: as `global` before it is empty, and then as ever.
pub fn in_order(policy: Policy) -> Policy {
    const ORDER: Order =
        Order::always(&[ReceiveNext, QueueOf(0), Own, ReceiveNoticed, QueueOf(UNINTERRUPTED), Queues, ReceiveRest]);
    Policy { fresh: Fresh::ByLevel { in_order: true }, first: ORDER, rest: ORDER, ..policy }
}

/// The policy of the runtime as a library, which has no sockets. Each pool has a queue for high tasks, one for normal and
/// one for background tasks. What a task spawns stays in the deque of its worker. Workers of a pool steal from one another.
/// A task that has run for a slice gives way, at its checkpoints, to any waiting one that is at least as urgent.
pub fn tasks(topology: &Topology, slice: Nanos) -> Policy {
    // A task that stepped aside goes behind what its queue holds: from its own deque it would come back at once.
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
        ..Policy::plain(topology.workers(), order.usual)
    };
    policy.checked()
}
