//! The deque of one worker.

use crate::sched::sharing::steal_limit;
use crossbeam_deque::{Steal, Stealer, Worker};

/// The deque of one worker: the side that only its own thread uses.
///
/// An engine whose jobs make jobs puts the new ones here ([`super::Worker::on_thread`]).
pub struct Deque<J>(Worker<J>);

/// The thieves' side of one worker's deque.
pub(super) struct Thieves<J>(Stealer<J>);

impl<J> Deque<J> {
    /// A deque whose owner takes the newest job first, or else the oldest.
    pub(super) fn new(newest_first: bool) -> Deque<J> {
        Deque(if newest_first { Worker::new_lifo() } else { Worker::new_fifo() })
    }

    pub(super) fn thieves(&self) -> Thieves<J> {
        Thieves(self.0.stealer())
    }

    /// Adds a job as the newest.
    pub fn push(&self, job: J) {
        self.0.push(job);
    }

    /// Takes the job whose turn it is.
    pub fn pop(&self) -> Option<J> {
        self.0.pop()
    }

    /// How many jobs wait; thieves may be taking some.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<J> Thieves<J> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the oldest jobs, at most [`steal_limit`] of them. One is returned, the others go into `thief`.
    pub(super) fn steal(&self, thief: &Deque<J>) -> Steal<J> {
        self.0.steal_batch_with_limit_and_pop(&thief.0, steal_limit(self.len(), thief.len()))
    }

    /// Takes the oldest job, for the owner.
    pub(super) fn oldest(&self) -> Option<J> {
        loop {
            match self.0.steal() {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::bounds::DEQUE_PLACES;

    fn stolen(victim: &Deque<usize>, thief: &Deque<usize>) -> Option<usize> {
        loop {
            match victim.thieves().steal(thief) {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[test]
    fn a_thief_takes_the_older_half() {
        for newest_first in [false, true] {
            let (victim, thief) = (Deque::new(newest_first), Deque::new(newest_first));
            (0..10).for_each(|job| victim.push(job));
            assert_eq!(stolen(&victim, &thief), Some(if newest_first { 4 } else { 0 }));
            assert_eq!((thief.len(), victim.len(), victim.is_empty()), (4, 5, false));
            assert_eq!(
                (thief.thieves().oldest(), victim.thieves().oldest()),
                (Some(usize::from(!newest_first)), Some(5))
            );
        }
        assert_eq!(Deque::<u8>::new(true).thieves().oldest(), None);
    }

    #[test]
    fn the_owner_takes_the_oldest_or_the_newest() {
        for newest_first in [false, true] {
            let deque = Deque::new(newest_first);
            for _ in 0..4 {
                (0..17).for_each(|job| deque.push(job));
                let mut out: Vec<usize> = std::iter::from_fn(|| deque.pop()).collect();
                if newest_first {
                    out.reverse();
                }
                assert_eq!(out, (0..17).collect::<Vec<_>>());
                assert!(deque.is_empty());
            }
        }
    }

    /// However often a worker steals while its own deque holds jobs, it never holds more than fit without reallocating.
    #[test]
    fn theft_stops_where_a_deque_would_grow() {
        let (victim, thief) = (Deque::new(false), Deque::new(false));
        (0..32).for_each(|job| thief.push(job));
        for _ in 0..100 {
            (0..60).for_each(|job| victim.push(job));
            assert!(stolen(&victim, &thief).is_some());
            assert!(thief.len() < DEQUE_PLACES, "{} jobs", thief.len());
            while victim.pop().is_some() {}
        }
        assert!(thief.len() > 50, "theft goes on as long as there is room");
    }
}
