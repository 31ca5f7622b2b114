//! How many workers may do uninterrupted work at the same time. Such work has no checkpoint, so a
//! worker in it serves no other request until the end of the piece.

use crate::time::Nanos;
use crate::tuning::Tuning;

/// The last worker joins the others for pieces up to this long, before the time scale. A signature
/// of RSA-2048 takes .5 to 1.3 ms.
const SHORT: Nanos = Nanos::from_millis(2);

/// The last worker joins the others once so many jobs wait for a permit. With 1, light requests
/// wait for a piece far more often. Their p99 on two workers, at a load of .3, is then 14 times as
/// high. With 8, jobs that wait have twice the p99.
const MANY: usize = 4;

/// Divisor of the longest piece: so much of it is forgotten with each further one. After a piece of
/// 5 ms, seven pieces below [`SHORT`] restore the permit of the last worker.
const FORGOTTEN: u64 = 8;

/// How many workers may do uninterrupted work at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    /// Number of workers that always may. The others reach a checkpoint soon.
    pub workers: usize,
    /// The last worker joins them only while no piece is longer. It must have found nothing else to
    /// do. So a light request waits for at most one piece.
    pub short: Nanos,
}

impl Permits {
    /// All workers but one, and at least one. The last one joins them for short pieces.
    pub(crate) fn all_but_one(tuning: &Tuning) -> Permits {
        Permits { workers: tuning.workers.saturating_sub(1).max(1), short: tuning.scaled(SHORT) }
    }

    /// Whether the last worker may take such work too, while this many jobs are `waiting` for it.
    /// Recent pieces took up to `longest`.
    pub(crate) fn let_last_join(&self, waiting: usize, longest: Nanos) -> bool {
        waiting >= MANY && longest <= self.short
    }

    /// How many workers may do such work at the same time, if pieces take up to `longest`.
    pub(super) fn most(&self, longest: Nanos) -> usize {
        self.workers + usize::from(self.let_last_join(MANY, longest))
    }

    /// The same permits after the number of workers has changed.
    pub(crate) fn on(&self, workers: usize, before: usize) -> Permits {
        Permits { workers: (self.workers + workers).saturating_sub(before).max(1), ..self.clone() }
    }
}

/// The longest recent piece after a further `piece`. Before the first one it is [`Nanos::MAX`],
/// because nothing is known.
pub fn longest_after(longest: Nanos, piece: Nanos) -> Nanos {
    match longest {
        Nanos::MAX => piece,
        _ => piece.max(longest.minus(Nanos::new(longest.get() / FORGOTTEN))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the last worker join again after the seventh short piece that follows one of 5 ms?
    #[test]
    fn a_long_piece_is_forgotten() {
        let [short, long] = [1, 5].map(Nanos::from_millis);
        let permits = Permits { workers: 1, short: SHORT };
        let mut longest = longest_after(Nanos::MAX, long);
        let mut most = Vec::new();
        for _ in 0..8 {
            most.push(permits.most(longest));
            longest = longest_after(longest, short);
        }
        assert_eq!((most, permits.most(Nanos::MAX)), (vec![1, 1, 1, 1, 1, 1, 1, 2], 1));
    }
}
