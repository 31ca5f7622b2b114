//! `pools` (micropools): the first pool receives and runs every request for at most one slice; what takes longer goes
//! on in the next pool, which does nothing else. Pools are joined by sharded queues.
//!
//! A request reaches a heavier pool because its class is known and says so, because its handler hops, or because its
//! slice ran out. In the last pool requests take turns, of a slice each.

use super::stability::{Help, share_out, unstable_from};
use super::tuning::joined;
use super::{
    Entry, Event, Kind, Made, Measured, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning, Verdict,
};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "pools",
    literature: Some("micropools"),
    help: "heavy requests move on to workers of their own",
    needs_class: false,
    shares_sockets: true,
    has_budget: true,
    sizes: Sizes::Pools,
    adapts: false,
    settings: &["pools", "slice", "classify"],
    make,
};

/// Where sizes are not given, there are two pools, with workers by what is measured of the requests.
fn make(tuning: &Tuning) -> Made {
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
    let kind = Kind::Pools(Pools { slice: tuning.budget });
    let unstable_from = demands(sizes.len()).map(|demands| unstable_from(&demands, &sizes, Help::None));
    Made { pools: sizes, budget: Some(tuning.budget), chosen, ..Made::plain(&ENTRY, kind, tuning) }
        .bounded(unstable_from, tuning)
}

/// The share of the workers' time, in any unit, that is spent in each of `pools` pools. Where classes are known, each class
/// begins in a pool of its own, as far as there are pools; where they are not, all spend a slice in each but the last.
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

/// The rules of `pools`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pools {
    /// CPU time that a request may take in a pool, and in the last one before another's turn.
    pub slice: Nanos,
}

/// The pool that receives.
const INGRESS: PoolId = 0;

impl Rules for Pools {
    fn uninterrupted_max(&self, _: usize) -> Option<usize> {
        // What turns out long leaves the front pool for the next one.
        None
    }

    fn order(&self, pool: PoolId) -> &'static [SearchPlace] {
        if pool == INGRESS {
            &[SearchPlace::Own, SearchPlace::Queue, SearchPlace::ReceiveAll, SearchPlace::Steal]
        } else {
            // A deque holds only what another policy left there.
            &[SearchPlace::Queue, SearchPlace::Own]
        }
    }

    fn place(&self, topology: &Topology, pool: PoolId, event: Event) -> Place {
        match event {
            // Class 0 is the lightest; each heavier one belongs one pool further on, as far as there are pools.
            Event::Arrived { class: Some(class), .. } if class > 0 => {
                Place::Queue(usize::from(class).min(topology.pools() - 1))
            }
            Event::Arrived { .. } if pool == INGRESS => Place::Own,
            Event::Arrived { .. } => Place::Queue(INGRESS),
            Event::Hopped(target) => Place::Queue(target),
            Event::Yielded { .. } => Place::Queue(pool),
        }
    }

    fn ask_after(&self, topology: &Topology, running: &Running) -> Option<Nanos> {
        // A job that has had its slice, and runs on as no other waits, is asked again after another one.
        let left = if running.ran < self.slice { self.slice.minus(running.ran) } else { self.slice };
        (topology.pools() > 1).then_some(left)
    }

    fn at_checkpoint(&self, topology: &Topology, running: &Running) -> Verdict {
        match running.pool {
            _ if running.ran < self.slice => Verdict::Keep,
            pool if pool + 1 < topology.pools() => Verdict::Hop(pool + 1),
            // In one pool for all, nothing waits in its queue.
            INGRESS => Verdict::Keep,
            _ => Verdict::TakeTurns,
        }
    }
}
