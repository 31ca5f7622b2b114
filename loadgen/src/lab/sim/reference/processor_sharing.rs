//! Processor sharing: the limit of round robin as turns become infinitely short.

use super::{Discipline, Stage};
use crate::lab::sim::requests::RequestId;
use forebay::inside::sched::WorkerId;
use forebay::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All present requests get CPU time at the same rate, so one clock counts it for all. A request
/// ends when this clock has advanced by the request's cost.
pub(super) struct ProcessorSharing {
    workers: usize,
    /// CPU time given so far to each request that was present from the start, in [`UNITS`].
    given: u128,
    /// For each present request, the value of `given` at which it ends.
    present: BinaryHeap<Reverse<(u128, RequestId)>>,
    /// The time up to which `given` has been counted.
    counted: Nanos,
}

/// Units per nanosecond: so fine that rounding errors of a whole run stay below a nanosecond.
const UNITS: u128 = 1 << 32;
/// The entry of the event list for the next request that ends.
const CLOCK: WorkerId = 0;

impl ProcessorSharing {
    pub(super) fn new(workers: usize) -> ProcessorSharing {
        ProcessorSharing { workers, given: 0, present: BinaryHeap::new(), counted: Nanos::ZERO }
    }

    /// The number of shares: the requests present, but at least the number of workers.
    fn sharers(&self) -> u128 {
        self.present.len().max(self.workers) as u128
    }

    fn count(&mut self, now: Nanos) {
        let passed = u128::from(now.minus(self.counted).get());
        self.given += passed * UNITS * self.workers as u128 / self.sharers();
        self.counted = now;
    }

    fn set_clock(&self, stage: &mut Stage<'_>) {
        match self.present.peek() {
            None => stage.event_list.set(CLOCK, Nanos::MAX),
            Some(Reverse((end, _))) => {
                let wait = (end.saturating_sub(self.given) * self.sharers()).div_ceil(UNITS * self.workers as u128);
                // The sum of all present costs is less than the range of the clock.
                stage.event_list.set(CLOCK, self.counted.plus(Nanos::new(wait as u64)));
            }
        }
    }
}

impl Discipline for ProcessorSharing {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        self.count(now);
        let end = self.given + u128::from(stage.requests.of(request).cost.get()) * UNITS;
        self.present.push(Reverse((end, request)));
        self.set_clock(stage);
    }

    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, _: WorkerId) {
        self.count(now);
        if let Some(Reverse((_, request))) = self.present.pop() {
            stage.finish(request, now);
        }
        self.set_clock(stage);
    }
}
