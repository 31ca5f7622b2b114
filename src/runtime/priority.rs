//! The number of jobs of the most urgent priority level that wait anywhere. A server has one level.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of jobs of level 0 that wait anywhere: while it is 0, a search need not look for them everywhere first.
/// A job is counted before it is put somewhere and until after it is taken, so the number is never too low.
#[derive(Clone)]
pub(super) struct UrgentCount {
    /// `None` where there is a single level, which is always searched.
    waiting: Option<Arc<CachePadded<AtomicUsize>>>,
}

impl UrgentCount {
    pub(super) fn new(levels: usize) -> UrgentCount {
        UrgentCount { waiting: (levels > 1).then(Arc::default) }
    }

    /// Whether level 0 is worth a search.
    pub(super) fn any(&self) -> bool {
        // Ordering: relaxed. For a worker that is about to sleep the fences of sleep/README.md, 1, order this load
        // behind the count of any job whose putter did not see it asleep.
        self.waiting.as_ref().is_none_or(|waiting| waiting.load(Ordering::Relaxed) > 0)
    }

    /// A job is about to be put into `level`.
    pub(super) fn put(&self, level: usize) {
        if let (0, Some(waiting)) = (level, &self.waiting) {
            waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A job was taken from `level`, or was not put there after all.
    pub(super) fn taken(&self, level: usize) {
        if let (0, Some(waiting)) = (level, &self.waiting) {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::deques::Deques;
    use crate::runtime::queues::Queues;

    #[test]
    fn urgent_jobs_are_counted_wherever_they_wait() {
        let urgent = UrgentCount::new(2);
        let (victim, thief) = (Deques::new(2, urgent.clone()), Deques::new(2, urgent.clone()));
        let queues = Queues::new(1, urgent.clone(), 2, 1, 1);
        victim.push(1, 0);
        assert!(!urgent.any(), "it is not urgent");
        assert_eq!((queues.push(0, 0, 0, 1), queues.push(0, 0, 0, 2)), (Ok(()), Err(2)));
        victim.push(0, 3);
        victim.push(0, 4);
        assert!(victim.stealers().steal(0, &thief).is_success() && urgent.any());
        assert_eq!((victim.pop(0), victim.pop(0), thief.pop(0)), (Some(4), None, None));
        assert!(urgent.any(), "one is in the queue");
        assert_eq!(queues.pop_any(), Some(1));
        assert!(!urgent.any());
        assert!(UrgentCount::new(1).any(), "a single level is always searched");
    }
}
