//! The counters of all workers at one time.

use crate::fate::Fate;
use crate::metrics::WorkerMetrics;
use crate::metrics::counters::{Counts, UnansweredCounts};
use crate::time::{Nanos, clock};

/// The counters of all workers at one time.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(super) at: Nanos,
    pub(super) counts: Counts,
    pub(super) unanswered: UnansweredCounts,
    /// Datagrams that the kernel has dropped since the start; `None` where that is not known.
    pub(super) kernel_dropped: Option<u64>,
}

impl Reading {
    /// The counters as of now.
    pub(crate) fn new(metrics: &WorkerMetrics, kernel_dropped: Option<u64>) -> Reading {
        let counts = metrics.counts();
        Reading { at: clock::now(), counts, unanswered: metrics.unanswered(), kernel_dropped }
    }

    /// The time of the reading.
    pub(crate) fn at(&self) -> Nanos {
        self.at
    }

    /// Well-formed datagrams that were received and not refused.
    pub(super) fn asked(&self) -> u64 {
        let ended = |fate: Fate| self.counts.ended[fate as usize];
        self.counts.received.saturating_sub(ended(Fate::Malformed) + ended(Fate::Refused))
    }
}
