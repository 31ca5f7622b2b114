//! The requests of a trace, for simulations.

use crate::lab::sim::ArrivingRequest;
use crate::lab::sim::spread;
use crate::lab::workload::{Recording, Trace, Workload};
use forebay::fate::CLASSES;
use forebay::time::Nanos;
use std::path::{Path, PathBuf};

/// A trace to replay.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// The path of the trace.
    pub(crate) path: PathBuf,
    /// The requests of the trace.
    pub(crate) offered: Trace,
    /// The costs of the trace as a workload.
    pub(crate) workload: Workload,
}

impl Replayed {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A message that names the flag, the file, and the line if one is wrong.
    pub(crate) fn read(path: &Path) -> Result<Replayed, String> {
        let offered = Trace::read(path).map_err(|error| format!("--replay {}: {error}", path.display()))?;
        Ok(Replayed { path: path.to_owned(), workload: offered.to_workload(), offered })
    }

    /// Requests per second of virtual time, in which costs are unscaled.
    pub(crate) fn rate(&self) -> f64 {
        self.offered.requests.len() as f64 / self.offered.seconds()
    }

    /// Whether the requests arrive at more than one time. Otherwise [`Replayed::rate`] means
    /// nothing.
    pub(crate) fn has_rate(&self) -> bool {
        let requests = &self.offered.requests;
        requests.iter().any(|request| request.intended != requests[0].intended)
    }

    /// The deadline of the run, divided by the time scale, if it had one.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.offered.deadline.map(|deadline| Nanos::new(deadline.get() / self.offered.time_scale))
    }

    /// The requests in the order of sending, at their intended times, with their source ports, for
    /// a server of this many workers. Times are stretched so that `rate` requests arrive per
    /// second. Classes have the numbers of `workload`.
    pub(super) fn stretched(&self, rate: f64, workers: usize) -> impl Iterator<Item = ArrivingRequest> + use<'_> {
        let Trace { time_scale, warmup, seed, ref requests, .. } = self.offered;
        let stretch = self.rate() / rate / time_scale as f64;
        let mut numbers = [0_u8; CLASSES];
        requests.iter().for_each(|request| numbers[usize::from(request.class)] = 1);
        let mut next = 0;
        numbers.iter_mut().for_each(|number| (*number, next) = (next, next + *number));
        let sockets = spread(u16::MAX, workers, seed);
        let mut last = Nanos::ZERO;
        requests.iter().map(move |request| {
            // The order is the order of sending. It differs from the order of intended times,
            // because the generator was late.
            last = last.max(Nanos::new((request.intended.get() as f64 * stretch).round() as u64));
            ArrivingRequest {
                class: numbers[usize::from(request.class)],
                socket: sockets[usize::from(request.flow % u16::MAX)],
                source: request.source,
                counts: request.intended >= warmup,
                ..ArrivingRequest::new(last, request.cost)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Are times stretched to the rate, is the order kept, and do classes have the workload's
    // numbers?
    #[test]
    fn a_trace_comes_at_another_rate() {
        let header = "forebay-trace/1 time-scale=1000 burn=sleep workers=2 seed=1 warmup=2ms workload=two";
        let lines = "1ms 1ms short 2us 0 1\n3ms 3ms class2 8us 1 0\n4ms 5ms short 2us 1 0\n";
        let offered: Trace = Trace::parse(&format!("{header}\n{lines}")).expect("a trace");
        let replayed = Replayed { path: PathBuf::new(), workload: offered.to_workload(), offered };
        assert!((replayed.rate() - 750_000.0).abs() < 1e-6, "{}", replayed.rate());
        let arrivals: Vec<_> = replayed.stretched(75_000.0, 3).collect();
        let seen: Vec<_> = arrivals.iter().map(|one| (one.at.get(), one.class, one.counts)).collect();
        assert_eq!(seen, [(10_000, 0, false), (30_000, 1, true), (40_000, 0, true)]);
        assert_eq!(arrivals[1].socket, arrivals[2].socket);
    }
}
