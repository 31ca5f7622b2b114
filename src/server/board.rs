//! Shared state that workers write for the control threads, and the other way round.

use crate::metrics::WorkerMetrics;
use crate::runtime::samples::Samples;
use crate::sched::overload::WaitLimits;
use arc_swap::ArcSwap;
use std::sync::atomic::AtomicI32;

pub(super) struct Board {
    pub(super) metrics: WorkerMetrics,
    /// Samples of who uses the workers' time.
    pub(super) samples: Samples,
    /// The kernel's thread number of each worker; 0 before the thread runs.
    pub(super) threads: Box<[AtomicI32]>,
    /// The limits on waiting. The admin thread writes them once a second.
    pub(super) limits: ArcSwap<WaitLimits>,
}

impl Board {
    /// The board of a server with this many workers.
    pub(super) fn new(workers: usize, samples: Samples, limits: WaitLimits) -> Board {
        Board {
            metrics: WorkerMetrics::new(workers),
            samples,
            threads: (0..workers).map(|_| AtomicI32::new(0)).collect(),
            limits: ArcSwap::from_pointee(limits),
        }
    }
}
