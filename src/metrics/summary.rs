//! The summary that a server prints when it ends.

use super::snapshot::Snapshot;
use super::{Block, Stage};
use crate::fate::Fate;
use std::fmt::{self, Write};

/// A few plain lines: the number of datagrams by fate (zeros are left out, unknown figures are not) and the total
/// latency of each class.
pub fn summary(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    write_summary(&mut text, snapshot).expect("a string takes everything");
    text
}

fn write_summary(text: &mut String, snapshot: &Snapshot) -> fmt::Result {
    let fates = &snapshot.fates;
    write!(text, "received {}", fates.received)?;
    let ends = Fate::ALL.map(|fate| (fate.name(), fates.of(fate)));
    let rest = [("in_flight", fates.in_flight), ("kernel_dropped", fates.kernel_dropped.unwrap_or(0))];
    for (name, count) in ends.into_iter().chain(rest).filter(|(_, count)| *count > 0) {
        write!(text, ", {name} {count}")?;
    }
    if fates.kernel_dropped.is_none() {
        text.push_str(", kernel_dropped unknown");
    }
    text.push('\n');
    if snapshot.since_start.stage(Stage::Total)[0].1.count == 0 {
        return Ok(());
    }
    writeln!(
        text,
        "{:<8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "total us", "count", "p50", "p99", "p99.9", "p99.95", "max"
    )?;
    for (class, block) in snapshot.since_start.stage(Stage::Total) {
        let Block { count, p50, p99, p99_9, p99_95, max, .. } = *block;
        write!(text, "{class:<8} {count:>10}")?;
        for value in [p50, p99, p99_9, p99_95, max] {
            // Infinity where there is no value.
            write!(text, " {:>10.1}", value.unwrap_or(f64::INFINITY))?;
        }
        text.push('\n');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Collector, Gauges, Sample, WorkerMetrics};
    use crate::time::Nanos;

    /// Does the summary name everything that happened and leave out everything that did not?
    #[test]
    fn the_summary_names_what_happened() {
        let metrics = WorkerMetrics::new(1);
        let mut collector = Collector::new(&metrics);
        let mut recorder = metrics.recorder(0);
        recorder.received(2);
        assert_eq!(summary(&collector.snapshot(Gauges::default())), "received 2, in_flight 2\n");
        recorder.answered(&Sample { class: 1, service: Nanos::from_micros(100), ..Sample::default() });
        recorder.ended(Fate::Failed);
        drop(recorder);
        collector.collect(|_| ());
        let text = summary(&collector.snapshot(Gauges::default()));
        assert_eq!(
            text,
            "received 2, answered 1, failed 1\n\
             total us      count        p50        p99      p99.9     p99.95        max\n\
             all               1      100.0      100.0      100.0      100.0      100.0\n\
             long              1      100.0      100.0      100.0      100.0      100.0\n"
        );
    }
}
