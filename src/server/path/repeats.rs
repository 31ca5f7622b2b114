//! Repeats: of the requests with one identity, one is served, and those that come until its end are
//! dropped.
//!
//! Each request with an identity has a place in a table of the whole server, for as long as it is
//! in the server. There are no locks: a worker claims an empty place by one exchange. Two workers
//! that read a bucket at the same time may both claim a place, if a third leaves one meanwhile.
//! Then both copies are served. So are they where a bucket has no place left. A repeat that is
//! served costs time, and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

/// Places that one identity may have: a cache line.
const BUCKET: usize = 8;
/// Places for each packet. With two a bucket of eight overflows once in 50 at the most.
const PLACES_PER_PACKET: usize = 2;
/// What an empty place holds, and no identity is.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; BUCKET]);

/// The identities of the requests that are in the server.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// Their number is a power of two.
    buckets: Box<[Bucket]>,
}

/// What became of a request that came with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is the only one, and has this place until it leaves.
    First(u32),
    /// It is a repeat.
    Repeat,
    /// There is no room to know it.
    Full,
}

impl Repeats {
    /// A table without identities, for this many packets.
    pub(crate) fn new(packets: usize) -> Repeats {
        Repeats { buckets: (0..Repeats::buckets(packets)).map(|_| Bucket::default()).collect() }
    }

    fn buckets(packets: usize) -> usize {
        (packets * PLACES_PER_PACKET / BUCKET).next_power_of_two()
    }

    /// Bytes of the table for this many packets.
    pub(crate) fn bytes(packets: usize) -> usize {
        Repeats::buckets(packets) * size_of::<Bucket>()
    }

    /// Looks for `identity`, and claims a place for it if it is new.
    pub(crate) fn enter(&self, identity: u64) -> Known {
        let identity = identity.max(EMPTY + 1);
        let number = spread(identity) as usize & (self.buckets.len() - 1);
        let places = &self.buckets[number].0;
        // Each try that fails means that another request has come into the bucket.
        for _ in 0..BUCKET {
            let mut empty = None;
            for (place, held) in places.iter().enumerate() {
                // Ordering: relaxed throughout, for an identity stands for itself alone.
                match held.load(Ordering::Relaxed) {
                    EMPTY => empty = empty.or(Some(place)),
                    held if held == identity => return Known::Repeat,
                    _ => (),
                }
            }
            let Some(place) = empty else { return Known::Full };
            if places[place].compare_exchange(EMPTY, identity, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Known::First((number * BUCKET + place) as u32);
            }
            // Another worker has claimed it, perhaps for the same identity.
        }
        Known::Full
    }

    /// Ends the request that has this place.
    pub(crate) fn leave(&self, place: u32) {
        self.buckets[place as usize / BUCKET].0[place as usize % BUCKET].store(EMPTY, Ordering::Relaxed);
    }
}

/// Handlers may count their identities up: the high bits of the product depend on all of them.
fn spread(identity: u64) -> u64 {
    identity.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn an_identity_is_known_until_it_leaves() {
        let repeats = Repeats::new(640);
        let Known::First(place) = repeats.enter(7) else { panic!("it is the first") };
        assert_eq!(repeats.enter(7), Known::Repeat);
        assert!(matches!(repeats.enter(8), Known::First(_)), "another one");
        repeats.leave(place);
        assert_eq!(repeats.enter(7), Known::First(place));
        // What an empty place holds is an identity like any other.
        assert!(matches!(repeats.enter(EMPTY), Known::First(_)));
        assert_eq!(repeats.enter(EMPTY), Known::Repeat);
    }

    // Do as many requests as there are packets find room, but for a few, and never more than there
    // are places?
    #[test]
    fn a_table_has_room_for_all_packets() {
        let packets = 2_560;
        let repeats = Repeats::new(packets);
        let first = |identity| matches!(repeats.enter(identity), Known::First(_));
        let packets = packets as u64;
        let known = (1..=packets).filter(|identity| first(*identity)).count() as u64;
        assert!(known * 50 >= packets * 49, "{known} of {packets}");
        let more = (packets + 1..100 * packets).filter(|identity| first(*identity)).count() as u64;
        assert_eq!((known + more) as usize * size_of::<u64>(), Repeats::bytes(packets as usize));
        assert_eq!(repeats.enter(u64::MAX), Known::Full);
    }

    // Is one of several that come at the same time the first, as long as none leaves?
    #[test]
    fn one_of_several_at_once_is_the_first() {
        let repeats = Repeats::new(640);
        let first = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for identity in 1..=100 {
                        let is_first = matches!(repeats.enter(identity), Known::First(_));
                        first.fetch_add(usize::from(is_first), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(first.into_inner(), 100);
    }
}
