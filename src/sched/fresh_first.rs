//! What `hybrid` and `ondemand` have in common: every worker receives, fresh requests go first everywhere, and heavy
//! ones go on where no fresh one waits, the one that began earliest before the others.

use super::{Event, Place, PoolId, Running, SearchPlace, UNINTERRUPTED, Verdict};
use crate::time::Nanos;

/// The queue of heavy requests that were interrupted, apart from the queue of requests that have only turned out to be
/// heavy. It goes first, so heavy requests end in the order in which they began, however often they are interrupted. In
/// one queue for both, each interruption would send them to its tail, and all would end late.
const INTERRUPTED: PoolId = 1;

/// The search order of every worker. Deques hold fresh requests only. A worker that has heavy requests to go on with
/// looks before at the watch set, and does not receive from all sockets: each receive is a system call, and for 14 sockets they
/// take as long as five light requests. What comes later it notices as soon as the heavy request runs.
pub(super) const ORDER: &[SearchPlace] = &[
    SearchPlace::Own,
    SearchPlace::ReceiveNoticed,
    SearchPlace::Steal,
    SearchPlace::QueueOf(UNINTERRUPTED),
    SearchPlace::QueueOf(INTERRUPTED),
    SearchPlace::Queue,
    SearchPlace::ReceiveRest,
];

/// Where `event` puts its job.
pub(super) fn place(pool: PoolId, event: Event) -> Place {
    match event {
        Event::Arrived { .. } => Place::Own,
        Event::Hopped(_) | Event::Yielded(Running { continuation: false, .. }) => Place::Queue(pool),
        Event::Yielded(_) => Place::Queue(INTERRUPTED),
    }
}

/// Whether `running` counts as heavy.
pub(super) fn is_heavy(running: &Running, budget: Nanos) -> bool {
    running.continuation || running.ran >= budget
}

/// How long `running` may run on before the policy is asked: until it turns out heavy.
pub(super) fn ask_after(running: &Running, budget: Nanos) -> Option<Nanos> {
    (!is_heavy(running, budget)).then(|| budget.minus(running.ran))
}

/// What becomes of `running`. A request that has just turned out heavy steps aside this once whether or not another
/// waits: heavy requests that began before it go first, and so do fresh ones that came while it ran and that no worker
/// has received yet.
pub(super) fn at_checkpoint(running: &Running, budget: Nanos) -> Verdict {
    let turns_out_heavy = !running.continuation && running.ran >= budget;
    match is_heavy(running, budget) {
        true if turns_out_heavy || running.flagged => Verdict::Yield,
        true => Verdict::YieldIfWanted,
        false => Verdict::Keep,
    }
}
