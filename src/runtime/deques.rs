//! The deques of one worker: one for each priority level, or several that are filled in turn, so that concurrent
//! thieves find a deque each.

use super::priority::UrgentCount;
use crate::sched::Amount;
use crossbeam_deque::{Steal, Stealer, Worker};
use std::cell::Cell;

/// The deques of one worker: the side that only its own thread uses.
///
/// An engine whose jobs make jobs puts the new ones here ([`super::Worker::on_thread`]).
pub struct Deques<J> {
    /// All deques by level: `split` of them for level 0, as many for level 1, and so on.
    deques: Box<[Worker<J>]>,
    turns: Box<[Turn]>,
    split: usize,
    urgent: UrgentCount,
}

/// The thieves' side of one worker's deques.
pub(super) struct Stealers<J> {
    deques: Box<[Stealer<J>]>,
    split: usize,
}

/// The next deque of one level to push to, and the next to pop from.
#[derive(Default)]
struct Turn {
    push: Cell<usize>,
    pop: Cell<usize>,
}

impl<J> Deques<J> {
    pub(super) fn new(levels: usize, split: usize, urgent: UrgentCount) -> Deques<J> {
        Deques {
            deques: (0..levels * split).map(|_| Worker::new_fifo()).collect(),
            turns: (0..levels).map(|_| Turn::default()).collect(),
            split,
            urgent,
        }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        Stealers { deques: self.deques.iter().map(Worker::stealer).collect(), split: self.split }
    }

    /// Adds a job behind the others of `level`.
    pub fn push(&self, level: usize, job: J) {
        self.urgent.put(level);
        self.next_to_fill(level).push(job);
    }

    pub(super) fn pop(&self, level: usize) -> Option<J> {
        let job = match self.level(level) {
            [only] => only.pop(),
            deques => self.pop_in_turn(level, deques),
        };
        job.inspect(|_| self.urgent.taken(level))
    }

    /// How many jobs wait in `level`; thieves may be taking some.
    pub fn level_len(&self, level: usize) -> usize {
        self.level(level).iter().map(Worker::len).sum()
    }

    /// How many jobs wait in levels up to `level`.
    pub(super) fn len_up_to(&self, level: usize) -> usize {
        self.deques[..(level + 1) * self.split].iter().map(Worker::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deques.iter().all(Worker::is_empty)
    }

    /// Takes the next job of `level`, which is the oldest unless thieves have taken others of its deque.
    fn pop_in_turn(&self, level: usize, deques: &[Worker<J>]) -> Option<J> {
        let turn = &self.turns[level].pop;
        (0..self.split).find_map(|offset| {
            let deque = (turn.get() + offset) % self.split;
            let job = deques[deque].pop()?;
            turn.set((deque + 1) % self.split);
            Some(job)
        })
    }

    fn next_to_fill(&self, level: usize) -> &Worker<J> {
        match self.level(level) {
            [only] => only,
            deques => {
                let turn = &self.turns[level].push;
                &deques[turn.replace((turn.get() + 1) % self.split)]
            }
        }
    }

    fn level(&self, level: usize) -> &[Worker<J>] {
        &self.deques[level * self.split..][..self.split]
    }
}

impl<J> Stealers<J> {
    pub(super) fn len(&self) -> usize {
        self.deques.iter().map(Stealer::len).sum()
    }

    /// Takes jobs from one deque of a level, number `first` or the next that has any: at most [`Amount::limit`] of
    /// them. One is returned, the others go behind what is in that level of `thief`.
    pub(super) fn steal(&self, level: usize, first: usize, amount: Amount, thief: &Deques<J>) -> Steal<J> {
        let mut contended = false;
        for offset in 0..self.split {
            let victim = &self.deques[level * self.split + (first + offset) % self.split];
            let stolen = match amount {
                Amount::One => victim.steal(),
                Amount::Half => {
                    let limit = amount.limit(victim.len(), thief.level_len(level));
                    victim.steal_batch_with_limit_and_pop(thief.next_to_fill(level), limit)
                }
            };
            match stolen {
                Steal::Success(_) => {
                    thief.urgent.taken(level);
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
    use crate::sched::bounds::DEQUE_PLACES;

    fn deques(levels: usize, split: usize) -> Deques<usize> {
        Deques::new(levels, split, UrgentCount::new(levels))
    }

    /// What a steal brings: crossbeam's deques report a competitor now and then where there is none.
    fn stolen(
        victim: &Deques<usize>,
        level: usize,
        first: usize,
        amount: Amount,
        thief: &Deques<usize>,
    ) -> Option<usize> {
        loop {
            match victim.stealers().steal(level, first, amount, thief) {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[test]
    fn a_thief_takes_half_of_one_level_or_one_job() {
        let (victim, thief) = (deques(3, 1), deques(3, 1));
        (0..10).for_each(|job| victim.push(1, job));
        victim.push(2, 100);
        assert_eq!(stolen(&victim, 1, 7, Amount::Half, &thief), Some(0));
        assert_eq!((thief.level_len(1), victim.level_len(1), victim.level_len(2)), (4, 5, 1));
        assert_eq!((victim.len_up_to(1), victim.len_up_to(2), thief.is_empty()), (5, 6, false));
        assert_eq!(stolen(&victim, 1, 7, Amount::One, &thief), Some(5));
        assert_eq!((thief.level_len(1), victim.level_len(1)), (4, 4));
        assert_eq!(stolen(&victim, 0, 0, Amount::One, &thief), None);
    }

    #[test]
    fn jobs_of_a_split_level_keep_their_order() {
        for split in 1..6 {
            let deques = deques(2, split);
            for round in 0..4 {
                (0..17).for_each(|job| deques.push(round % 2, job));
                assert_eq!(deques.level_len(round % 2), 17);
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

    /// However often a worker steals while its own deques hold jobs, they never hold more than fit without
    /// reallocating.
    #[test]
    fn theft_stops_where_a_deque_would_grow() {
        for split in [1, 4] {
            let (victim, thief) = (deques(1, split), deques(1, split));
            (0..32).for_each(|job| thief.push(0, job));
            for round in 0..100 {
                (0..60).for_each(|job| victim.push(0, job));
                assert!(stolen(&victim, 0, round, Amount::Half, &thief).is_some());
                assert!(thief.level_len(0) < DEQUE_PLACES, "{} jobs", thief.level_len(0));
                while victim.pop(0).is_some() {}
            }
            assert!(thief.level_len(0) > 50, "theft goes on as long as there is room");
        }
    }
}
