//! Which worker serves a fresh request that finds none free: one that steps aside for it, or one
//! that is soon free.
//!
//! To step aside has a price: a look finds the request, and the job is queued and resumed. All that
//! wait in queues wait for that time. A request that is left to workers in light ones waits until
//! one of them ends. [`Patience`] weighs one against the other. Far from saturation it leaves
//! nothing. Near saturation, or with many workers in light requests, it leaves most, and the
//! capacity that is left over goes into work.
//!
//! A worker between two requests looks into the sockets anyway. So a heavy request that would leave
//! a fresh one to others does not watch closely ([`Policy::watch`]), and saves the looks. A worker
//! that receives more than it leaves to others asks heavy ones to step aside.
//!
//! Near saturation even that is too dear. To find each light request by a look takes 2 % of TPC-C's
//! time. Capacity is *scarce* while heavy requests wait for as many of their own service times as a
//! light one would if workers looked rarely. Then they do, and no worker asks another to step
//! aside. A free one serves its own socket and then the queues. In overload, heavy requests are
//! refused before so many wait. What looks would take serves some of them.

use super::{Local, Policy};
use crate::sched::estimate::ServiceTimes;
use crate::sched::interface::{View, WorkerId};
use crate::sched::tuning::Tuning;
use crate::time::Nanos;

/// Looks take this part of the CPU time, as its inverse: 3 %.
pub(super) const LOOKS_OF_CPU: u64 = 33;

/// Capacity is scarce once heavy requests wait three quarters as many service times as light ones
/// would. Some of them wait longer than the mean.
const SCARCE: f64 = 0.75;

/// Fewer heavy requests than this for each worker wait together by chance.
const SCARCE_MIN: usize = 3;

/// With fewer workers each looks as rarely as if there were this many: near saturation, looks take
/// the capacity that is left.
const LOOKERS_MIN: usize = 6;

/// The time between two looks of each of `workers` workers, which all together look once in
/// `together`.
pub(super) fn each_looks_after(together: Nanos, workers: usize) -> Nanos {
    together.times(workers.max(LOOKERS_MIN) as u64)
}

/// The time between two looks of workers that watch closely by looks, which take `look` each.
pub fn look_interval(look: Nanos) -> Nanos {
    look.times(LOOKS_OF_CPU)
}

/// When a fresh request is left to workers that are in light ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// What it costs that a job steps aside.
    pub price: Nanos,
    /// How long it takes in the mean until a worker in a light request is free.
    pub rest: Nanos,
    /// Capacity is scarce while so many requests wait in queues.
    pub scarce_from: usize,
}

impl Patience {
    /// The patience where requests take these `times`. A request that has run for less than
    /// `heavy_from` is light. While capacity is scarce, all workers together look once in
    /// `together`.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, together: Nanos, tuning: &Tuning) -> Patience {
        // The mean of what is left of one at a random time is half of the mean square over the
        // mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside).get() / 2).max(1));
        // So many workers are in heavy requests at full load. Each that waits there delays a heavy
        // one by one service time.
        let heavies = tuning.workers as f64 * (1.0 - times.share_within(heavy_from));
        let slowdown = times.only(|took| took <= heavy_from).slowdown_by(each_looks_after(together, tuning.workers));
        let scarce_from = ((heavies * slowdown * SCARCE) as usize).max(SCARCE_MIN * tuning.workers);
        Patience { price: tuning.giving_way_cost(), rest, scarce_from }
    }

    /// A patience of jobs that pay `price`, for which capacity is never scarce.
    #[cfg(test)]
    pub(crate) fn of(price: Nanos, rest: Nanos) -> Patience {
        Patience { price, rest, scarce_from: usize::MAX }
    }

    /// How long a fresh request may wait for a look. It is what the call takes of the time of all
    /// `workers`, and of those that it delays.
    fn may_wait(&self, delayed: usize, workers: usize) -> Nanos {
        self.price.times((workers + delayed) as u64)
    }

    /// How many fresh requests are left to `light` other workers in light requests, of `workers`,
    /// where a call delays so many.
    ///
    /// A job that steps aside takes `price` from its worker, and from all that wait:
    /// `price * (1 + delayed / workers)`. In that time each of the others ends `1 / (2 * rest)`
    /// requests a nanosecond.
    fn leaves(&self, light: usize, delayed: usize, workers: usize) -> usize {
        let [light, delayed, workers] = [light, delayed, workers].map(|count| count as u64);
        let ended = self.price.get().saturating_mul(workers + delayed).saturating_mul(light);
        (ended / self.rest.get().saturating_mul(2 * workers).max(1)) as usize
    }

    /// From how many requests in queues on each of `workers` workers in light requests is left one.
    pub(crate) fn queued(&self, workers: usize) -> u64 {
        let (workers, rest) = (workers as u64, self.rest.get());
        workers.saturating_mul(2 * rest).div_ceil(self.price.get().max(1)).saturating_sub(workers)
    }

    /// Whether `other` differs by no more than noise. Where few requests are heavy, chance makes
    /// `scarce_from` vary by more than a factor of two. Where more has changed, the limits of the
    /// levels have too.
    pub(super) fn is_like(&self, other: &Patience) -> bool {
        self.rest.is_near(other.rest) && self.price.is_near(other.price)
    }
}

