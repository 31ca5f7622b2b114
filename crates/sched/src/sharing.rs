//! How workers share waiting jobs: how many a thief takes, and which shard of a queue a job enters.
//!
//! `benches/RESULTS.md` has the evidence: other choices of victim, amount, shard or number of
//! deques made no difference above the noise.

use super::bounds::{DEQUE_PLACES, STEAL_MAX};

/// The most jobs that a thief with `own` jobs takes from a deque with `victims` jobs: half of them,
/// limited by the thief's capacity.
pub fn steal_limit(victims: usize, own: usize) -> usize {
    victims.div_ceil(2).min(STEAL_MAX).min(DEQUE_PLACES.saturating_sub(own)).max(1)
}

/// Draws two neighbouring shards at random for job number `turn` of `producer`, which enters the
/// shorter one. Take them modulo the number of shards. The same arguments give the same shards:
/// SplitMix64 (Steele, Lea and Flood, 2014) mixes them.
pub fn shards(producer: usize, turn: usize) -> [usize; 2] {
    let seed = ((producer as u64) << 48).wrapping_add(turn as u64);
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let any = ((mixed ^ (mixed >> 31)) & u64::from(u32::MAX)) as usize;
    [any, any.wrapping_add(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_producer_reaches_every_shard() {
        for (count, producer) in [2, 4, 7].into_iter().flat_map(|count| [0, 1, 65].map(|producer| (count, producer))) {
            let mut into = vec![0; count];
            for turn in 0..1_000 * count {
                let [first, second] = shards(producer, turn).map(|shard| shard % count);
                assert_ne!(first, second);
                into[first] += 1;
            }
            let even = |count: &usize| (900..1_100).contains(count);
            assert!(into.iter().all(even), "of {producer}: {into:?}");
        }
    }

    #[test]
    fn a_thief_takes_half_as_far_as_it_has_room() {
        assert_eq!([1, 2, 7, 10].map(|victims| steal_limit(victims, 0)), [1, 1, 4, 5]);
        assert_eq!(steal_limit(1_000, 0), STEAL_MAX);
        assert_eq!([DEQUE_PLACES - 3, DEQUE_PLACES, 2 * DEQUE_PLACES].map(|own| steal_limit(20, own)), [3, 1, 1]);
    }
}
