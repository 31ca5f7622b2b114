//! What the workers write for the control threads to read, and the other way round.

use super::path::common::Transport;
use super::path::samples::Samples;
use crate::metrics::WorkerMetrics;
use crate::sched::overload::WaitLimits;
use arc_swap::ArcSwap;
use std::sync::atomic::AtomicI32;

pub(super) struct Board {
    pub(super) metrics: WorkerMetrics,
    /// Who uses the workers' time.
    pub(super) samples: Samples,
    /// The workers' record of failed receives and sends.
    pub(super) transport: Transport,
    /// The kernel's number of each worker's thread; 0 before it runs.
    pub(super) threads: Box<[AtomicI32]>,
    /// How long requests may wait. Written by the admin thread once a second.
    pub(super) limits: ArcSwap<WaitLimits>,
}

impl Board {
    /// For a server with so many workers and addresses.
    pub(super) fn new(workers: usize, addresses: usize, samples: Samples, limits: WaitLimits) -> Board {
        Board {
            metrics: WorkerMetrics::new(workers),
            samples,
            transport: Transport::new(workers, addresses),
            threads: (0..workers).map(|_| AtomicI32::new(0)).collect(),
            limits: ArcSwap::from_pointee(limits),
        }
    }
}
