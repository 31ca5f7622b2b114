//! The result of a server run.

use crate::metrics::{Snapshot, SpawnEnd};

/// How a server run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Everything that was received or spawned was finished.
    Drained,
    /// The drain timeout passed, or a second signal came, while requests, spawned work or blocking
    /// tasks were unfinished.
    Forced,
}

impl Ended {
    /// [`Ended::Forced`] if work was lost, or blocking tasks were not `all_done`. The length of the
    /// stop, or a second demand, alone does not matter.
    pub(crate) fn with(totals: &Snapshot, all_done: bool) -> Ended {
        let lost =
            totals.fates.shed_draining + totals.fates.in_flight + totals.gauges.spawned[SpawnEnd::Stopped as usize];
        if lost > 0 || !all_done { Ended::Forced } else { Ended::Drained }
    }
}

/// The result of a server run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// How the run ended.
    pub ended: Ended,
    /// All counters and measurements. Exact, because nothing changes any more.
    pub totals: Snapshot,
    /// Packets that were not returned to their pool; 0 if nothing is in flight.
    pub packets_away: usize,
}
