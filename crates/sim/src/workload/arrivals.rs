//! The requests offered to a server: the arrival time, cost and flow of each. The load generator
//! and the simulator draw them here, so both get the same requests from the same seed. [`Shape`] is
//! the shape of arrivals.

use super::Workload;
use super::shape::{Gaps, Shape};
use forebay_base::time::Nanos;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The arrival time, from the start; no earlier than the previous request's.
    pub at: Nanos,
    /// The CPU time that it needs.
    pub cost: Nanos,
    /// The flow that it belongs to, counted from 0.
    pub flow: u16,
    /// The number of its class.
    pub class: u8,
}

/// An endless stream of arrivals in the order of their times: Poisson unless shaped otherwise.
///
/// Times, costs and flows come from three independent streams of one seed. So another workload does
/// not change the times. Another number of flows changes neither times nor costs.
#[derive(Clone, Debug)]
pub struct Arrivals<'w> {
    workload: &'w Workload,
    flows: u16,
    streams: [Xoshiro256PlusPlus; 3],
    gaps: Gaps,
}

impl<'w> Arrivals<'w> {
    /// Arrivals of `workload` at `rate` requests per second in the mean, on `flows` flows.
    ///
    /// # Panics
    /// If there is no flow, or `rate` is not above zero.
    pub fn new(workload: &'w Workload, rate: f64, flows: u16, seed: u64) -> Arrivals<'w> {
        assert!(flows > 0 && rate > 0.0, "something arrives, on a flow");
        let streams = streams(seed);
        Arrivals { workload, flows, streams, gaps: Gaps::new(Shape::default(), rate) }
    }

    /// The same arrivals from their beginning, in another shape.
    pub fn shaped(self, shape: Shape) -> Arrivals<'w> {
        Arrivals { gaps: Gaps::new(shape, self.gaps.rate), ..self }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let [times, costs, flows] = &mut self.streams;
        let at = Nanos::new((self.gaps.next(times) * 1e9) as u64);
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
