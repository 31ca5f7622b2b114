//! Decides which worker serves a fresh request if none is free: one whose heavy request yields, or
//! one whose light request soon ends.
//!
//! Yielding has a price: the CPU time of a look, and of queueing and resuming the heavy request.
//! All requests in queues wait for that time. If no request yields, the fresh one waits until a
//! light one ends. [`Patience`] weighs these two waits. Far from saturation, heavy requests yield
//! for every fresh one. Near saturation, or if many workers run light requests, most fresh requests
//! are left to workers with light ones. The saved capacity serves requests.
//!
//! A worker between two requests looks into the sockets anyway. So a heavy request that would not
//! yield does not watch closely either ([`Policy::watch`]), and saves the cost of looks. If a
//! worker receives more requests than it serves or leaves to others, it asks heavy requests on
//! other workers to yield.
//!
//! Near saturation even these looks are too expensive: finding each light request by a look takes 2
//! % of the CPU time with the TPC-C mix. Workers could look rarely, but light requests would then
//! wait for some multiple of their service times. Capacity is *scarce* while heavy requests wait
//! for about the same multiple of their own. While it is scarce, workers look rarely, and none asks
//! another to yield. A free worker serves its own socket first, then the queues. Under overload,
//! heavy requests are refused before so many wait. So a worker whose jobs are refused, or find no
//! room in the queues, treats capacity as scarce. The saved time serves some of these requests.

use super::{Local, Policy};
use crate::estimate::ServiceTimes;
use crate::interface::{View, WorkerId};
use crate::time::Nanos;
use crate::tuning::Tuning;

/// Looks take one part in this many of the CPU time: 3 %.
pub(super) const LOOKS_OF_CPU: u64 = 33;

/// With rare looks, light requests would wait for some multiple of their service times. Capacity is
/// scarce once heavy requests wait for this part of the same multiple. The part is below 1, because
/// some heavy requests wait longer than the mean.
const SCARCE: f64 = 0.75;

/// Least number of waiting requests per worker for which capacity is scarce. Fewer wait by chance.
const SCARCE_MIN: usize = 3;

/// A worker of a smaller server looks as rarely as if there were this many workers. Otherwise looks
/// would take the capacity that is left near saturation.
const LOOKERS_MIN: usize = 6;

/// The interval between looks of each worker, if all `workers` together look once in `together`.
pub(super) fn each_looks_after(together: Nanos, workers: usize) -> Nanos {
    together.times(workers.max(LOOKERS_MIN) as u64)
}

/// The interval between looks of a worker that watches closely by looks, if each look takes `look`.
pub fn look_interval(look: Nanos) -> Nanos {
    look.times(LOOKS_OF_CPU)
}

/// When to leave a fresh request to workers that run light ones, rather than preempt a heavy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// CPU time that a preemption costs.
    pub price: Nanos,
    /// Mean time until a worker that runs a light request is free.
    pub rest: Nanos,
    /// Capacity is scarce while at least this many requests wait in queues.
    pub scarce_from: usize,
}

