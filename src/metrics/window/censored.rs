//! Service times of requests of which some were broken off: expired, cancelled, failed.
//!
//! What such a request took says only that it would have taken longer. Counted as a service time, it makes equal requests
//! look uneven. A policy that then lets the old ones give way breaks off more of them. So their share is passed on to what
//! took longer (B. Efron, "The two sample problem with censored data", 1967), which is the estimate of Kaplan and Meier
//! (1958).

use crate::time::Nanos;

/// Service times and how many requests would have taken each, ascending, by those that `ended` and what others had taken when
/// they were `broken_off`. Where nothing took longer, these count as they are: it is the least that they can take.
pub(super) fn served_to_the_end(ended: Vec<(Nanos, u64)>, broken_off: Vec<(Nanos, u64)>) -> Vec<(Nanos, u64)> {
    // Of equal times the ended ones come first: a request that was broken off would have taken longer.
    let mut all: Vec<(Nanos, bool, u64)> = ended.into_iter().map(|(took, count)| (took, false, count)).collect();
    all.extend(broken_off.into_iter().map(|(took, count)| (took, true, count)));
    all.sort_unstable();
    let mut longer: u64 = all.iter().map(|(.., count)| count).sum();
    // What each of the requests to come stands for: itself, and a part of those that were broken off before.
    let mut stands_for = 1.0;
    let mut times = Vec::with_capacity(all.len());
    for (took, broken_off, count) in all {
        longer -= count;
        if broken_off && longer > 0 {
            stands_for *= 1.0 + count as f64 / longer as f64;
        } else {
            times.push((took, (count as f64 * stands_for).round() as u64));
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(times: &[(u64, u64)]) -> Vec<(Nanos, u64)> {
        times.iter().map(|(us, count)| (Nanos::from_micros(*us), *count)).collect()
    }

    // Do equal requests stay equal, whenever some of them are broken off?
    #[test]
    fn equal_requests_stay_equal() {
        let times = served_to_the_end(micros(&[(500, 100)]), micros(&[(50, 60), (200, 40), (500, 1)]));
        // The last one was broken off when the others ended: nothing took longer.
        assert_eq!(times, micros(&[(500, 199), (500, 2)]));
    }

    // Is what was broken off shared by all that took longer, and by nothing that took less?
    #[test]
    fn what_took_longer_stands_for_what_was_broken_off() {
        let times = served_to_the_end(micros(&[(1, 900), (100, 60), (900, 20)]), micros(&[(10, 20)]));
        assert_eq!(times, micros(&[(1, 900), (100, 75), (900, 25)]));
        let longest = served_to_the_end(micros(&[(1, 900)]), micros(&[(60_000, 9)]));
        assert_eq!(longest, micros(&[(1, 900), (60_000, 9)]));
        assert_eq!(served_to_the_end(micros(&[(7, 3)]), Vec::new()), micros(&[(7, 3)]));
    }
}
