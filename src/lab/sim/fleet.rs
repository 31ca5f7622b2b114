//! A fleet: equal servers behind a balancer, in one virtual time.

use super::balance::{Balance, Balancer, busiest_share};
use super::open_loop::spread_each;
use super::servers::Servers;
use super::{ArrivingRequest, OpenLoop, Setup, Tally};
use crate::lab::workload::Shape;
use crate::time::Nanos;
use std::cell::RefCell;

/// The servers of a fleet, and what stands before them. A balancer takes no time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fleet {
    /// Servers in all; above zero.
    pub servers: usize,
    /// Servers that are lost, while as much comes as to all; fewer than there are. Those that are left know their load.
    pub lost: usize,
    /// How the balancer chooses.
    pub balance: Balance,
}

/// What came of the requests of a fleet.
#[derive(Clone, Debug)]
pub struct FleetTally {
    /// The requests of all servers together.
    pub tally: Tally,
    /// The load that came to each server after the warm-up, as a share of its capacity.
    pub loads: Vec<f64>,
}

impl FleetTally {
    /// The load of the busiest server, as a share of its capacity.
    pub fn busiest(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }
}

impl Fleet {
    /// Servers that are left.
    pub fn left(self) -> usize {
        self.servers - self.lost
    }

    /// The share of all requests that comes to the busiest server in the long run.
    pub fn busiest_share(self, flows: u16, seed: u64) -> f64 {
        busiest_share(self.balance, self.left(), flows, seed)
    }

    /// The requests of `offer` in another shape, each with its flow, in the order of their times. The balancer gives each
    /// a server and a socket.
    pub fn arrivals<'w>(
        self,
        offer: &OpenLoop<'w>,
        shape: Shape,
    ) -> impl Iterator<Item = (ArrivingRequest, u16)> + use<'w> {
        offer.by_flow(shape, self.balance.zipf())
    }

    /// What becomes of `arrivals`, the requests of `offer`, on servers that are each like `setup`. After the first
    /// `until_look` requests `look` is asked how many come before it is asked again. After `None` no more come, and the
    /// servers serve the rest.
    ///
    /// # Panics
    /// If no server is left, or a request has no cost.
    pub fn simulate_while(
        self,
        setup: &Setup,
        offer: &OpenLoop<'_>,
        arrivals: impl Iterator<Item = (ArrivingRequest, u16)>,
        until_look: u64,
        mut look: impl FnMut(&Tally) -> Option<u64>,
    ) -> FleetTally {
        let workers = setup.workers();
        let tally = RefCell::new(Tally::new());
        let servers = Servers::new(setup, self.left(), &tally);
        let mut balancer = Balancer::new(self.balance, self.left(), offer.flows, offer.seed);
        // Each server's kernel hashes flows in its own way.
        let sockets = spread_each(self.left(), offer.flows, workers, offer.seed);
        let beside = setup.overheads.per_request();
        // The work that came to each server after the warm-up.
        let mut came = vec![Nanos::ZERO; self.left()];
        let (mut since, mut until) = (None, Nanos::ZERO);
        let place = |servers: &Servers<'_>, request: &mut ArrivingRequest, flow: u16| {
            let server = balancer.choose(flow, |server| servers.in_flight(server));
            request.socket = sockets[server][usize::from(flow)];
            if request.counts {
                since.get_or_insert(request.at);
                until = request.at;
                came[server] = came[server].plus(request.cost).plus(beside);
            }
            server
        };
        servers.run_while(arrivals, place, until_look, || look(&tally.borrow()));
        let capacity = until.minus(since.unwrap_or(until)).as_secs_f64() * workers as f64;
        let load = |came: &Nanos| came.as_secs_f64() / capacity;
        FleetTally { tally: tally.into_inner(), loads: came.iter().map(load).collect() }
    }
}
