//! How much may be sent to sources that may be forged: per prefix and second, not more than a
//! multiple of what came from there. So forged requests gain nothing by answers that are longer
//! than requests.
//!
//! `--source-prefix` says how many bits of an address a prefix has. A keyed hash chooses one of
//! [`PLACES`] words for its credit. Prefixes that share a word share their credit: together they
//! are sent no more than the multiple of what they sent together. Credit ends with its second, so
//! that a quiet one allows no burst in the next. Only an allowance for each second, where there is
//! one, is kept for [`KEPT`] seconds: a token bucket.

use super::gate::SourcePrefix;
use crate::time::{Nanos, TokenBucket};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Half a megabyte: of 1,000 prefixes in one second, eight share their word with another one.
const PLACES: usize = 1 << 16;

/// Seconds for which an allowance that was not used is kept: a client that asks for much at once,
/// and then rests.
const KEPT: u32 = 8;

/// The credit of all prefixes.
#[derive(Debug)]
pub struct Credit {
    /// Bytes that may be sent for each byte received.
    amplification: u32,
    /// Bytes that may be sent in each second beside.
    allowance: TokenBucket<1_000_000_000>,
    bits: SourcePrefix,
    keys: RandomState,
    /// The bytes that may be sent, as states of the bucket.
    places: Box<[AtomicU64]>,
}

impl Credit {
    /// Credit of `amplification` bytes, at least one, for each byte received from a prefix of so
    /// many `bits`. Beside that of `allowance` bytes in each second.
    pub fn new(amplification: u32, allowance: u32, bits: SourcePrefix) -> Credit {
        debug_assert!(amplification >= 1, "a reply may be as long as its request");
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        let allowance = TokenBucket { each: allowance, kept: KEPT };
        Credit { amplification, allowance, bits, keys: RandomState::new(), places }
    }

    /// Adds what a request of `request` bytes from `source` gives, and takes up to `wanted` bytes,
    /// which are no fewer than the request's. Returns the bytes taken: as many as the request has,
    /// at least.
    pub fn take(&self, source: IpAddr, now: Nanos, request: usize, wanted: usize) -> usize {
        // A datagram has 16 bits, an amplification 10.
        let given = request as u32 * self.amplification;
        let wanted = wanted as u32;
        let mut taken = 0;
        self.update(source, now, |credit| {
            let credit = credit.saturating_add(given);
            taken = credit.min(wanted);
            credit - taken
        });
        taken as usize
    }

    /// Gives back `bytes` that were taken at `taken_at` and not sent. They are lost if their second
    /// is over.
    pub fn give_back(&self, source: IpAddr, taken_at: Nanos, now: Nanos, bytes: usize) {
        if self.allowance.tick(taken_at) == self.allowance.tick(now) {
            self.update(source, now, |credit| credit.saturating_add(bytes as u32));
        }
    }

    fn update(&self, source: IpAddr, now: Nanos, mut change: impl FnMut(u32) -> u32) {
        let place = &self.places[self.keys.hash_one(self.bits.of(source)) as usize % PLACES];
        let changed = |seen: u64| Some(self.allowance.after(seen, now, &mut change));
        // Ordering: relaxed, one word that says all there is to say. It is never refused.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NETWORK: SourcePrefix = SourcePrefix::NETWORK;
    const SECOND: u64 = 1_000_000_000;

    fn source(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    // Does a request give as much as it has, what was not sent serve the next one, and no second
    // the next one?
    #[test]
    fn credit_is_what_came_and_was_not_sent() {
        let (credit, from) = (Credit::new(1, 0, NETWORK), source("192.0.2.1"));
        let now = Nanos::new(5 * SECOND);
        assert_eq!(credit.take(from, now, 40, 1_232), 40);
        assert_eq!(credit.take(from, now, 40, 1_232), 40, "the first one took its own");
        credit.give_back(from, now, now, 30);
        assert_eq!(credit.take(source("192.0.2.200"), now, 40, 60), 60, "of the same network");
        assert_eq!(credit.take(from, now, 40, 1_232), 50, "the rest");
        credit.give_back(from, now, now, 30);
        let next = Nanos::new(6 * SECOND);
        assert_eq!(credit.take(from, next, 40, 1_232), 40, "another second");
        credit.give_back(from, now, next, 30);
        assert_eq!(credit.take(from, next, 40, 1_232), 40, "what is given back too late is lost");
        assert_eq!(Credit::new(3, 0, NETWORK).take(from, now, 40, 1_232), 120);
        assert_eq!(Credit::new(3, 0, NETWORK).take(from, now, 40, 100), 100);
    }

    // Is a client that asks for little spared, one that asks for much cut, and no more kept than
    // some seconds give?
    #[test]
    fn an_allowance_is_a_token_bucket() {
        let (credit, from) = (Credit::new(1, 1_000, NETWORK), source("192.0.2.1"));
        let take = |second, wanted| credit.take(from, Nanos::new(second * SECOND), 40, wanted);
        assert_eq!([take(0, 5_000), take(0, 5_000), take(0, 5_000)], [5_000, 3_080, 40], "8 s and what came");
        assert_eq!([take(1, 900), take(1, 900)], [900, 180], "one second");
        assert_eq!([take(4, 4_000), take(4, 1_000)], [3_040, 40], "three seconds");
        assert_eq!(take(100, 20_000), 8_040, "not a hundred");
    }

    proptest! {
        // Is no network ever sent more in a second than the multiple of what it sent, whatever it
        // asks for?
        #[test]
        fn no_more_is_sent_than_came(
            requests in prop::collection::vec((1..2_000_usize, 0..5_000_usize, 0..2_000_usize, 0..3_u64), 1..200),
            amplification in 1..5_u32,
        ) {
            let (credit, from) = (Credit::new(amplification, 0, NETWORK), source("198.51.100.7"));
            let (mut second, mut came, mut sent) = (0, 0, 0);
            for (request, more, unused, seconds) in requests {
                if seconds == 2 {
                    (second, came, sent) = (second + 1, 0, 0);
                }
                let now = Nanos::new(second * SECOND);
                let taken = credit.take(from, now, request, request + more);
                prop_assert!(taken >= request && taken <= request + more);
                let unused = unused.min(taken);
                credit.give_back(from, now, now, unused);
                (came, sent) = (came + request, sent + taken - unused);
                prop_assert!(sent <= came * amplification as usize, "{sent} sent for {came}");
            }
        }
    }
}
