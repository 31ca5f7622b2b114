//! Lanes keep jobs of different priority apart, lane 0 the most urgent: here those of a worker's deques, in `queues.rs`
//! those of the queues. A server has one lane.

use crossbeam_deque as deque;

/// The deques of one worker, one for each lane: the side that only its own thread uses.
///
/// An engine whose jobs make jobs is given them in [`super::Engine::began`], and puts those jobs here.
pub struct Deques<J> {
    lanes: Box<[deque::Worker<J>]>,
}

/// The thieves' side of one worker's deques.
pub(super) struct Stealers<J> {
    lanes: Box<[deque::Stealer<J>]>,
}

/// In which order a worker searches the lanes: the most urgent first, but for a bounded share that begins elsewhere.
pub(super) struct LaneOrder {
    lanes: usize,
    searches: usize,
}

/// One search in so many begins with a less urgent lane, each in turn, so that none starves: with three lanes each of the
/// two lower ones is served by at least one search in 122. A prime, so that no regular pattern of jobs is always hit.
const FAIR_EVERY: usize = 61;

/// Jobs taken from a victim at once, at most. With the batch of a receive it stays below the 64 places of a deque's
/// smallest buffer, so that the deque never reallocates.
const STEAL_MAX: usize = 31;

impl<J> Deques<J> {
    pub(super) fn new(lanes: usize) -> Deques<J> {
        Deques { lanes: (0..lanes).map(|_| deque::Worker::new_fifo()).collect() }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        Stealers { lanes: self.lanes.iter().map(deque::Worker::stealer).collect() }
    }

    /// Adds a job behind the others of `lane`.
    pub fn push(&self, lane: usize, job: J) {
        self.lanes[lane].push(job);
    }

    pub(super) fn pop(&self, lane: usize) -> Option<J> {
        self.lanes[lane].pop()
    }

    /// How many jobs wait in `lane`; thieves may be taking some.
    pub fn lane_len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// How many jobs wait in lanes up to `lane`.
    pub(super) fn len_up_to(&self, lane: usize) -> usize {
        self.lanes[..=lane].iter().map(deque::Worker::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(deque::Worker::is_empty)
    }
}

impl<J> Stealers<J> {
    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(deque::Stealer::len).sum()
    }

    /// Moves half of a lane, at most [`STEAL_MAX`] jobs, behind what is in the lane of `thief`, and takes the first.
    pub(super) fn steal_half(&self, lane: usize, thief: &Deques<J>) -> deque::Steal<J> {
        let limit = self.lanes[lane].len().div_ceil(2).clamp(1, STEAL_MAX);
        self.lanes[lane].steal_batch_with_limit_and_pop(&thief.lanes[lane], limit)
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
    use super::*;

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
    fn a_thief_takes_half_of_one_lane() {
        let (victim, thief) = (Deques::new(3), Deques::new(3));
        (0..10).for_each(|job| victim.push(1, job));
        victim.push(2, 100);
        let first = loop {
            match victim.stealers().steal_half(1, &thief) {
                deque::Steal::Success(job) => break job,
                deque::Steal::Empty => panic!("there are ten"),
                deque::Steal::Retry => {}
            }
        };
        assert_eq!((first, thief.lane_len(1), victim.lane_len(1), victim.lane_len(2)), (0, 4, 5, 1));
        assert_eq!((victim.len_up_to(1), victim.len_up_to(2), thief.is_empty()), (5, 6, false));
    }
}
