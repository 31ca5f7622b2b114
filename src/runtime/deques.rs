//! The deques of one worker: one for each priority level.

use super::priority::UrgentCount;
use crate::sched::sharing::steal_limit;
use crossbeam_deque::{Steal, Stealer, Worker};

/// The deques of one worker: the side that only its own thread uses.
///
/// An engine whose jobs make jobs puts the new ones here ([`super::Worker::on_thread`]).
pub struct Deques<J> {
    levels: Box<[Worker<J>]>,
    urgent: UrgentCount,
}

/// The thieves' side of one worker's deques.
pub(super) struct Stealers<J>(Box<[Stealer<J>]>);

impl<J> Deques<J> {
    pub(super) fn new(levels: usize, urgent: UrgentCount) -> Deques<J> {
        Deques { levels: (0..levels).map(|_| Worker::new_fifo()).collect(), urgent }
    }

    pub(super) fn stealers(&self) -> Stealers<J> {
        Stealers(self.levels.iter().map(Worker::stealer).collect())
    }

    /// Adds a job behind the others of `level`.
    pub fn push(&self, level: usize, job: J) {
        self.urgent.put(level);
        self.levels[level].push(job);
    }

    /// Takes the oldest job of `level`.
    pub(super) fn pop(&self, level: usize) -> Option<J> {
        self.levels[level].pop().inspect(|_| self.urgent.taken(level))
    }

    /// How many jobs wait in `level`; thieves may be taking some.
    pub fn level_len(&self, level: usize) -> usize {
        self.levels[level].len()
    }

    /// How many jobs wait in levels up to `level`.
    pub(super) fn len_up_to(&self, level: usize) -> usize {
        self.levels[..=level].iter().map(Worker::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.iter().all(Worker::is_empty)
    }
}

impl<J> Stealers<J> {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Stealer::len).sum()
    }

    /// Takes jobs of a level, at most [`steal_limit`] of them. One is returned, the others go behind what is in that
    /// level of `thief`.
    pub(super) fn steal(&self, level: usize, thief: &Deques<J>) -> Steal<J> {
        let victim = &self.0[level];
        let limit = steal_limit(victim.len(), thief.level_len(level));
        let stolen = victim.steal_batch_with_limit_and_pop(&thief.levels[level], limit);
        if stolen.is_success() {
            thief.urgent.taken(level);
        }
        stolen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::bounds::DEQUE_PLACES;

    fn deques(levels: usize) -> Deques<usize> {
        Deques::new(levels, UrgentCount::new(levels))
    }

    fn stolen(victim: &Deques<usize>, level: usize, thief: &Deques<usize>) -> Option<usize> {
        loop {
            match victim.stealers().steal(level, thief) {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[test]
    fn a_thief_takes_half_of_one_level() {
        let (victim, thief) = (deques(3), deques(3));
        (0..10).for_each(|job| victim.push(1, job));
        victim.push(2, 100);
        assert_eq!(stolen(&victim, 1, &thief), Some(0));
        assert_eq!((thief.level_len(1), victim.level_len(1), victim.level_len(2)), (4, 5, 1));
        assert_eq!((victim.len_up_to(1), victim.len_up_to(2), thief.is_empty()), (5, 6, false));
        assert_eq!(stolen(&victim, 0, &thief), None);
    }

    #[test]
    fn jobs_of_a_level_keep_their_order() {
        let deques = deques(2);
        for round in 0..4 {
            (0..17).for_each(|job| deques.push(round % 2, job));
            let out: Vec<usize> = std::iter::from_fn(|| deques.pop(round % 2)).collect();
            assert_eq!(out, (0..17).collect::<Vec<_>>());
            assert!(deques.is_empty());
        }
    }

    /// However often a worker steals while its own deque holds jobs, it never holds more than fit without reallocating.
    #[test]
    fn theft_stops_where_a_deque_would_grow() {
        let (victim, thief) = (deques(1), deques(1));
        (0..32).for_each(|job| thief.push(0, job));
        for _ in 0..100 {
            (0..60).for_each(|job| victim.push(0, job));
            assert!(stolen(&victim, 0, &thief).is_some());
            assert!(thief.level_len(0) < DEQUE_PLACES, "{} jobs", thief.level_len(0));
            while victim.pop(0).is_some() {}
        }
        assert!(thief.level_len(0) > 50, "theft goes on as long as there is room");
    }
}
