//! Which worker serves a fresh request that finds none free: one that steps aside for it, or one that is soon free.
//!
//! To step aside has a price: a look finds the request, and the job is queued and resumed. All that wait in queues wait
//! for that time. A request that is left to workers in light ones waits until one of them ends. [`Patience`] weighs one
//! against the other. Far from saturation it leaves nothing. Near saturation, or with many workers in light requests, it
//! leaves most, and the capacity that is left over goes into work.
//!
//! A worker between two requests looks into the sockets anyway. So a heavy request that would leave a fresh one to others
//! does not watch closely ([`Policy::watch`]), and saves the looks. A worker that receives more than it leaves to others
//! asks heavy ones to step aside.

use super::estimate::ServiceTimes;
use super::{Policy, View, WorkerId};
use crate::time::Nanos;

/// When a fresh request is left to workers that are in light ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// What it costs that a job steps aside.
    pub price: Nanos,
    /// How long it takes in the mean until a worker in a light request is free.
    pub rest: Nanos,
}

impl Patience {
    /// The patience where requests take these `times` and to step aside costs `price`. A request that has run for less
    /// than `heavy_from` is light.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, price: Nanos) -> Patience {
        // The mean of what is left of one at a random time is half of the mean square over the mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside()).get() / 2).max(1));
        Patience { price, rest }
    }

    /// How many fresh requests are left to `light` other workers in light requests, of `workers`, while `queued` wait in
    /// queues.
    ///
    /// A job that steps aside takes `price` from its worker, and from all that wait: `price * (1 + queued / workers)`. In
    /// that time each of the others ends `1 / (2 * rest)` requests a nanosecond.
    fn leaves(&self, light: usize, queued: usize, workers: usize) -> usize {
        let [light, queued, workers] = [light, queued, workers].map(|count| count as u64);
        let ended = self.price.get().saturating_mul(workers + queued).saturating_mul(light);
        (ended / self.rest.get().saturating_mul(2 * workers).max(1)) as usize
    }

    /// From how many requests in queues on each of `workers` workers in light requests is left one.
    pub(super) fn queued(&self, workers: usize) -> u64 {
        let (workers, rest) = (workers as u64, self.rest.get());
        workers.saturating_mul(2 * rest).div_ceil(self.price.get().max(1)).saturating_sub(workers)
    }

    /// Whether `other` differs by no more than noise.
    pub(super) fn is_like(&self, other: &Patience) -> bool {
        self.rest.is_near(other.rest) && self.price.is_near(other.price)
    }
}

impl Policy {
    /// For `waiting` fresh requests that `worker` does not serve itself: gives to `flag` the workers that are to step
    /// aside, one for each. They are the next ones in turn that have been in one job for longer than a light one takes.
    pub fn on_arrivals(
        &self,
        view: &impl View,
        now: Nanos,
        worker: WorkerId,
        waiting: usize,
        flag: impl FnMut(WorkerId),
    ) {
        let Some(heavy_from) = self.heavy_from() else { return };
        self.others(worker).filter(|other| runs_for(view, *other, now) >= heavy_from).take(waiting).for_each(flag);
    }

    /// How many of the fresh requests that wait `worker` leaves to others. These are awake, in no heavy request, and have no
    /// others to begin first.
    pub fn left_to_others(&self, view: &impl View, now: Nanos, worker: WorkerId) -> usize {
        let (Some(heavy_from), Some(patience)) = (self.heavy_from(), self.patience()) else { return 0 };
        let is_light = |other: &WorkerId| runs_for(view, *other, now) < heavy_from && view.backlog(*other) == 0;
        let light = self.others(worker).filter(is_light).count();
        let awake = light.saturating_sub(view.asleep(self.topology().pool_of(worker)));
        patience.leaves(awake, view.queued(), self.topology().workers())
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
        let patience = |ns: u64| Patience { price: Nanos::new(250), rest: Nanos::new(ns) };
        let one = patience(1_000);
        for (ns, is_like) in [(2_000, true), (500, true), (2_001, false), (499, false)] {
            let other = patience(ns);
            assert_eq!((one.is_like(&other), other.is_like(&one)), (is_like, is_like), "{other:?}");
        }
        assert!(!one.is_like(&Patience { price: Nanos::new(501), ..one }));
    }

    // 10 workers, a price of 250 ns, light requests of 1 us. While nothing is queued, 4 in light ones end one within the
    // price. With 10 in queues the price counts twice.
    #[test]
    fn as_many_are_left_as_end_within_the_price() {
        let patience = Patience { price: Nanos::new(250), rest: Nanos::new(500) };
        let left = |light, queued| patience.leaves(light, queued, 10);
        assert_eq!([left(3, 0), left(4, 0), left(8, 0)], [0, 1, 2]);
        assert_eq!([left(1, 10), left(2, 10), left(1, 30), left(0, 99)], [0, 1, 1, 0]);
        assert_eq!(patience.queued(10), 30, "from there on each is left one");
    }
}
