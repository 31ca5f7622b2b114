//! The deques of one worker: for each lane one, or several among which its jobs take turns, so that several thieves find
//! a deque each.

use super::lanes::Urgent;
use crate::sched::Amount;
use crossbeam_deque::{Steal, Stealer, Worker};
use std::cell::Cell;

/// The deques of one worker: the side that only its own thread uses.
///
/// An engine whose jobs make jobs is given them in [`super::Engine::began`], and puts those jobs here.
pub struct Deques<J> {
    /// Those of the first lane, those of the second, and so on.
    deques: Box<[Worker<J>]>,
    turns: Box<[Turn]>,
    split: usize,
    urgent: Urgent,
}

/// The thieves' side of one worker's deques.
pub(super) struct Stealers<J> {
    deques: Box<[Stealer<J>]>,
    split: usize,
}

/// Which deque of a lane is next.
#[derive(Default)]
struct Turn {
    push: Cell<usize>,
    pop: Cell<usize>,
}

/// Places of a deque's smallest buffer. As long as no lane of a worker holds more, no deque ever reallocates.
const PLACES: usize = 64;

/// Jobs taken from a victim at once, at most. With the batch of a receive, which comes into empty deques, they stay below
/// [`PLACES`].
const STEAL_MAX: usize = 31;

impl<J> Deques<J> {
    pub(super) fn new(lanes: usize, split: usize, urgent: Urgent) -> Deques<J> {
        Deques {
            deques: (0..lanes * split).map(|_| Worker::new_fifo()).collect(),
            turns: (0..lanes).map(|_| Turn::default()).collect(),
            split,
            urgent,
        }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        Stealers { deques: self.deques.iter().map(Worker::stealer).collect(), split: self.split }
    }

    /// Adds a job behind the others of `lane`.
    pub fn push(&self, lane: usize, job: J) {
        self.urgent.put(lane);
        self.next_to_fill(lane).push(job);
    }

    pub(super) fn pop(&self, lane: usize) -> Option<J> {
        let job = match self.lane(lane) {
            [only] => only.pop(),
            deques => self.pop_in_turn(lane, deques),
        };
        job.inspect(|_| self.urgent.taken(lane))
    }

    /// How many jobs wait in `lane`; thieves may be taking some.
    pub fn lane_len(&self, lane: usize) -> usize {
        self.lane(lane).iter().map(Worker::len).sum()
    }

    /// How many jobs wait in lanes up to `lane`.
    pub(super) fn len_up_to(&self, lane: usize) -> usize {
        self.deques[..(lane + 1) * self.split].iter().map(Worker::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deques.iter().all(Worker::is_empty)
    }

    /// Takes the job whose turn it is, which is the oldest unless thieves have taken others of its deque.
    fn pop_in_turn(&self, lane: usize, deques: &[Worker<J>]) -> Option<J> {
        let turn = &self.turns[lane].pop;
        (0..self.split).find_map(|offset| {
            let deque = (turn.get() + offset) % self.split;
            let job = deques[deque].pop()?;
            turn.set((deque + 1) % self.split);
            Some(job)
        })
    }

    fn next_to_fill(&self, lane: usize) -> &Worker<J> {
        match self.lane(lane) {
            [only] => only,
            deques => {
                let turn = &self.turns[lane].push;
                &deques[turn.replace((turn.get() + 1) % self.split)]
            }
        }
    }

    fn lane(&self, lane: usize) -> &[Worker<J>] {
        &self.deques[lane * self.split..][..self.split]
    }
}

impl<J> Stealers<J> {
    pub(super) fn len(&self) -> usize {
        self.deques.iter().map(Stealer::len).sum()
    }

