//! How long a request may run, and to which requests it yields afterwards.

use super::giving_way::{LOOKS_OF_CPU, Patience};
use crate::ladder::Ladders;
use crate::time::Nanos;

/// How long a request runs before the policy is asked, and what happens then.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// A request runs to its end.
    None,
    /// Levels limit the CPU time since the request began. At each limit the request yields, and
    /// then waits behind earlier requests of its new level. Above level 0 it also yields to
    /// requests of lower levels.
    Attained {
        /// The CPU times at which the levels begin.
        ladders: Ladders,
        /// How workers learn of fresh requests.
        gives_way: GiveWay,
    },
    /// Limits the CPU time since the request was last taken from a queue.
    Stay {
        /// CPU time of a slice.
        slice: Nanos,
        /// What happens after the slice.
        then: Then,
    },
}

/// What happens to a request that has run for its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The request moves to the next pool. In the last pool it takes turns.
    Hop,
    /// The request goes to the back of its pool's queue, if another request waits there.
    Turn,
    /// The request yields if a request that is at least as urgent waits.
    GiveWay,
}

/// How workers in heavy requests learn of fresh ones, and which of them yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveWay {
    /// The longest interval between looks of workers that do not watch closely, all together,
    /// because any of them may find a fresh request. Workers watch closely only while they would
    /// yield for one.
    pub rarely: Nanos,
    /// How many of the kernel's notices a closely watching worker could take between two arrivals.
    /// Each arrival causes one notice, so a high number means that notices cost little.
    /// [`u32::MAX`] if nothing was measured, or notices cost nothing.
    pub notices: u32,
    /// When to leave fresh requests to workers in light ones; `None` = never.
    pub patience: Option<Patience>,
}

impl GiveWay {
    /// Whether looks cost less than the kernel's notices.
    pub(super) fn by_looks(&self) -> bool {
        u64::from(self.notices) < LOOKS_OF_CPU
    }

    /// Whether `other` decides the same, with limits that differ by noise only.
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
