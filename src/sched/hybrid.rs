//! `hybrid` (soft reservation): every worker receives, fresh requests go first everywhere, and heavy ones go on where
//! no fresh one waits. On the reserved workers they watch closely for fresh requests, elsewhere they look once in a long
//! slice: a reserved worker is never far from free, and never idle while there is heavy work.

use super::estimate::softly_reserved_workers;
use super::fresh_first::{self, is_heavy};
use super::tuning::unmeasured;
use super::{
    Entry, Event, Kind, Made, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning, Verdict, Watch,
};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "hybrid",
    literature: Some("soft reservation"),
    help: "heavy requests give way after a slice, sooner on reserved workers",
    needs_class: false,
    shares_sockets: true,
    has_budget: true,
    sizes: Sizes::Reserved,
    adapts: true,
    settings: &["slice", "reserved", "notices"],
    make,
};

/// Longest time between two looks of a heavy request for fresh ones on a reserved worker, unscaled.
const SHORT_SLICE: Nanos = super::ondemand::LOOK_AFTER;

/// Time between two looks of a heavy request on the other workers, unscaled: long enough that looking costs next to
/// nothing.
const LONG_SLICE: Nanos = Nanos::from_micros(20);

fn make(tuning: &Tuning) -> Made {
    let (workers, budget) = (tuning.workers, tuning.budget);
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
    let kind = Kind::Hybrid(Hybrid {
        budget,
        reserved,
        short_slice: tuning.scaled(SHORT_SLICE),
        long_slice: tuning.scaled(LONG_SLICE),
    });
    let chosen = format!("reserved {reserved}, budget {budget}");
    Made { budget: Some(budget), reserved: Some(reserved), chosen, reason, ..Made::plain(&ENTRY, kind, tuning) }
}

/// The rules of `hybrid`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    /// CPU time after which a request counts as heavy.
    pub budget: Nanos,
    /// Number of reserved workers, which are the first ones. Follows the measured demand; an error of one costs little.
    pub reserved: usize,
    /// Longest time between two looks of a heavy request for fresh ones on a reserved worker.
    pub short_slice: Nanos,
    /// Time between two looks of a heavy request for fresh ones on any other worker.
    pub long_slice: Nanos,
}

impl Rules for Hybrid {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        fresh_first::ORDER
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        fresh_first::place(pool, event)
    }

    fn ask_after(&self, _: &Topology, running: &Running) -> Option<Nanos> {
        fresh_first::ask_after(running, self.budget)
    }

    fn uninterrupted_max(&self, workers: usize) -> Option<usize> {
        Some(workers.saturating_sub(self.reserved.max(1)).max(1))
    }

    fn watch(&self, running: &Running) -> Watch {
        match is_heavy(running, self.budget) {
            false => Watch::Never,
            true if running.worker < self.reserved => Watch::Closely(self.short_slice),
            true => Watch::Every(self.long_slice),
        }
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        fresh_first::at_checkpoint(running, self.budget)
    }

    fn watches(&self) -> bool {
        true
    }
}
