//! A fleet: equal servers behind a balancer, simulated in the same virtual time.

use super::balance::{Balance, Balancer};
use super::open_loop::spread_each;
use super::servers::Servers;
use super::{ArrivingRequest, Setup, Tally};
use forebay::time::Nanos;
use std::cell::RefCell;

/// The size of a fleet and its balancer. Balancing takes no time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fleet {
    /// Servers in all; above zero.
    pub servers: usize,
    /// How many servers are down; fewer than [`Fleet::servers`]. The remaining servers get all
    /// requests, and their policies are made for this higher load.
    pub lost: usize,
    /// How the balancer chooses.
    pub balance: Balance,
}

impl Fleet {
    /// Servers that are not lost.
    pub fn left(self) -> usize {
        self.servers - self.lost
    }

    /// Serves `arrivals` on the remaining servers, and counts the requests in `tally`. Each server
    /// is like `setup`, and there are `flows` flows. Returns the load of each server after the
    /// warm-up, as a share of its capacity.
    ///
    /// # Panics
    /// If no server is left, or a request has no cost.
    pub fn simulate_into(
        self,
        setup: &Setup,
        (flows, seed): (u16, u64),
        arrivals: impl Iterator<Item = (ArrivingRequest, u16)>,
        tally: &RefCell<Tally>,
    ) -> Vec<f64> {
        let workers = setup.workers();
        let samples = setup.samples(self.left());
        let servers = Servers::new(setup, &samples, self.left(), tally);
        let mut balancer = Balancer::new(self.balance, self.left(), flows, seed);
        // Each server's kernel hashes flows in its own way.
        let sockets = spread_each(self.left(), flows, workers, seed);
        let beside = setup.overheads.per_request();
        // The work that arrived at each server after the warm-up.
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
        servers.run(arrivals, place);
        let capacity = until.minus(since.unwrap_or(until)).as_secs_f64() * workers as f64;
        came.into_iter().map(|came| came.as_secs_f64() / capacity).collect()
    }
}
