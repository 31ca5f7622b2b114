//! `GET /history`: the last ten minutes, for the charts of the admin page. Schema
//! `forebay-history/1`.

use super::collector::Collector;
use super::snapshot::Snapshot;
use forebay_clock as clock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Number of intervals that are kept; they cover ten minutes. Each takes 3 KiB with two classes,
/// and 15 KiB with sixteen, and at most 3 KiB more for who blocked whom.
const KEPT: usize = 60;

/// The last finished intervals, oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// The recorded intervals as JSON, oldest first.
    intervals: VecDeque<String>,
    /// Number of the interval that was current at the last [`History::keep`].
    under_way: u64,
}

impl History {
    /// Whether an interval of `collector` has finished and is not kept yet. The first call is
    /// always due.
    pub fn is_due(&self, collector: &Collector<'_>) -> bool {
        self.intervals.is_empty() || collector.interval() > self.under_way
    }

    /// Keeps the finished interval: its latencies, the counts of the current `snapshot`, and who
    /// `blocked` whom, from [`Slow::interval`](super::slow::Slow::interval).
    pub fn keep(&mut self, collector: &Collector<'_>, snapshot: &Snapshot, blocked: &Value) {
        let interval = json!({
            "time_seconds": clock::realtime().as_secs_f64(),
            "fates": snapshot.fates,
            "answered_late": snapshot.answered_late().collect::<BTreeMap<_, _>>(),
            "run_queue_wait_us": snapshot.run_queue_wait_us(),
            "throttled_us": snapshot.throttled_us(),
            "utilisation": snapshot.utilisation[1],
            "oldest_us": snapshot.oldest().map(|(class, age)| (class, age.as_micros_f64())).collect::<BTreeMap<_, _>>(),
            "blocked": blocked,
            "latency": collector.latencies_from(self.under_way, &snapshot.gauges),
        });
        self.under_way = collector.interval();
        self.intervals.push_back(interval.to_string());
        if self.intervals.len() > KEPT {
            self.intervals.pop_front();
        }
    }

    /// The body of `GET /history`.
    pub fn to_json(&self) -> String {
        let intervals = Vec::from_iter(self.intervals.iter().map(String::as_str)).join(",");
        format!(r#"{{"schema":"forebay-history/1","intervals":[{intervals}]}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Gauges;
    use crate::time::Nanos;
    use crate::window::Sample;
    use crate::worker_metrics::WorkerMetrics;
    use forebay_clock::virtual_time;

    // Does each interval have what was measured in it, once? Are exactly the last ten minutes kept,
    // also across a pause of the process? Method: in virtual time, each second has as many requests
    // as the number of its interval.
    #[test]
    fn ten_minutes_are_kept_and_each_request_once() {
        virtual_time::set(Some(Nanos::from_secs(1_000)));
        let metrics = WorkerMetrics::new(1);
        let (mut collector, mut recorder) = (Collector::new(&metrics), metrics.recorder(0));
        let mut history = History::default();
        let look = |history: &mut History, collector: &mut Collector<'_>| {
            collector.collect();
            if history.is_due(collector) {
                history.keep(collector, &collector.snapshot(Gauges::default()), &json!([]));
            }
        };
        look(&mut history, &mut collector);
        for second in 0..720 {
            for _ in 0..=second / 10 {
                recorder.received(1);
                recorder.answered(&Sample { class: 1, service: Nanos::from_micros(second / 10), ..Sample::default() });
            }
            // Called a few times a second, sometimes just after the end of an interval.
            virtual_time::pass(Nanos::from_millis(500));
            look(&mut history, &mut collector);
            virtual_time::pass(Nanos::from_millis(500));
            look(&mut history, &mut collector);
        }
        virtual_time::pass(Nanos::from_secs(35));
        look(&mut history, &mut collector);
        virtual_time::set(None);
        let body: Value = serde_json::from_str(&history.to_json()).expect("JSON");
        assert_eq!(body["schema"], "forebay-history/1");
        let intervals = body["intervals"].as_array().expect("a list");
        assert_eq!(intervals.len(), KEPT);
        let requests = |interval: &Value| interval["latency"]["total"]["long"]["count"].as_u64().unwrap_or(0);
        // The last full interval is number 71, and the next one has the pause.
        let counts: Vec<u64> = intervals.iter().map(requests).collect();
        let due: Vec<u64> = (13..=72).map(|number| 10 * number).chain([0]).skip(1).collect();
        assert_eq!(counts, due);
        let answered = |interval: &Value| interval["fates"]["answered"].as_u64().expect("a count");
        for pair in intervals.windows(2) {
            assert_eq!(answered(&pair[1]) - answered(&pair[0]), requests(&pair[1]));
        }
    }
}
