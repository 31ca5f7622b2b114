//! The requests of a trace, to be sent again.

use crate::failure::Failure;
use forebay::lab::workload::{Arrival, Trace, Workload};
use forebay::time::Nanos;
use std::collections::BTreeMap;
use std::path::Path;

/// A trace, and how fast it is sent.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    /// The times of the trace are divided by this.
    speed: f64,
}

impl Replay {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A usage failure if it is no trace.
    pub(crate) fn read(path: &Path, speed: f64) -> Result<Replay, Failure> {
        let trace = Trace::read(path);
        let trace = trace.map_err(|error| Failure::usage(format!("--replay {}: {error}", path.display())))?;
        Ok(Replay { trace, speed })
    }

    /// The costs of the requests.
    pub(crate) fn workload(&self) -> Workload {
        self.trace.to_workload()
    }

    /// The number of classes, by the highest number of one.
    pub(crate) fn classes(&self) -> usize {
        self.trace.requests.iter().map(|request| usize::from(request.class) + 1).max().unwrap_or(0)
    }

    /// The number of flows.
    pub(crate) fn flows(&self) -> usize {
        self.trace.requests.iter().map(|request| request.flow).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Arrivals that the trace does not have.
    pub(crate) fn left_out(&self) -> u64 {
        self.trace.left_out
    }

    /// The time from arrival to expiry of each request.
    pub(crate) fn deadline(&self, time_scale: u64) -> Option<Nanos> {
        let scale = time_scale as f64 / self.trace.time_scale as f64;
        self.trace.deadline.map(|deadline| Nanos::new((deadline.get() as f64 * scale) as u64))
    }

    /// The warm-up, and the time from there to the last request, for a server of this time scale.
    pub(crate) fn times(&self, time_scale: u64) -> (Nanos, Nanos) {
        let last = self.requests(time_scale).last().map_or(Nanos::ZERO, |last| last.at);
        let warmup = self.at(self.trace.warmup, time_scale);
        (warmup, last.minus(warmup).max(Nanos::new(1)))
    }

    /// The requests in the order of their times, for a server of this time scale. Flows are counted from 0 in the order of
    /// first requests.
    pub fn requests(&self, time_scale: u64) -> Vec<Arrival> {
        let mut flows = BTreeMap::new();
        let mut requests: Vec<Arrival> = Vec::with_capacity(self.trace.requests.len());
        for request in &self.trace.requests {
            // There are no more than numbers of flows in a trace.
            let next = flows.len() as u16;
            let flow = *flows.entry(request.flow).or_insert(next);
            let (at, cost) = (self.at(request.intended, time_scale), request.cost.times(time_scale));
            requests.push(Arrival { at, cost, class: request.class, flow });
        }
        // Stable: requests of one time stay in the order of the trace.
        requests.sort_by_key(|request| request.at);
        requests
    }

    /// A time of the trace on the clock of the replay.
    fn at(&self, time: Nanos, time_scale: u64) -> Nanos {
        let scale = time_scale as f64 / self.trace.time_scale as f64 / self.speed;
        Nanos::new((time.get() as f64 * scale).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do requests keep their order, their flows and their costs at another speed and another time scale?
    #[test]
    fn a_trace_is_sent_again_at_another_speed() {
        let header =
            "forebay-trace/1 time-scale=10 burn=sleep workers=2 seed=0 warmup=2ms left-out=3 workload=captured";
        let lines = "2ms 5ms long 2us 900 1\n1ms 6ms class2 8us 7 0\n8ms 8ms long 4us 900 1\n";
        let trace: Trace = format!("{header}\n{lines}").parse().expect("a trace");
        let replay = Replay { trace, speed: 2.0 };
        let us = |time: Nanos| time.get() / 1_000;
        let seen = |time_scale| {
            let requests = replay.requests(time_scale).into_iter();
            requests.map(|one| (us(one.at), us(one.cost), one.class, one.flow)).collect::<Vec<_>>()
        };
        assert_eq!(seen(10), [(500, 80, 2, 1), (1_000, 20, 1, 0), (4_000, 40, 1, 0)]);
        assert_eq!(seen(1)[0].0, 50, "ten times as fast on a server without a time scale");
        assert_eq!((replay.classes(), replay.flows(), replay.left_out()), (3, 2, 3));
        let (warmup, duration) = replay.times(10);
        assert_eq!((us(warmup), us(duration)), (1_000, 3_000));
    }
}
