//! Processor sharing: round robin with infinitely short turns.

use super::{Discipline, Stage};
use crate::lab::sim::requests::RequestId;
use forebay::inside::sched::WorkerId;
use forebay::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Since the later of two requests arrived, both have been given the same CPU time. So one clock of
/// given CPU time serves all requests.
pub(super) struct ProcessorSharing {
    workers: usize,
    /// CPU time that a request present from the start would have been given, in [`UNITS`].
    given: u128,
    /// For each present request, the value of `given` at which it ends.
    present: BinaryHeap<Reverse<(u128, RequestId)>>,
    /// Until when `given` has been counted.
    counted: Nanos,
}

/// Units in a nanosecond, so that rounding adds up to less than a nanosecond over a run.
const UNITS: u128 = 1 << 32;
/// The entry of the event list that keeps the time of the next end.
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
                // The sum of all costs present fits the clock.
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
