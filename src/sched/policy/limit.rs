//! How long a request runs, and whom it gives way to.

use super::giving_way::{LOOKS_OF_CPU, Patience};
use crate::sched::ladder::Ladders;
use crate::time::Nanos;

/// How long a request runs before the policy is asked, and what becomes of it then.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// A request runs to its end.
    None,
    /// By the CPU time that a request has taken since it began. At each limit it steps aside, and
    /// goes on behind what came to that level before. Above level 0 it also steps aside for a
    /// request of a lower level.
    Attained {
        /// The levels.
        ladders: Ladders,
        /// How workers learn of fresh requests.
        gives_way: GiveWay,
    },
    /// By the CPU time since the request was last taken from a queue.
    Stay {
        /// That time.
        slice: Nanos,
        /// What becomes of the request.
        then: Then,
    },
}

/// What becomes of a request that has run for its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It moves on to the next pool. In the last one it takes turns.
    Hop,
    /// It goes to the back of the queue of its pool, if another waits there.
    Turn,
    /// It steps aside for a request that is at least as urgent.
    GiveWay,
}

/// How workers in heavy requests learn of fresh ones, and who steps aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveWay {
    /// Workers that watch closely, those of the lowest numbers, while a fresh request would not be
    /// left to others.
    pub closely: usize,
    /// Longest time between two looks that are not close.
    pub rarely: Nanos,
    /// Whether `rarely` is a time of all workers together, of which any may find a fresh request.
    pub together: bool,
    /// Whether a worker that receives more than it can serve asks others to step aside.
    pub flags_others: bool,
    /// How many of the kernel's notices a worker that watches closely could take between two
    /// arrivals. Each arrival makes one. [`u32::MAX`] where nothing was measured, or notices cost
    /// nothing.
    pub notices: u32,
    /// When fresh requests are left to workers in light ones; `None` = never.
    pub patience: Option<Patience>,
}

impl GiveWay {
    /// Whether looks cost less than the kernel's notices.
    pub(super) fn by_looks(&self) -> bool {
        u64::from(self.notices) < LOOKS_OF_CPU
    }

    /// Whether `other` makes the same decisions, but for limits that differ by no more than noise.
    pub(super) fn is_like(&self, other: &GiveWay) -> bool {
        let [a, b] = [self.notices, other.notices].map(|notices| Nanos::new(u64::from(notices)));
        let notices = self.by_looks() == other.by_looks() || a.is_near(b);
        let patience = match (&self.patience, &other.patience) {
            (Some(one), Some(two)) => one.is_like(two),
            (one, two) => one == two,
        };
        let rest = |gives_way: &GiveWay| GiveWay { notices: 0, patience: None, ..*gives_way };
        notices && patience && rest(self) == rest(other)
    }
}
