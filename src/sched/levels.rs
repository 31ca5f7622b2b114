//! `levels`: a request's level is how much CPU time it has taken so far, cut at a few limits. Lower levels go first. A
//! request that runs steps aside where one of a lower level waits that finds no free worker, and where it comes to the
//! next level itself.
//!
//! With one limit this is `ondemand`. With none it is first come, first served, as under `global`. Where the limits
//! belong follows from the measured service times ([`super::gittins`]).

use super::global::Global;
use super::ladder::{Ladder, Ladders};
use super::ondemand::LOOK_AFTER;
use super::tuning::unmeasured;
use super::{
    Entry, Event, Kind, Made, Objective, Patience, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning,
    UNINTERRUPTED, Verdict, Watch,
};
use crate::time::Nanos;
use std::ops::Range;

pub(super) const ENTRY: Entry = Entry {
    name: "levels",
    literature: Some("Gittins index, in steps"),
    help: "requests give way to those that have taken less CPU time, by levels that follow what is measured",
    needs_class: false,
    shares_sockets: true,
    has_budget: true,
    sizes: Sizes::None,
    adapts: true,
    settings: &["slice", "optimise", "classify", "notices"],
    make,
};

fn make(tuning: &Tuning) -> Made {
    let measured = tuning.measured.as_ref().filter(|measured| measured.times.count() > 0);
    let (ladders, reason) = match measured {
        Some(measured) => {
            let ladders = tuning.objective.ladders(measured, tuning.yield_cost);
            let reason = format!("a yield costs {}{}", tuning.yield_cost, ladders.classes_text());
            (ladders, reason)
        }
        None => (Ladders::blind(Ladder::from_iter([tuning.budget])), unmeasured(tuning)),
    };
    Made { reason, ..with_ladders(ladders, tuning) }
}

/// The policy whose requests have these levels. Where all requests together have one, those of each class have too: to keep
/// them apart would take queues for what is as good in the order of arrival.
pub(super) fn with_ladders(ladders: Ladders, tuning: &Tuning) -> Made {
    let look_after = tuning.scaled(LOOK_AFTER);
    let budget = ladders.first_limit();
    let (kind, chosen) = if budget.is_none() {
        (Kind::Global(Global { look_after }), "one level".to_owned())
    } else {
        let from = ladders.all.limits().map(|limit| limit.to_string()).collect::<Vec<_>>().join(", ");
        let times = tuning.measured.as_ref().map(|measured| &measured.times).filter(|times| times.count() > 0);
        let of = |(times, heavy_from)| Patience::new(times, heavy_from, tuning.workers, tuning.yield_cost);
        let patience = times.zip(budget).map(of);
        let patient = patience.map(|patience| format!(", patient from {} waiting on", patience.queued));
        let chosen = format!("levels from {from}{}", patient.unwrap_or_default());
        let in_order = tuning.objective == Objective::Latency;
        (Kind::Levels(Levels { ladders, look_after, patience, in_order }), chosen)
    };
    Made { budget, chosen, ..Made::plain(&ENTRY, kind, tuning) }
}

/// The rules of `levels`.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// The levels of requests; at least one limit where the class is not known.
    pub ladders: Ladders,
    /// Longest time between two looks for waiting requests, of all workers together.
    pub look_after: Nanos,
    /// When fresh requests are left to workers that are in light ones; `None` = never.
    pub patience: Option<Patience>,
    /// Whether requests of level 0 are served in the order in which they came, as under `global`, which takes a queue for
    /// all; else by whom they find first.
    pub in_order: bool,
}

/// Deques and sockets hold fresh requests only. As under `ondemand`, one look comes before a queue.
const ORDER: &[SearchPlace] = &[
    SearchPlace::Own,
    SearchPlace::ReceiveNoticed,
    SearchPlace::Steal,
    SearchPlace::QueueOf(UNINTERRUPTED),
    SearchPlace::Queues,
    SearchPlace::ReceiveRest,
];

/// Where level 0 has a queue for all: as `global` before it is empty, and then as ever.
const ORDER_OF_ARRIVAL: &[SearchPlace] = &[
    SearchPlace::ReceiveNext,
    SearchPlace::QueueOf(0),
    SearchPlace::Own,
    SearchPlace::ReceiveNoticed,
    SearchPlace::QueueOf(UNINTERRUPTED),
    SearchPlace::Queues,
    SearchPlace::ReceiveRest,
];

impl Levels {
    /// Whether `other` has the same levels and the same patience, but for noise.
    pub(super) fn is_like(&self, other: &Levels) -> bool {
        let patience = match (&self.patience, &other.patience) {
            (Some(one), Some(other)) => one.is_like(other),
            (one, other) => one == other,
        };
        patience && self.in_order == other.in_order && self.ladders.are_like(&other.ladders)
    }

    fn level_of(&self, running: &Running) -> usize {
        self.ladders.of(running.class).level(running.attained.plus(running.ran))
    }

    /// Whether the request has come to another level since it was taken from its queue.
    fn has_risen(&self, running: &Running) -> bool {
        self.ladders.of(running.class).level(running.attained) < self.level_of(running)
    }
}

/// The queue of the interrupted requests of a level. Those that have not begun the level wait in the next one: so
/// requests end a level in the order in which they came to it, however often they are interrupted.
fn interrupted(level: usize) -> PoolId {
    (2 * level).saturating_sub(1)
}

impl Rules for Levels {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        if self.in_order { ORDER_OF_ARRIVAL } else { ORDER }
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            Event::Arrived { class, .. } => match self.ladders.of(class).first() {
                0 if self.in_order => Place::Queue(0),
                0 => Place::Own,
                level => Place::Queue(interrupted(level) + 1),
            },
            Event::Hopped(_) => Place::Queue(pool),
            Event::Yielded(running) => {
                let level = self.level_of(&running);
                Place::Queue(interrupted(level) + usize::from(self.has_risen(&running)))
            }
        }
    }

    fn queues(&self) -> PoolId {
        interrupted(self.ladders.last()) + 2
    }

    fn ask_after(&self, _: &Topology, running: &Running) -> Option<Nanos> {
        let attained = running.attained.plus(running.ran);
        self.ladders.of(running.class).next_limit(attained).map(|limit| limit.minus(attained))
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        match self.level_of(running) {
            0 => Verdict::Keep,
            _ if running.flagged || self.has_risen(running) => Verdict::Yield,
            _ => Verdict::YieldIfWanted,
        }
    }

    fn heavy_from(&self) -> Option<Nanos> {
        self.ladders.first_limit()
    }

    fn patience(&self) -> Option<Patience> {
        self.patience
    }

    fn goes_first(&self, running: &Running) -> Range<PoolId> {
        0..interrupted(self.level_of(running))
    }

    fn watch(&self, running: &Running) -> Watch {
        if self.level_of(running) > 0 { Watch::Closely(self.look_after) } else { Watch::Never }
    }

    fn watches(&self) -> bool {
        true
    }

    fn look_after(&self) -> Nanos {
        self.look_after
    }
}
