//! The requests offered to a server: arrival time, cost and flow of each. The load generator and the simulator draw
//! them here, so that the same seed offers the same requests to both.

use super::Workload;
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

/// Poisson arrivals without end, in the order of their times.
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
}

impl<'w> Arrivals<'w> {
    /// Arrivals of `workload` at `rate` requests per second in the mean, on `flows` flows.
    ///
    /// # Panics
    /// If there is no flow, or `rate` is not above zero.
    pub fn new(workload: &'w Workload, rate: f64, flows: u16, seed: u64) -> Arrivals<'w> {
        assert!(flows > 0 && rate > 0.0, "something arrives, on a flow");
        Arrivals { workload, rate, flows, at_seconds: 0.0, streams: streams(seed) }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [times, costs, flows] = &mut self.streams;
        // The inverse of the exponential distribution function; 1 - u is never 0.
        self.at_seconds -= (1.0 - times.random::<f64>()).ln() / self.rate;
        let at = Nanos::new((self.at_seconds * 1e9) as u64);
        let (class, cost) = self.workload.draw(costs);
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
