//! The deque of one worker, and how others steal from it.

use crate::sched::sharing::steal_limit;
use crossbeam_deque::{Steal, Stealer};

/// The owner's side of a worker's deque; only its own thread uses it.
///
/// If an engine's jobs create jobs, the engine pushes them here ([`super::Worker::run_with`]).
pub type Deque<J> = crossbeam_deque::Worker<J>;

/// Takes up to [`steal_limit`] of the victim's oldest jobs. Returns one; the others go into
/// `thief`.
pub(super) fn steal<J>(victim: &Stealer<J>, thief: &Deque<J>) -> Steal<J> {
    victim.steal_batch_with_limit_and_pop(thief, steal_limit(victim.len(), thief.len()))
}

/// Takes the oldest job of a deque, for its owner.
pub(super) fn oldest<J>(own: &Stealer<J>) -> Option<J> {
    loop {
        match own.steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::bounds::DEQUE_PLACES;

    fn deque<J>(newest_first: bool) -> Deque<J> {
        if newest_first { Deque::new_lifo() } else { Deque::new_fifo() }
    }

    fn stolen(victim: &Deque<usize>, thief: &Deque<usize>) -> Option<usize> {
        loop {
            match steal(&victim.stealer(), thief) {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[test]
    fn a_thief_takes_the_older_half() {
        for newest_first in [false, true] {
            let (victim, thief) = (deque(newest_first), deque(newest_first));
            (0..10).for_each(|job| victim.push(job));
            assert_eq!(stolen(&victim, &thief), Some(if newest_first { 4 } else { 0 }));
            assert_eq!((thief.len(), victim.len(), victim.is_empty()), (4, 5, false));
            assert_eq!(
                (oldest(&thief.stealer()), oldest(&victim.stealer())),
                (Some(usize::from(!newest_first)), Some(5))
            );
        }
        assert_eq!(oldest(&deque::<u8>(true).stealer()), None);
    }

    #[test]
    fn the_owner_takes_the_oldest_or_the_newest() {
        for newest_first in [false, true] {
            let deque = deque(newest_first);
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

    /// However often its worker steals, does a deque never hold more jobs than fit without
    /// reallocation?
    #[test]
    fn theft_stops_where_a_deque_would_grow() {
        let (victim, thief) = (deque(false), deque(false));
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