impl Patience {
    /// The patience for requests with these `times`. A request that has run for less than
    /// `heavy_from` is light. While capacity is scarce, all workers together look once in
    /// `together`.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, together: Nanos, tuning: &Tuning) -> Patience {
        // At a random time, the mean remaining time of a request is E[S²] / E[S] / 2.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside).get() / 2).max(1));
        // At full load `heavies` workers run heavy requests. For each of them, a waiting heavy
        // request delays the others by one service time.
        let workers = tuning.working(tuning.measured.as_ref());
        let heavies = workers as f64 * (1.0 - times.share_within(heavy_from));
        let slowdown = times.only(|took| took <= heavy_from).slowdown_by(each_looks_after(together, workers));
        let scarce_from = ((heavies * slowdown * SCARCE) as usize).max(SCARCE_MIN * workers);
        Patience { price: tuning.giving_way_cost(), rest, scarce_from }
    }

    /// A patience with this `price`, for which capacity is never scarce.
    pub fn of(price: Nanos, rest: Nanos) -> Patience {
        Patience { price, rest, scarce_from: usize::MAX }
    }

    /// How long a fresh request may wait for a look. It is the sum of the delays that a preemption
    /// would cause to all `workers` and to the `delayed` requests.
    fn may_wait(&self, delayed: usize, workers: usize) -> Nanos {
        self.price.times((workers + delayed) as u64)
    }

    /// How many fresh requests to leave to other workers. Of `workers` workers, `light` others run
    /// light requests; a preemption would delay `delayed` requests.
    ///
    /// A preemption costs `price` once, and delays each waiting request: in total `price * (1 +
    /// delayed / workers)`. In this time, each of the `light` workers ends light requests at a rate
    /// of `1 / (2 * rest)`.
    fn leaves(&self, light: usize, delayed: usize, workers: usize) -> usize {
        let [light, delayed, workers] = [light, delayed, workers].map(|count| count as u64);
        let ended = self.price.get().saturating_mul(workers + delayed).saturating_mul(light);
        (ended / self.rest.get().saturating_mul(2 * workers).max(1)) as usize
    }

    /// If at least this many requests are queued, one fresh request is left to each worker that
    /// runs a light one.
    pub(crate) fn queued(&self, workers: usize) -> u64 {
        let (workers, rest) = (workers as u64, self.rest.get());
        workers.saturating_mul(2 * rest).div_ceil(self.price.get().max(1)).saturating_sub(workers)
    }

    /// Whether `other` differs by noise only. `scarce_from` is not compared: if few requests are
    /// heavy, chance changes it by more than a factor of two. A real change also shows in the
    /// levels' limits.
    pub(super) fn is_like(&self, other: &Patience) -> bool {
        self.rest.is_near(other.rest) && self.price.is_near(other.price)
    }
}

impl Policy {
    /// Whether capacity is scarce: so many requests wait in queues that workers look rarely and ask
    /// no other to yield. For a worker whose jobs find no room in the queues, one waiting request
    /// is enough.
    pub fn is_scarce(&self, local: &Local, view: &impl View) -> bool {
        let from = |patience: Patience| if local.crowded { 1 } else { patience.scarce_from };
        self.patience().is_some_and(|patience| view.queued() >= from(patience))
    }

    /// Asks other workers to yield, by passing them to `flag`, for `waiting` fresh requests that
    /// the worker of `local` does not serve itself. It asks one worker for each request: the next
    /// in turn whose job has run longer than light ones do. While capacity is scarce it asks none.
    pub fn on_arrivals(&self, view: &impl View, now: Nanos, local: &Local, waiting: usize, flag: impl FnMut(WorkerId)) {
        let Some(heavy_from) = self.heavy_from().filter(|_| !self.is_scarce(local, view)) else { return };
        self.others(local.worker)
            .filter(|other| runs_for(view, *other, now) >= heavy_from && !view.is_parked(*other))
            .take(waiting)
            .for_each(flag);
    }

    /// How many of the waiting fresh requests the worker of `local` leaves to other workers. It
    /// counts on workers that are awake, run light requests and have empty deques. While capacity
    /// is scarce, workers rarely look, so it leaves none.
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

    /// How long a fresh request may wait until a worker that runs a heavy one looks.
    pub(super) fn may_wait(&self, view: &impl View) -> Nanos {
        let workers = self.topology.workers;
        self.patience().map_or(Nanos::ZERO, |patience| patience.may_wait(view.queued(), workers))
    }

    /// All workers except `worker`, in ascending order from the next one on, and then from 0.
    fn others(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> {
        let workers = self.topology.workers;
        (1..workers).map(move |offset| (worker + offset) % workers)
    }
}

/// How long `worker` has been in its current job.
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

    // 10 workers, a price of 250 ns, light requests of 1 us. With empty queues, 4 workers that run
    // light requests end one within the price. With 10 queued requests, the price counts twice.
    #[test]
    fn as_many_are_left_as_end_within_the_price() {
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let left = |light, queued| patience.leaves(light, queued, 10);
        assert_eq!([left(3, 0), left(4, 0), left(8, 0)], [0, 1, 2]);
        assert_eq!([left(1, 10), left(2, 10), left(1, 30), left(0, 99)], [0, 1, 1, 0]);
        assert_eq!(patience.queued(10), 30, "from there on each is left one");
    }

    // At full load, 4.5 of 10 workers run heavy requests beyond their first 10 us. Each worker
    // looks once in 100 us, ten times a light request. So `scarce_from` is three quarters of 45.
    // With light requests of 200 us it is the minimum, three per worker.
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
