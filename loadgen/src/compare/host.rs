//! Measures how late this host wakes threads, before any run. The threads sleep as emulated cores
//! do.

use crate::plan::{Plan, cpus};
use crate::text::{time, wrapped};
use forebay::metrics::{Block, Percentile};
use forebay::time::{Nanos, clock};
use nix::sys::prctl::set_timerslack;
use serde::Serialize;
use std::thread;

/// The time for which the host is measured.
const MEASURED: Nanos = Nanos::from_secs(1);
/// The time from one wake-up of a thread to the next.
const STEP: Nanos = Nanos::from_millis(1);
/// If threads wake late by more than this share of the shortest request, figures are only upper
/// bounds.
const SHARE_MAX: f64 = 0.05;

/// How late threads wake up.
#[derive(Debug, Serialize)]
pub(crate) struct Host {
    late_us: Block,
}

impl Host {
    /// Measures for a second: one thread for each CPU sleeps to absolute times.
    pub(crate) fn measured() -> Host {
        let begins = clock::now();
        let one = || {
            // If the kernel refuses this, threads wake later and the measurement shows it.
            let _ = set_timerslack(1);
            let due = (1..MEASURED.get() / STEP.get()).map(|step| begins.plus(STEP.times(step)));
            let late = due.map(|due| {
                thread::sleep(due.minus(clock::now()).into());
                clock::now().minus(due).as_micros_f64()
            });
            late.collect::<Vec<f64>>()
        };
        let mut late_us: Vec<f64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..cpus()).map(|_| scope.spawn(one)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("sleeping does not panic")).collect()
        });
        late_us.sort_unstable_by(f64::total_cmp);
        Host { late_us: Block::from_sorted(&late_us) }
    }

    /// One sentence: how late the host is, and what this means for the runs of `plan`.
    pub(crate) fn said(&self, plan: &Plan) -> String {
        let shortest = plan.workload.smallest_cost().plus(plan.workload.time_beside()).times(plan.time_scale);
        let (shortest_us, p99) = (shortest.as_micros_f64(), self.late_us.percentile(Percentile::P99));
        let is_late = p99.is_none_or(|p99| p99 > SHARE_MAX * shortest_us);
        let expect = if is_late { ", and most measured figures will be bounds" } else { "" };
        let [p99, most, shortest] = [p99, self.late_us.max, Some(shortest_us)].map(time);
        let text = format!("This host is late by {p99} at p99, {most} at most, beside requests of {shortest}{expect}.");
        wrapped("", &text, "")
    }
}
