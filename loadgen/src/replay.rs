//! The requests of a trace, to be sent again.

use crate::arguments::OfferArguments;
use crate::failure::Failure;
use crate::lab::workload::{Arrival, Recording, Trace, Workload};
use crate::profile::RecordedRequests;
use crate::text::grouped;
use forebay::time::Nanos;
use std::collections::BTreeMap;
use std::path::Path;

/// The default number of source ports of a replay is at most this, as in a compare of 32 workers.
const FLOWS_MAX: usize = 1_024;

/// The requests of a trace, with times on the clock of the replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The requests in the order of their times. Flows are numbered from 0 in the order of their
    /// first request.
    pub requests: Vec<Arrival>,
    /// The number of flows, or of the sources of a capture, which may be more.
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

    /// The requests of a capture, without costs. Their times are divided by `speed`.
    pub(crate) fn of_capture(recorded: &RecordedRequests, workload: &Workload, speed: f64) -> Replay {
        let RecordedRequests { requests, sources } = recorded;
        let at = |time: Nanos| Nanos::new((time.get() as f64 / speed) as u64);
        let requests = requests.iter().map(|request| Arrival { at: at(request.at), ..*request }).collect();
        Replay {
            requests,
            flows: *sources,
            workload: workload.clone(),
            warmup: Nanos::ZERO,
            deadline: None,
            left_out: 0,
        }
    }

    /// What it offers, with what `offer` says of the rest.
    pub(crate) fn offer(&self, offer: &OfferArguments) -> OfferArguments {
        let last = self.requests.last().map_or(Nanos::ZERO, |last| last.at);
        let (warmup, all) = (offer.warmup.unwrap_or(self.warmup), last.max(self.warmup.plus(Nanos::new(1))));
        let rate = self.requests.len() as f64 / all.as_secs_f64();
        OfferArguments {
            workload: Some(self.workload.clone()),
            rate: Some(rate),
            duration: Some(all.minus(warmup).max(Nanos::new(1))),
            warmup: Some(warmup),
            flows: offer.flows.or(Some(self.flows.clamp(1, FLOWS_MAX) as u16)),
            ..offer.clone()
        }
    }

    /// What its user should know before it is sent over this many flows.
    pub(crate) fn warnings(&self, flows: u16) -> Vec<String> {
        let left_out = format!("--replay lacks {} arrivals of its server: the comments in it say why", self.left_out);
        let own = match u16::try_from(self.flows) {
            Ok(needed) => format!("--flows {needed} gives each a port of its own"),
            Err(_) => format!("--flows is at most {}", u16::MAX),
        };
        let merged = format!(
            "--replay has {} sources, and sends from {} ports, so some send for several: {own}",
            grouped(self.flows as u64),
            grouped(flows.into())
        );
        let told = [(self.left_out > 0, left_out), (self.flows > flows.into(), merged)];
        told.into_iter().filter(|(is_told, _)| *is_told).map(|(_, warning)| warning).collect()
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
        assert_eq!(replay.warnings(2), ["--replay lacks 3 arrivals of its server: the comments in it say why"]);
    }

    // Is it said that sources share a port, and how each gets its own?
    #[test]
    fn sources_that_share_a_port_are_told() {
        let requests = vec![Arrival { at: Nanos::ZERO, cost: Nanos::ZERO, flow: 0, class: 0 }];
        let workload = Workload::without_costs(String::new(), &[1.0]);
        let mut replay = Replay::of_capture(&RecordedRequests { requests, sources: 1_025 }, &workload, 1.0);
        assert!(replay.warnings(1_025).is_empty());
        let said = "--replay has 1,025 sources, and sends from 1,024 ports, so some send for several: --flows";
        assert_eq!(replay.warnings(1_024), [format!("{said} 1025 gives each a port of its own")]);
        replay.flows = 70_000;
        assert!(replay.warnings(u16::MAX)[0].ends_with("--flows is at most 65535"), "{:?}", replay.warnings(u16::MAX));
    }
}
