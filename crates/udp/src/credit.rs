//! Limits the bytes that are sent to source addresses that may be forged. In each second, a prefix
//! gets at most a multiple of the bytes that came from it. So an attacker who forges addresses
//! cannot use the server to amplify a flood by more than this.
//!
//! `--source-prefix` sets how many bits of an address form a prefix. A keyed hash maps each prefix
//! to one of [`PLACES`] words, which hold the credit. Prefixes with the same word share it:
//! together they get at most the multiple of the bytes that they sent together. Credit from
//! requests ends with its second, so that a quiet second allows no burst in the next. Only the
//! allowance per second, if configured, is saved for up to [`KEPT`] seconds, as in a token bucket.

use forebay_base::source::SourcePrefix;
use forebay_base::time::{Nanos, TokenBucket};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of words; they take half a megabyte. If 1,000 prefixes send in one second, about eight
/// pairs share a word.
const PLACES: usize = 1 << 16;

/// Number of seconds for which unused allowance is saved. It lets a client request much at once and
/// then rest.
const KEPT: u32 = 8;

/// The credit of all prefixes, in bytes.
#[derive(Debug)]
pub struct Credit {
    /// Bytes that may be sent for each byte received.
    amplification: u32,
    /// Bytes that may be sent per second beyond that multiple.
    allowance: TokenBucket<1_000_000_000>,
    bits: SourcePrefix,
    keys: RandomState,
    /// The credit left in each word, as the state of a token bucket.
    places: Box<[AtomicU64]>,
}

impl Credit {
    /// Gives `amplification` bytes, at least one, for each byte received from a prefix of `bits`,
    /// and `allowance` bytes in each second.
    pub fn new(amplification: u32, allowance: u32, bits: SourcePrefix) -> Credit {
        debug_assert!(amplification >= 1, "a reply may be as long as its request");
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        let allowance = TokenBucket { each: allowance, kept: KEPT };
        Credit { amplification, allowance, bits, keys: RandomState::new(), places }
    }

    /// Adds the credit for a request of `request` bytes from `source`, and takes up to `wanted`
    /// bytes, at least the request's length. Returns the bytes taken, never fewer than the
    /// request's length.
    pub fn take(&self, source: IpAddr, now: Nanos, request: usize, wanted: usize) -> usize {
        // The product fits 32 bits: a length has 16 bits, and an amplification 10.
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

    /// Gives back `bytes` that were taken at `taken_at` and not sent. They are lost if the second
    /// in which they were taken is over.
    pub fn give_back(&self, source: IpAddr, taken_at: Nanos, now: Nanos, bytes: usize) {
        if self.allowance.tick(taken_at) == self.allowance.tick(now) {
            self.update(source, now, |credit| credit.saturating_add(bytes as u32));
        }
    }

    fn update(&self, source: IpAddr, now: Nanos, mut change: impl FnMut(u32) -> u32) {
        let place = &self.places[self.keys.hash_one(self.bits.of(source)) as usize % PLACES];
        let changed = |seen: u64| Some(self.allowance.after(seen, now, &mut change));
        // Ordering: relaxed, because one word holds the whole state. The closure always returns a
        // value, so the update never fails.
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

    // Does a request give credit by its length? Do unsent bytes serve the next request, but not one
    // in the next second?
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

    // Is a client with few requests not limited, and one with many limited? Is unused allowance
    // saved for a few seconds only?
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
        // Whatever a network asks for, does it get no more in a second than the multiple of the
        // bytes that it sent?
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
