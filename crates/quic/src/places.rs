//! Limited numbers: of connections, and of handshakes.

use forebay::server::Gauge;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
