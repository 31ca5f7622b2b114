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
//!
//! All of this is paid out of idle time. What giving way costs is a debt, and each idle time makes up for a part of it. A
//! debt is work for which all requests wait. So it counts as heavy requests that wait, beside those in queues. As it grows,
//! more fresh requests are left to others, and each look finds more of them.

use super::estimate::ServiceTimes;
use super::{Looked, Policy, Tuning, View, WorkerId};
use crate::time::Nanos;

/// A debt as long as three heavy requests counts as one that waits. Idle time makes up for most of it before they wait for
/// it. With one in place of three, p99.9 rises by a fifth where the costs are a lognormal. Without the debt, it is three
/// times as high on 64 workers (TPC-C at .95).
const OWED: u64 = 3;

/// The debt counts as this many requests for each worker at most. Then workers look as rarely as they ever do.
const OWED_MAX: u64 = 16;

/// Looks take this part of the CPU time, as its inverse: 3 %.
pub(super) const LOOKS_OF_CPU: u64 = 33;

/// The time between two looks of workers that watch closely by looks, which take `look` each.
pub fn look_interval(look: Nanos) -> Nanos {
    look.times(LOOKS_OF_CPU)
}

/// When a fresh request is left to workers that are in light ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// What it costs that a job steps aside.
    pub price: Nanos,
    /// What a notice of the kernel costs besides.
    pub notice: Nanos,
    /// How long it takes in the mean until a worker in a light request is free.
    pub rest: Nanos,
    /// The debt that counts as one request that waits.
    pub owed: Nanos,
}

impl Patience {
    /// The patience where requests take these `times`. A request that has run for less than `heavy_from` is light.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, tuning: &Tuning) -> Patience {
        // The mean of what is left of one at a random time is half of the mean square over the mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside()).get() / 2).max(1));
        let heavy = times.beyond(heavy_from).with_beside(Nanos::ZERO).mean().max(heavy_from);
        let owed = heavy.times(OWED);
        Patience { price: tuning.giving_way_cost(), notice: tuning.notice_cost, rest, owed }
    }

    /// A patience of jobs that pay `price`, and nothing for notices. A debt of 100 us counts as one request.
    #[cfg(test)]
    pub(crate) fn of(price: Nanos, rest: Nanos) -> Patience {
        Patience { price, notice: Nanos::ZERO, rest, owed: Nanos::from_micros(100) }
    }

    /// What it costs that a job steps aside after this look, or because another worker asks.
    fn cost(&self, looked: Option<Looked>) -> Nanos {
        let noticed = looked.is_some_and(|looked| looked.by_kernel);
        if noticed { self.price.plus(self.notice) } else { self.price }
    }

    /// How many requests wait for what a call takes of the workers' time, with this debt.
    fn delayed(&self, queued: usize, debt: Nanos) -> usize {
        queued + (debt.get() / self.owed.get()) as usize
    }

    /// How long a fresh request may wait for a look. It is what the call takes of the time of all `workers`, and of those
    /// that it delays.
    fn may_wait(&self, delayed: usize, workers: usize) -> Nanos {
        self.price.times((workers + delayed) as u64)
    }

    /// How many fresh requests are left to `light` other workers in light requests, of `workers`, where a call delays so
    /// many.
    ///
    /// A job that steps aside takes `price` from its worker, and from all that wait: `price * (1 + delayed / workers)`. In
    /// that time each of the others ends `1 / (2 * rest)` requests a nanosecond.
    fn leaves(&self, light: usize, delayed: usize, workers: usize) -> usize {
        let [light, delayed, workers] = [light, delayed, workers].map(|count| count as u64);
        let ended = self.price.get().saturating_mul(workers + delayed).saturating_mul(light);
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
        let is_light = |other: &WorkerId| {
            *other != worker && runs_for(view, *other, now) < heavy_from && view.backlog(*other) == 0
        };
        let light = (0..self.topology().workers()).filter(is_light).count();
        let awake = light.saturating_sub(view.asleep(self.topology().pool_of(worker)));
        patience.leaves(awake, patience.delayed(view.queued(), view.debt()), self.topology().workers())
    }

    /// How long a fresh request may wait until a worker in a heavy one looks.
    pub(super) fn may_wait(&self, view: &impl View) -> Nanos {
        self.patience().map_or(Nanos::ZERO, |patience| {
            patience.may_wait(patience.delayed(view.queued(), view.debt()), self.topology().workers())
        })
    }

    /// What a job adds to the debt that is called to step aside.
    pub(super) fn cost_of_call(&self, view: &impl View, looked: Option<Looked>) -> Nanos {
        let workers = self.topology().workers() as u64;
        let owes = |patience: &Patience| view.debt() < patience.owed.times(OWED_MAX * workers);
        self.patience().filter(owes).map_or(Nanos::ZERO, |patience| patience.cost(looked))
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
        let patience = |ns: u64| Patience::of(Nanos::new(250), Nanos::new(ns));
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
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let left = |light, queued| patience.leaves(light, queued, 10);
        assert_eq!([left(3, 0), left(4, 0), left(8, 0)], [0, 1, 2]);
        assert_eq!([left(1, 10), left(2, 10), left(1, 30), left(0, 99)], [0, 1, 1, 0]);
        assert_eq!(patience.queued(10), 30, "from there on each is left one");
    }

    // A debt of 300 us counts as three requests that wait, beside five in queues.
    #[test]
    fn a_debt_counts_as_requests_that_wait() {
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let delayed = |debt_us| patience.delayed(5, Nanos::from_micros(debt_us));
        assert_eq!([0, 99, 100, 300].map(delayed), [5, 5, 6, 8]);
        assert_eq!([(0, 2), (8, 2)].map(|(delayed, n)| patience.may_wait(delayed, n).get()), [500, 2_500]);
    }

    #[test]
    fn a_call_costs_its_price() {
        let us = Nanos::from_micros;
        let patience = Patience { notice: us(5), ..Patience::of(us(1), us(1)) };
        let looked = |by_kernel| Some(Looked { waiting: 1, by_kernel });
        assert_eq!([None, looked(false), looked(true)].map(|looked| patience.cost(looked)), [us(1), us(1), us(6)]);
    }
}
