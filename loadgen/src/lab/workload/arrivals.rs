//! The requests offered to a server: the arrival time, cost and flow of each. The load generator
//! and the simulator draw them here, so both get the same requests from the same seed. [`Shape`] is
//! the shape of arrivals.

use super::Workload;
use super::shape::{Gaps, Shape};
use forebay::time::Nanos;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
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
    /// Draws the rank of a request's flow, from 1; `None` if all flows have the same rate.
    ranks: Option<Zipf<f64>>,
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
        Arrivals { workload, flows, ranks: None, streams, gaps: Gaps::new(Shape::default(), rate) }
    }

    /// The same arrivals from their beginning. The rate of a flow falls with its rank to the power
    /// of `exponent` (Zipf): flow 0 has the highest rate. With 0 all flows have the same rate.
    ///
    /// # Panics
    /// If `exponent` is below zero, or not finite.
    pub fn with_zipf(self, exponent: f64) -> Arrivals<'w> {
        let ranks = (exponent != 0.0).then(|| Zipf::new(f64::from(self.flows), exponent).expect("a finite exponent"));
        Arrivals { ranks, ..self }
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
        let flow = match &self.ranks {
            None => flows.random_range(0..self.flows),
            Some(ranks) => ranks.sample(flows) as u16 - 1,
        };
        Some(Arrival { at, cost, flow, class })
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

#[cfg(test)]
mod tests {
    use super::*;

    // Do the rates of flows fall by the exponent, and do times and costs stay the same?
    #[test]
    fn flows_may_differ_in_their_rates() {
        let workload: Workload = "exponential:1us".parse().expect("a form");
        let arrivals = || Arrivals::new(&workload, 1e6, 100, 1);
        let mut counts = [0_u32; 100];
        for (alike, ranked) in arrivals().zip(arrivals().with_zipf(1.0)).take(200_000) {
            assert_eq!(Arrival { flow: 0, ..alike }, Arrival { flow: 0, ..ranked });
            counts[usize::from(ranked.flow)] += 1;
        }
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 10, 100] {
            let (count, expected) = (f64::from(counts[rank - 1]), 2e5 / rank as f64 / harmonic);
            assert!((count / expected - 1.0).abs() < 0.15, "rank {rank}: {count}, expected {expected}");
        }
        assert!(arrivals().with_zipf(0.0).take(1_000).eq(arrivals().take(1_000)));
    }
}
