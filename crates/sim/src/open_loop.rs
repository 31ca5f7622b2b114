//! Arrivals drawn from a workload. The flow of each request decides its socket.

use crate::workload::{Arrival, Arrivals, Shape, Workload};
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// One request on arrival at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivingRequest {
    /// The arrival time; no earlier than the previous request's.
    pub at: Nanos,
    /// The time at which the request should have arrived; no later than `at`. Latency counts from
    /// here.
    pub due: Nanos,
    /// The CPU time that the request needs; above zero.
    pub cost: Nanos,
    /// The number of the request's class.
    pub class: u8,
    /// The worker to whose socket the request comes.
    pub socket: WorkerId,
    /// The network of the client.
    pub source: u16,
    /// The time from arrival to expiry; [`Nanos::MAX`] = never.
    pub deadline: Nanos,
    /// Whether the request came after the warm-up and is measured.
    pub counts: bool,
}

impl ArrivingRequest {
    /// A request of class 0 for socket 0. It arrives when it should, is measured, and never
    /// expires.
    pub fn new(at: Nanos, cost: Nanos) -> ArrivingRequest {
        ArrivingRequest { at, due: at, cost, class: 0, socket: 0, source: 0, deadline: Nanos::MAX, counts: true }
    }
}

/// Parameters of an open loop: requests arrive whether or not the server keeps up.
#[derive(Clone, Debug)]
pub struct OpenLoop<'w> {
    /// The classes and costs of the requests, and how they arrive.
    pub workload: &'w Workload,
    /// The mean number of requests per second; above zero.
    pub rate: f64,
    /// Number of source ports; above zero.
    pub flows: u16,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The time from arrival to expiry; [`Nanos::MAX`] = never.
    pub deadline: Nanos,
    /// Requests that come before any is measured.
    pub warmup: u64,
    /// Requests that are measured.
    pub requests: u64,
}

impl<'w> OpenLoop<'w> {
    /// All requests in the order of their times, spread over this many sockets.
    pub fn arrivals(&self, sockets: usize) -> impl Iterator<Item = ArrivingRequest> + use<'w> {
        self.shaped(Shape::default(), sockets)
    }

    /// The same with another shape of arrivals.
    pub fn shaped(&self, shape: Shape, sockets: usize) -> impl Iterator<Item = ArrivingRequest> + use<'w> {
        let socket_of = spread(self.flows, sockets, self.seed);
        let arrivals = Arrivals::new(self.workload, self.rate, self.flows, self.seed).shaped(shape);
        let (deadline, warmup, all) = (self.deadline, self.warmup, self.warmup + self.requests);
        (0..all).zip(arrivals).map(move |(number, Arrival { at, cost, flow, class })| {
            let (counts, socket) = (number >= warmup, socket_of[usize::from(flow)]);
            ArrivingRequest { class, deadline, counts, socket, ..ArrivingRequest::new(at, cost) }
        })
    }
}

/// The socket of each flow, as the kernel's hash would choose it: each socket is equally likely.
pub fn spread(flows: u16, sockets: usize, seed: u64) -> Vec<WorkerId> {
    // Derived from the seed, but another stream than the times, costs and flows, which use the seed
    // itself.
    let mut hash = SplitMix64::seed_from_u64(seed ^ 0x666c_6f77_7320_6f66);
    (0..flows).map(|_| ((u128::from(hash.next_u64()) * sockets as u128) >> 64) as WorkerId).collect()
}
