//! What a server run comes to.

use crate::metrics::{Snapshot, SpawnEnd};

/// How a server run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Everything received or spawned was finished.
    Drained,
    /// The drain timeout passed, or a second signal came, with requests, spawned work or blocking
    /// tasks unfinished.
    Forced,
}

impl Ended {
    /// Determined by what was lost, and by whether blocking tasks were `all_done`, not by how long
    /// the stop took or whether it was hastened.
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
    /// All counters and measurements, exact because nothing moves any more.
    pub totals: Snapshot,
    /// Packets not returned to their pool at the end; 0 if nothing is in flight.
    pub packets_away: usize,
}
