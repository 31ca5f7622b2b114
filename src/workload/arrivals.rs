//! The requests offered to a server: arrival time, cost and flow of each. The load generator and the simulator draw
//! them here, so that the same seed offers the same requests to both.

use super::Workload;
use super::shape::{Clusters, Phases, Shape, exponential};
use crate::time::Nanos;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it comes, after the start; no earlier than the one before.
    pub at: Nanos,
    /// The CPU time that it asks for.
    pub cost: Nanos,
    /// The flow that it belongs to, counted from 0.
    pub flow: u16,
    /// The number of its class.
    pub class: u8,
}

/// Arrivals without end, in the order of their times: Poisson, unless shaped otherwise.
///
/// Times, costs and flows come from three streams of one seed that do not overlap, so that a different workload keeps
/// the times, and a different number of flows keeps both.
#[derive(Clone, Debug)]
pub struct Arrivals<'w> {
    workload: &'w Workload,
    rate: f64,
    flows: u16,
    at_seconds: f64,
    streams: [Xoshiro256PlusPlus; 3],
    phases: Option<Phases>,
    clusters: Option<Clusters>,
}

impl<'w> Arrivals<'w> {
    /// Arrivals of `workload` at `rate` requests per second in the mean, on `flows` flows.
    ///
    /// # Panics
    /// If there is no flow, or `rate` is not above zero.
    pub fn new(workload: &'w Workload, rate: f64, flows: u16, seed: u64) -> Arrivals<'w> {
        assert!(flows > 0 && rate > 0.0, "something arrives, on a flow");
        Arrivals { workload, rate, flows, at_seconds: 0.0, streams: streams(seed), phases: None, clusters: None }
    }

    /// The same arrivals, not yet begun, in another shape.
    pub fn shaped(self, shape: Shape) -> Arrivals<'w> {
        let (phases, clusters) = match shape {
            Shape::Poisson => (None, None),
            Shape::Bursts(mean) => (Some(Phases::new(mean)), None),
            Shape::Clusters(long_from) => (None, Some(Clusters::new(self.workload, long_from))),
        };
        Arrivals { phases, clusters, ..self }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [times, costs, flows] = &mut self.streams;
        self.at_seconds = match &mut self.phases {
            None => self.at_seconds + exponential(times) / self.rate,
            Some(phases) => phases.after(self.at_seconds, self.rate, times),
        };
        let at = Nanos::new((self.at_seconds * 1e9) as u64);
        let (class, cost) = match &mut self.clusters {
            None => self.workload.draw(costs),
            Some(clusters) => clusters.next(|| self.workload.draw(costs)),
        };
        Some(Arrival { at, cost, flow: flows.random_range(0..self.flows), class })
    }
}

fn streams(seed: u64) -> [Xoshiro256PlusPlus; 3] {
    let times = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut costs = times.clone();
    costs.long_jump();
    let mut flows = costs.clone();
    flows.long_jump();
    [times, costs, flows]
}
