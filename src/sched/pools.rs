//! `pools` (micropools): the first pool receives and runs every request for at most one slice; what takes longer goes
//! on in the next pool, which does nothing else. Pools are joined by sharded queues.
//!
//! A request reaches a heavier pool because its class is known and says so, because its handler hops, or because its
//! slice ran out. The last pool runs everything to its end.

use super::estimate::{reserved_workers, workers_of_lightest};
use super::tuning::joined;
use super::{Entry, Event, Kind, Made, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning, Verdict};
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
    make,
};

/// Where sizes are not given, the front pool has the workers that its work needs when all workers are busy: that of the
/// lightest class where classes are known, the first slice of every request where they are not.
fn make(tuning: &Tuning) -> Made {
    let workers = tuning.workers;
    let fitted = || {
        let measured = tuning.measured.as_ref();
        let front = measured.map_or(workers.div_ceil(5), |measured| match tuning.classified {
            true => workers_of_lightest(&measured.by_class, workers),
            false => reserved_workers(&measured.times, tuning.budget, workers as f64, workers),
        });
        if workers > front { vec![front, workers - front] } else { vec![workers] }
    };
    let sizes = tuning.sizes.clone().unwrap_or_else(fitted);
    assert_eq!(sizes.iter().sum::<usize>(), workers, "the pools have all workers");
    let chosen = format!("pools {}, slice {}", joined(&sizes), tuning.budget);
    let kind = Kind::Pools(Pools { slice: tuning.budget });
    Made { pools: sizes, budget: Some(tuning.budget), chosen, ..Made::plain(&ENTRY, kind, tuning) }
}

/// The rules of `pools`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pools {
    /// CPU time that a request may take in a pool that is not the last.
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
            Event::Arrived { .. } => Place::Own,
            Event::Hopped(target) => Place::Queue(target),
            Event::Yielded { .. } => Place::Queue(pool),
        }
    }

    fn ask_after(&self, topology: &Topology, running: &Running) -> Option<Nanos> {
        (running.pool + 1 < topology.pools()).then(|| self.slice.minus(running.ran))
    }

    fn at_checkpoint(&self, topology: &Topology, running: &Running) -> Verdict {
        if running.pool + 1 < topology.pools() && running.ran >= self.slice {
            Verdict::Hop(running.pool + 1)
        } else {
            Verdict::Keep
        }
    }
}
