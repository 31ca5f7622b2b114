//! What `hybrid` and `ondemand` have in common: every worker receives, fresh requests go first everywhere, and heavy ones
//! go on, the one that began earliest before the others, where nobody fresh waits.

use super::{Event, Place, PoolId, Running, SearchPlace, Verdict};
use crate::time::Nanos;

/// Heavy requests that were interrupted wait apart from those that have only turned out to be heavy, and go first: so
/// they end in the order in which they began, however often they are interrupted. In one queue for both, each
/// interruption would send them to its tail, and all would end late.
const INTERRUPTED: PoolId = 1;

/// Deques hold fresh requests only.
pub(super) const ORDER: &[SearchPlace] = &[
    SearchPlace::Own,
    SearchPlace::ReceiveAll,
    SearchPlace::Steal,
    SearchPlace::QueueOf(INTERRUPTED),
    SearchPlace::Queue,
];

/// Where `event` puts its job.
pub(super) fn place(pool: PoolId, event: Event) -> Place {
    match event {
        Event::Arrived { .. } => Place::Own,
        Event::Hopped(_) | Event::Yielded { again: false } => Place::Queue(pool),
        Event::Yielded { again: true } => Place::Queue(INTERRUPTED),
    }
}

/// Whether `running` counts as heavy.
pub(super) fn is_heavy(running: &Running, budget: Nanos) -> bool {
    running.continuation || running.ran >= budget
}

/// What becomes of `running`. One that has just turned out heavy steps aside this once whether or not a request waits: heavy
/// requests that began before it go first, and so do fresh ones that came while it ran and that no worker has heard of.
pub(super) fn at_checkpoint(running: &Running, budget: Nanos) -> Verdict {
    let turns_out_heavy = !running.continuation && running.ran >= budget;
    match is_heavy(running, budget) {
        true if turns_out_heavy || running.flagged => Verdict::Yield,
        true => Verdict::YieldIfWanted,
        false => Verdict::Keep,
    }
}
