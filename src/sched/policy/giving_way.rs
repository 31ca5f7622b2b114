//! Decides who serves a fresh request that finds no free worker: one that yields for it, or one
//! that is soon free.
//!
//! Yielding has a price: a look finds the request, and the job is queued and resumed. All requests
//! in queues wait for that time. A request left to workers with light requests waits until one of
//! them ends. [`Patience`] weighs the two. Far from saturation it leaves none. Near saturation, or
//! with many workers in light requests, it leaves most, and the capacity saved goes into work.
//!
//! A worker between two requests looks into the sockets anyway. So a heavy request that would leave
//! a fresh one to others does not watch closely ([`Policy::watch`]), and saves the looks. A worker
//! that receives more than it leaves to others asks heavy requests to yield.
//!
//! Near saturation even that is too expensive: finding each light request by a look takes 2 % of
//! TPC-C's time. Capacity is *scarce* while heavy requests wait for as many of their own service
//! times as a light one would if workers looked rarely. Then workers do look rarely, and none asks
//! another to yield. A free worker serves its own socket first, then the queues. Under overload,
//! heavy requests are refused before so many wait, and the time saved serves some of them.

use super::{Local, Policy};
use crate::sched::estimate::ServiceTimes;
use crate::sched::interface::{View, WorkerId};
use crate::sched::tuning::Tuning;
use crate::time::Nanos;

/// Looks take one part in this many of the CPU time: 3 %.
pub(super) const LOOKS_OF_CPU: u64 = 33;

/// The part of the wait of light requests, in service times, at which heavy requests make capacity
/// scarce. Below 1, because some heavy requests wait longer than the mean.
const SCARCE: f64 = 0.75;

/// Fewer waiting heavy requests per worker than this occur by chance.
const SCARCE_MIN: usize = 3;

/// Servers with fewer workers than this look as rarely as with this many. Near saturation, looks
/// would take the capacity that is left.
const LOOKERS_MIN: usize = 6;

/// The interval of looks for each of `workers` workers that together look once in `together`.
pub(super) fn each_looks_after(together: Nanos, workers: usize) -> Nanos {
    together.times(workers.max(LOOKERS_MIN) as u64)
}

/// The interval of looks for workers that watch closely by looks, each of which takes `look`.
pub fn look_interval(look: Nanos) -> Nanos {
    look.times(LOOKS_OF_CPU)
}

/// When to leave a fresh request to workers that run light ones, rather than preempt a heavy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// CPU time that a preemption costs.
    pub price: Nanos,
    /// Mean time until a worker in a light request is free.
    pub rest: Nanos,
    /// Capacity is scarce while at least this many requests wait in queues.
    pub scarce_from: usize,
}

impl Patience {
    /// The patience for requests with these `times`. A request that has run for less than
    /// `heavy_from` is light. While capacity is scarce, all workers together look once in
    /// `together`.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, together: Nanos, tuning: &Tuning) -> Patience {
        // The mean rest at a random time is half of the mean square over the mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside).get() / 2).max(1));
        // At full load this many workers run heavy requests. Each heavy request waiting there
        // delays another by one service time.
        let workers = tuning.working(tuning.measured.as_ref());
        let heavies = workers as f64 * (1.0 - times.share_within(heavy_from));
        let slowdown = times.only(|took| took <= heavy_from).slowdown_by(each_looks_after(together, workers));
        let scarce_from = ((heavies * slowdown * SCARCE) as usize).max(SCARCE_MIN * workers);
        Patience { price: tuning.giving_way_cost(), rest, scarce_from }
    }

    /// A patience with this `price`, for which capacity is never scarce.
    #[cfg(test)]
    pub(crate) fn of(price: Nanos, rest: Nanos) -> Patience {
        Patience { price, rest, scarce_from: usize::MAX }
    }

    /// How long a fresh request may wait for a look: what a preemption takes of the time of all
    /// `workers`, and of the `delayed` requests.
    fn may_wait(&self, delayed: usize, workers: usize) -> Nanos {
        self.price.times((workers + delayed) as u64)
    }

    /// How many fresh requests to leave to `light` other workers, of `workers`, that run light
    /// ones, if a preemption delays `delayed` requests.
    ///
    /// A preemption takes `price` from its worker and from all that wait: `price * (1 + delayed /
    /// workers)`. In that time each of the other workers ends `1 / (2 * rest)` requests a
    /// nanosecond.
    fn leaves(&self, light: usize, delayed: usize, workers: usize) -> usize {
        let [light, delayed, workers] = [light, delayed, workers].map(|count| count as u64);
        let ended = self.price.get().saturating_mul(workers + delayed).saturating_mul(light);
        (ended / self.rest.get().saturating_mul(2 * workers).max(1)) as usize
    }

    /// The number of queued requests from which on each of `workers` workers in light requests gets
    /// one left to it.
    pub(crate) fn queued(&self, workers: usize) -> u64 {
        let (workers, rest) = (workers as u64, self.rest.get());
        workers.saturating_mul(2 * rest).div_ceil(self.price.get().max(1)).saturating_sub(workers)
    }

    /// Whether `other` differs by noise only. `scarce_from` is left out: if few requests are heavy,
    /// chance changes it by more than a factor of two. Larger changes also show in the levels'
    /// limits.
    pub(super) fn is_like(&self, other: &Patience) -> bool {
        self.rest.is_near(other.rest) && self.price.is_near(other.price)
    }
}

impl Policy {
    /// Whether capacity is scarce: heavy requests wait so long that workers look rarely and ask no
    /// other to yield. Always true while any waits for a worker whose jobs find no room.
    pub fn is_scarce(&self, local: &Local, view: &impl View) -> bool {
        local.crowded && self.gives_way().is_some() && view.queued() > 0
            || self.patience().is_some_and(|patience| view.queued() >= patience.scarce_from)
    }

    /// Asks workers to yield, by passing them to `flag`, for the `waiting` fresh requests that the
    /// worker of `local` does not serve itself. It asks one worker per request: the next in turn
    /// whose jobs run longer than light ones do. None while capacity is scarce.
    pub fn on_arrivals(&self, view: &impl View, now: Nanos, local: &Local, waiting: usize, flag: impl FnMut(WorkerId)) {
        let Some(heavy_from) = self.heavy_from().filter(|_| !self.is_scarce(local, view)) else { return };
        self.others(local.worker)
            .filter(|other| runs_for(view, *other, now) >= heavy_from && !view.is_parked(*other))
            .take(waiting)
            .for_each(flag);
    }

    /// How many of the waiting fresh requests the worker of `local` leaves to other workers. Those
    /// are awake, run light requests and have empty deques. While capacity is scarce they rarely
    /// look, so it leaves none.
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

    /// All workers except `worker`, in ascending order from the next, cyclically.
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

    // 10 workers, a price of 250 ns, light requests of 1 us. With empty queues, 4 workers in light
    // requests end one within the price. With 10 queued, the price counts twice.
    #[test]
    fn as_many_are_left_as_end_within_the_price() {
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let left = |light, queued| patience.leaves(light, queued, 10);
        assert_eq!([left(3, 0), left(4, 0), left(8, 0)], [0, 1, 2]);
        assert_eq!([left(1, 10), left(2, 10), left(1, 30), left(0, 99)], [0, 1, 1, 0]);
        assert_eq!(patience.queued(10), 30, "from there on each is left one");
    }

    // 10 workers: at full load 4.5 of them run heavy requests beyond their first 10 us. Each looks
    // once in 100 us, ten times a light request. So it is three quarters of 45. With light requests
    // of 200 us it is the minimum, three per worker.
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