impl Policy {
    /// Whether heavy requests wait for so long that workers look rarely, and ask no other to step
    /// aside. To a worker that refuses some of them, they do.
    pub fn is_scarce(&self, local: &Local, view: &impl View) -> bool {
        let from = |patience: Patience| if local.refuses { 1 } else { patience.scarce_from };
        self.patience().is_some_and(|patience| view.queued() >= from(patience))
    }

    /// The worker of `local` does not serve `waiting` fresh requests itself: gives to `flag` the
    /// workers that are to step aside, one for each. They are the next ones in turn that have been
    /// in one job for longer than a light one takes. There are none while capacity is scarce.
    pub fn on_arrivals(&self, view: &impl View, now: Nanos, local: &Local, waiting: usize, flag: impl FnMut(WorkerId)) {
        let Some(heavy_from) = self.heavy_from().filter(|_| !self.is_scarce(local, view)) else { return };
        self.others(local.worker)
            .filter(|other| runs_for(view, *other, now) >= heavy_from && !view.is_parked(*other))
            .take(waiting)
            .for_each(flag);
    }

    /// How many of the fresh requests that wait the worker of `local` leaves to others. These are
    /// awake, in no heavy request, and have no others to begin first. While capacity is scarce they
    /// do not look, and it is none.
    pub fn left_to_others(&self, view: &impl View, now: Nanos, local: &Local) -> usize {
        let (Some(heavy_from), Some(patience)) = (self.heavy_from(), self.patience()) else { return 0 };
        if self.is_scarce(local, view) {
            return 0;
        }
        let worker = local.worker;
        let is_light = |other: &WorkerId| {
            *other != worker && runs_for(view, *other, now) < heavy_from && view.backlog(*other) == 0
        };
        let light = (0..self.topology.workers).filter(is_light).count();
        let awake = light.saturating_sub(view.asleep(self.topology.pool_of(worker)));
        patience.leaves(awake, view.queued(), self.topology.workers)
    }

    /// How long a fresh request may wait until a worker in a heavy one looks.
    pub(super) fn may_wait(&self, view: &impl View) -> Nanos {
        let workers = self.topology.workers;
        self.patience().map_or(Nanos::ZERO, |patience| patience.may_wait(view.queued(), workers))
    }

    /// The workers after `worker`, in turn.
    fn others(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> {
        let workers = self.topology.workers;
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

    // 10 workers, a price of 250 ns, light requests of 1 us. While nothing is queued, 4 in light
    // ones end one within the price. With 10 in queues the price counts twice.
    #[test]
    fn as_many_are_left_as_end_within_the_price() {
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let left = |light, queued| patience.leaves(light, queued, 10);
        assert_eq!([left(3, 0), left(4, 0), left(8, 0)], [0, 1, 2]);
        assert_eq!([left(1, 10), left(2, 10), left(1, 30), left(0, 99)], [0, 1, 1, 0]);
        assert_eq!(patience.queued(10), 30, "from there on each is left one");
    }

    // 10 workers: at full load 4.5 of them are in heavy requests beyond their first 10 us. Each
    // looks once in 100 us, ten times what a light request takes. So it is three quarters of 45.
    // With light ones of 200 us it is the least, three for each worker.
    #[test]
    fn capacity_is_scarce_where_heavy_requests_wait_as_long_as_light_ones_would() {
        let us = Nanos::from_micros;
        let scarce_from = |light: u64| {
            let times = ServiceTimes::new([(us(light), 1_000), (us(10 * light), 100)]);
            Patience::new(&times, us(light), us(10), &Tuning::new(10, us(5))).scarce_from
        };
        assert_eq!([10, 200].map(scarce_from), [33, 30]);
    }
}