    /// Takes a job from one deque of a lane, the `first` of them or the next that has any. With [`Amount::Half`] as many
    /// more go behind what is in the lane of `thief` as make it half of that deque, at most [`STEAL_MAX`], and no more
    /// than there are places for.
    pub(super) fn steal(&self, lane: usize, first: usize, amount: Amount, thief: &Deques<J>) -> Steal<J> {
        let mut contended = false;
        for offset in 0..self.split {
            let victim = &self.deques[lane * self.split + (first + offset) % self.split];
            let stolen = match amount {
                Amount::One => victim.steal(),
                Amount::Half => {
                    let room = PLACES.saturating_sub(thief.lane_len(lane));
                    let limit = victim.len().div_ceil(2).min(STEAL_MAX).min(room).max(1);
                    victim.steal_batch_with_limit_and_pop(thief.next_to_fill(lane), limit)
                }
            };
            match stolen {
                Steal::Success(_) => {
                    thief.urgent.taken(lane);
                    return stolen;
                }
                Steal::Empty => {}
                Steal::Retry => contended = true,
            }
        }
        if contended { Steal::Retry } else { Steal::Empty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deques(lanes: usize, split: usize) -> Deques<usize> {
        Deques::new(lanes, split, Urgent::new(lanes))
    }

    /// What a theft brings: crossbeam's deques report a competitor now and then where there is none.
    fn stolen(
        victim: &Deques<usize>,
        lane: usize,
        first: usize,
        amount: Amount,
        thief: &Deques<usize>,
    ) -> Option<usize> {
        loop {
            match victim.stealers().steal(lane, first, amount, thief) {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[test]
    fn a_thief_takes_half_of_one_lane_or_one_job() {
        let (victim, thief) = (deques(3, 1), deques(3, 1));
        (0..10).for_each(|job| victim.push(1, job));
        victim.push(2, 100);
        assert_eq!(stolen(&victim, 1, 7, Amount::Half, &thief), Some(0));
        assert_eq!((thief.lane_len(1), victim.lane_len(1), victim.lane_len(2)), (4, 5, 1));
        assert_eq!((victim.len_up_to(1), victim.len_up_to(2), thief.is_empty()), (5, 6, false));
        assert_eq!(stolen(&victim, 1, 7, Amount::One, &thief), Some(5));
        assert_eq!((thief.lane_len(1), victim.lane_len(1)), (4, 4));
        assert_eq!(stolen(&victim, 0, 0, Amount::One, &thief), None);
    }

    #[test]
    fn jobs_of_a_split_lane_keep_their_order() {
        for split in 1..6 {
            let deques = deques(2, split);
            for round in 0..4 {
                (0..17).for_each(|job| deques.push(round % 2, job));
                assert_eq!(deques.lane_len(round % 2), 17);
                let out: Vec<usize> = std::iter::from_fn(|| deques.pop(round % 2)).collect();
                assert_eq!(out, (0..17).collect::<Vec<_>>(), "{split} deques");
                assert!(deques.is_empty());
            }
        }
    }

    /// Wherever a job lies, a thief finds it, whichever deque it tries first; and thieves that come together find
    /// different ones.
    #[test]
    fn every_deque_of_a_victim_is_looked_into() {
        for split in 1..6 {
            for first in 0..2 * split {
                let (victim, thief) = (deques(1, split), deques(1, split));
                (0..3 * split).for_each(|job| victim.push(0, job));
                assert_eq!(stolen(&victim, 0, first, Amount::One, &thief), Some(first % split));
                let mut rest: Vec<usize> =
                    std::iter::from_fn(|| stolen(&victim, 0, first, Amount::One, &thief)).collect();
                rest.push(first % split);
                rest.sort_unstable();
                assert_eq!(rest, (0..3 * split).collect::<Vec<_>>());
            }
        }
    }

    /// However often somebody steals while its own deques hold jobs, they never hold more than fit without reallocating.
    #[test]
    fn theft_stops_where_a_deque_would_grow() {
        for split in [1, 4] {
            let (victim, thief) = (deques(1, split), deques(1, split));
            (0..32).for_each(|job| thief.push(0, job));
            for round in 0..100 {
                (0..60).for_each(|job| victim.push(0, job));
                assert!(stolen(&victim, 0, round, Amount::Half, &thief).is_some());
                assert!(thief.lane_len(0) < PLACES, "{} jobs", thief.lane_len(0));
                while victim.pop(0).is_some() {}
            }
            assert!(thief.lane_len(0) > 50, "theft goes on as long as there is room");
        }
    }
}
