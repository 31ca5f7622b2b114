//! Lanes keep jobs of different priority apart, lane 0 the most urgent: in `deques.rs` those of a worker's deques, in
//! `queues.rs` those of the queues. A server has one lane.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many jobs of lane 0 wait anywhere, so that a search for less urgent ones need not look for them everywhere first.
/// It is counted before a job is put somewhere and after it is taken, and so never too low.
#[derive(Clone)]
pub(super) struct Urgent {
    /// None where there is one lane, which is always searched.
    waiting: Option<Arc<CachePadded<AtomicUsize>>>,
}

/// In which order a worker searches the lanes: the most urgent first, but for a bounded share that begins elsewhere.
pub(super) struct LaneOrder {
    lanes: usize,
    searches: usize,
}

/// One search in so many begins with a less urgent lane, each in turn, so that none starves: with three lanes each of the
/// two lower ones is served by at least one search in 122. A prime, so that no regular pattern of jobs is always hit.
const FAIR_EVERY: usize = 61;

impl Urgent {
    pub(super) fn new(lanes: usize) -> Urgent {
        Urgent { waiting: (lanes > 1).then(Arc::default) }
    }

    /// Whether lane 0 is worth a search.
    pub(super) fn any(&self) -> bool {
        // Ordering: relaxed. For a worker that is about to sleep the fences of README.md, 1, order this load behind the
        // count of any job whose putter did not see it asleep.
        self.waiting.as_ref().is_none_or(|waiting| waiting.load(Ordering::Relaxed) > 0)
    }

    /// A job is about to be put into `lane`.
    pub(super) fn put(&self, lane: usize) {
        if let (0, Some(waiting)) = (lane, &self.waiting) {
            waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A job was taken from `lane`, or was not put there after all.
    pub(super) fn taken(&self, lane: usize) {
        if let (0, Some(waiting)) = (lane, &self.waiting) {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl LaneOrder {
    pub(super) fn new(lanes: usize) -> LaneOrder {
        LaneOrder { lanes, searches: 0 }
    }

    /// The lanes in the order of the next search, each once.
    pub(super) fn next(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.searches = self.searches.wrapping_add(1);
        let (lanes, lower) = (self.lanes, self.lanes - 1);
        let first = if lower == 0 || !self.searches.is_multiple_of(FAIR_EVERY) {
            0
        } else {
            lower - (self.searches / FAIR_EVERY) % lower
        };
        std::iter::once(first).chain((0..lanes).filter(move |lane| *lane != first))
    }
}

#[cfg(test)]
mod tests {
    use super::super::deques::Deques;
    use super::super::queues::Queues;
    use super::*;
    use crate::sched::{Amount, Insertion};

    #[test]
    fn every_search_looks_into_every_lane_once() {
        for lanes in 1..5 {
            let mut order = LaneOrder::new(lanes);
            for _ in 0..1_000 {
                let mut seen: Vec<usize> = order.next().collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..lanes).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_lower_lane_is_first_in_its_bounded_share_and_no_more() {
        let mut order = LaneOrder::new(3);
        let firsts: Vec<usize> = (0..122 * 10).filter_map(|_| order.next().next()).collect();
        for turn in firsts.chunks(122) {
            let count = |lane| turn.iter().filter(|first| **first == lane).count();
            assert_eq!((count(0), count(1), count(2)), (120, 1, 1));
        }
        let mut rest = order.next();
        assert_eq!((rest.next(), rest.next(), rest.next()), (Some(0), Some(1), Some(2)));
    }

    #[test]
    fn urgent_jobs_are_counted_wherever_they_wait() {
        let urgent = Urgent::new(2);
        let (victim, thief) = (Deques::new(2, 1, urgent.clone()), Deques::new(2, 1, urgent.clone()));
        let queues = Queues::new(1, urgent.clone(), 2, 1, 1, Insertion::Random);
        victim.push(1, 0);
        assert!(!urgent.any(), "it is not urgent");
        assert_eq!((queues.push(0, 0, 0, 1), queues.push(0, 0, 0, 2)), (Ok(()), Err(2)));
        victim.push(0, 3);
        victim.push(0, 4);
        assert!(victim.stealers().steal(0, 0, Amount::Half, &thief).is_success() && urgent.any());
        assert_eq!((victim.pop(0), victim.pop(0), thief.pop(0)), (Some(4), None, None));
        assert!(urgent.any(), "one is in the queue");
        assert_eq!(queues.pop_any(), Some(1));
        assert!(!urgent.any());
        assert!(Urgent::new(1).any(), "a single lane is always searched");
    }
}
