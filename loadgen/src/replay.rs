//! The requests of a trace, to be sent again.

use crate::failure::Failure;
use crate::lab::workload::{Arrival, Recording, Trace, Workload};
use forebay::time::Nanos;
use std::collections::BTreeMap;
use std::path::Path;

/// The requests of a trace, with times on the clock of the replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The requests in the order of their times. Flows are numbered from 0 in the order of their
    /// first request.
    pub requests: Vec<Arrival>,
    /// The number of flows.
    pub(crate) flows: usize,
    /// The costs of the requests.
    pub(crate) workload: Workload,
    pub(crate) warmup: Nanos,
    /// The time from arrival to expiry of each request.
    pub(crate) deadline: Option<Nanos>,
    /// Arrivals that the trace left out.
    pub(crate) left_out: u64,
}

impl Replay {
    /// Reads the file at `path`, for a server of this time scale. The times of the trace are
    /// divided by `speed`.
    ///
    /// # Errors
    /// A usage failure if it is no trace.
    pub(crate) fn read(path: &Path, speed: f64, time_scale: u64) -> Result<Replay, Failure> {
        let trace = Trace::read(path);
        let trace = trace.map_err(|error| Failure::usage(format!("--replay {}: {error}", path.display())))?;
        Ok(Replay::of(&trace, speed, time_scale))
    }

    /// The `requests` of a capture, without costs. Their times are divided by `speed`.
    pub(crate) fn of_capture(requests: &[Arrival], workload: &Workload, speed: f64) -> Replay {
        let at = |time: Nanos| Nanos::new((time.get() as f64 / speed) as u64);
        let flows = requests.iter().map(|request| usize::from(request.flow) + 1).max().unwrap_or(0);
        let requests = requests.iter().map(|request| Arrival { at: at(request.at), ..*request }).collect();
        Replay { requests, flows, workload: workload.clone(), warmup: Nanos::ZERO, deadline: None, left_out: 0 }
    }

    fn of(trace: &Trace, speed: f64, time_scale: u64) -> Replay {
        let scale = time_scale as f64 / trace.time_scale as f64;
        let at = |time: Nanos| Nanos::new((time.get() as f64 * (scale / speed)).round() as u64);
        let mut flows = BTreeMap::new();
        let requests = trace.requests.iter().map(|request| {
            // There are no more than numbers of flows in a trace.
            let next = flows.len() as u16;
            let flow = *flows.entry(request.flow).or_insert(next);
            Arrival { at: at(request.intended), cost: request.cost.times(time_scale), class: request.class, flow }
        });
        let mut requests: Vec<Arrival> = requests.collect();
        // Stable: requests of one time stay in the order of the trace.
        requests.sort_by_key(|request| request.at);
        let deadline = trace.deadline.map(|deadline| Nanos::new((deadline.get() as f64 * scale) as u64));
        let (workload, warmup, left_out) = (trace.to_workload(), at(trace.warmup), trace.left_out);
        Replay { requests, flows: flows.len(), workload, warmup, deadline, left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do requests keep their order, their flows and their costs at another speed and another time
    // scale?
    #[test]
    fn a_trace_is_sent_again_at_another_speed() {
        let header =
            "forebay-trace/1 time-scale=10 burn=sleep workers=2 seed=0 warmup=2ms left-out=3 workload=captured";
        let lines = "2ms 5ms long 2us 900 1\n1ms 6ms class2 8us 7 0\n8ms 8ms long 4us 900 1\n";
        let trace: Trace = Trace::parse(&format!("{header}\n{lines}")).expect("a trace");
        let us = |time: Nanos| time.get() / 1_000;
        let seen = |time_scale| {
            let requests = Replay::of(&trace, 2.0, time_scale).requests.into_iter();
            requests.map(|one| (us(one.at), us(one.cost), one.class, one.flow)).collect::<Vec<_>>()
        };
        assert_eq!(seen(10), [(500, 80, 2, 1), (1_000, 20, 1, 0), (4_000, 40, 1, 0)]);
        assert_eq!(seen(1)[0].0, 50, "ten times as fast on a server without a time scale");
        let replay = Replay::of(&trace, 2.0, 10);
        assert_eq!((replay.flows, replay.left_out, us(replay.warmup)), (2, 3, 1_000));
    }
}
