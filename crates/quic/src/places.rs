//! Limited numbers: of connections, and of handshakes.

use forebay::config::SourcePrefix;
use forebay::server::Gauge;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most connections of one shard. The limit of the whole server is lower, unless clients repeat
/// the ID that chooses the shard.
pub const CONNECTIONS_MAX: usize = 256;

/// A limited number of places.
#[derive(Default)]
pub struct Places {
    pub(crate) taken: AtomicUsize,
    /// The number of those taken, for the server's metrics.
    pub shown: Gauge,
}

/// One of the places. Dropping it frees the place.
pub struct Seat(Arc<Places>);

impl Seat {
    /// A place, if fewer than `most` are taken.
    pub fn take(places: &Arc<Places>, most: usize) -> Option<Seat> {
        let more = |count| (count < most).then_some(count + 1);
        // Ordering: relaxed, a count.
        places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        places.shown.add(1.0);
        Some(Seat(Arc::clone(places)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Ordering: relaxed, a count.
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
        self.0.shown.add(-1.0);
    }
}

/// The connections of each network of clients: a /24 of IPv4, a /56 of IPv6.
#[derive(Debug, Default)]
pub struct Networks(Mutex<HashMap<u64, usize>>);

impl Networks {
    /// How many connections the network of `peer` has.
    pub fn count(&self, peer: IpAddr) -> usize {
        self.lock().get(&SourcePrefix::NETWORK.of(peer)).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection of a network. Dropping it frees the place.
#[derive(Debug)]
pub struct NetworkSeat {
    networks: Arc<Networks>,
    network: u64,
}

impl NetworkSeat {
    /// A place, if the network of `peer` has fewer than `most` connections.
    pub fn take(networks: &Arc<Networks>, peer: IpAddr, most: usize) -> Option<NetworkSeat> {
        let network = SourcePrefix::NETWORK.of(peer);
        let mut counts = networks.lock();
        let count = counts.get(&network).copied().unwrap_or(0);
        (count < most).then(|| {
            counts.insert(network, count + 1);
            NetworkSeat { networks: Arc::clone(networks), network }
        })
    }
}

impl Drop for NetworkSeat {
    fn drop(&mut self) {
        let mut counts = self.networks.lock();
        match counts.get_mut(&self.network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = counts.remove(&self.network),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Has each network places of its own, and is nothing kept of one without connections?
    #[test]
    fn each_network_has_its_places() {
        let networks = Arc::<Networks>::default();
        let take = |last: [u8; 2]| NetworkSeat::take(&networks, [192, 0, last[0], last[1]].into(), 2);
        let mut taken = vec![take([2, 1]), take([2, 200])];
        assert!(taken.iter().all(Option::is_some) && take([2, 9]).is_none() && take([3, 9]).is_some());
        assert_eq!(networks.count([192, 0, 2, 77].into()), 2);
        taken.pop();
        assert!(take([2, 9]).is_some());
        drop(taken);
        assert!(networks.lock().is_empty());
    }
}
