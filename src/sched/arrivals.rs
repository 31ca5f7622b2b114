//! Which worker serves a fresh request that finds none free: one that steps aside for it, or one that is soon free.
//!
//! A yield that costs `y` makes each of `n` requests in the queues of `k` workers wait `y / k` longer. A fresh request for
//! which no worker steps aside waits for the rest of a light one. From `n = k * rest / y` on this costs less, so the
//! request is left to a worker in a light one ([`Patience`]). That is near saturation. Where twice as many wait, two are
//! left to each of these workers, since the second waits for twice as long.
//! Near saturation yields add up. 14 workers at .95 of extreme-bimodal would step aside 4.4 times in a microsecond. With
//! yields of .1 us that takes .44 workers of the .7 that are left over. Then the tail of the heavy requests grows
//! without bound (`benches/levels.md`).

use super::estimate::ServiceTimes;
use super::{Policy, View, WorkerId};
use crate::time::Nanos;

/// When a fresh request is left to workers that are in light ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Requests that wait in queues, at least.
    pub queued: usize,
    /// How long it takes in the mean until a worker in a light request is free. Then one that has left a fresh request to
    /// others looks whether one of them has taken it.
    pub rest: Nanos,
}

impl Patience {
    /// The patience of `workers` workers whose requests take these `times`. A request that has run for less than
    /// `heavy_from` is light.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, workers: usize, yield_cost: Nanos) -> Patience {
        // The mean of what is left of one at a random time is half of the mean square over the mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside()).get() / 2).max(1));
        let queued = (workers as u64).saturating_mul(rest.get()).div_ceil(yield_cost.get().max(1));
        Patience { queued: queued as usize, rest }
    }

    /// Whether `other` differs by no more than noise. How many must wait follows from the rest.
    pub(super) fn is_like(&self, other: &Patience) -> bool {
        self.rest.is_near(other.rest)
    }
}

impl Policy {
    /// For `waiting` fresh requests that have come to `worker` while no worker is free: gives to `flag` the workers
    /// that are to step aside. There is one for each request, but for the one that `worker` serves itself if it is
    /// `serving`. They are the next in turn that have been in one job for longer than a light one takes.
    pub fn on_arrivals(
        &self,
        view: &impl View,
        now: Nanos,
        worker: WorkerId,
        waiting: usize,
        serving: bool,
        flag: impl FnMut(WorkerId),
    ) {
        let Some(heavy_from) = self.heavy_from() else { return };
        let needed = waiting.saturating_sub(usize::from(serving));
        self.others(worker).filter(|other| runs_for(view, *other, now) >= heavy_from).take(needed).for_each(flag);
    }

    /// How many of the waiting fresh requests `worker` leaves to workers that are soon free, instead of stepping aside.
    /// Each other worker in a light request, or between two, is left the same number: none while few wait in queues.
    pub fn left_to_others(&self, view: &impl View, now: Nanos, worker: WorkerId) -> usize {
        let (Some(heavy_from), Some(patience)) = (self.heavy_from(), self.patience()) else { return 0 };
        let each = view.queued() / patience.queued.max(1);
        if each == 0 {
            return 0;
        }
        each * self.others(worker).filter(|other| runs_for(view, *other, now) < heavy_from).count()
    }

    /// The workers after `worker`, in turn.
    fn others(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> {
        let workers = self.topology().workers();
        (1..workers).map(move |offset| (worker + offset) % workers)
    }
}

/// How long `worker` has been in its job.
fn runs_for(view: &impl View, worker: WorkerId, now: Nanos) -> Nanos {
    view.busy_since(worker).map_or(Nanos::ZERO, |since| now.minus(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_alike_within_a_factor_of_two() {
        let patience = |rest: u64| Patience { queued: rest as usize / 10, rest: Nanos::new(rest) };
        let one = patience(1_000);
        for (rest, is_like) in [(2_000, true), (500, true), (2_001, false), (499, false)] {
            let other = patience(rest);
            assert_eq!((one.is_like(&other), other.is_like(&one)), (is_like, is_like), "{other:?}");
        }
    }
}
