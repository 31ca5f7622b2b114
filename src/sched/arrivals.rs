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
//! All of this is paid out of idle time. What giving way costs is a debt, and each idle time makes up for a part of it. As
//! the debt grows, workers first stop to ask others, and then to watch closely, one after the other. So giving way takes no
//! capacity that requests need, however close the load is to it.

use super::estimate::ServiceTimes;
use super::pace::LOOKS_PER_NOTICE;
use super::{Looked, Policy, Tuning, View, Watch, WorkerId};
use crate::time::Nanos;

/// An idle time makes up for this many times its length of giving way. Then at most three quarters of the time that serving
/// leaves go into giving way. More, and heavy requests wait several times as long; less, and light ones wait at loads that
/// have time to spare.
const REPAID: u64 = 3;

/// The debt of each worker, unscaled, from which on none watches closely. It lasts through bursts, and delays the requests
/// that come at saturation by no more than this.
pub(super) const DEBT_MAX: Nanos = Nanos::from_millis(10);

/// What is left of `debt` after a worker has been idle for this time.
pub fn repaid(debt: Nanos, idle: Nanos) -> Nanos {
    debt.minus(idle.times(REPAID))
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
    /// The debt of each worker from which on none watches closely.
    pub debt_max: Nanos,
}

impl Patience {
    /// The patience where requests take these `times`. A request that has run for less than `heavy_from` is light.
    pub fn new(times: &ServiceTimes, heavy_from: Nanos, tuning: &Tuning) -> Patience {
        // The mean of what is left of one at a random time is half of the mean square over the mean.
        let rest = Nanos::new((times.within(heavy_from).delay_unit(times.beside()).get() / 2).max(1));
        let notice = tuning.look_cost.times(LOOKS_PER_NOTICE);
        Patience { price: tuning.giving_way_cost(), notice, rest, debt_max: tuning.scaled(DEBT_MAX) }
    }

    /// A patience of jobs that pay `price`, and nothing for notices.
    #[cfg(test)]
    pub(crate) fn of(price: Nanos, rest: Nanos) -> Patience {
        Patience { price, notice: Nanos::ZERO, rest, debt_max: DEBT_MAX }
    }

    /// What it costs that a job steps aside after this look, or because another worker asks.
    fn cost(&self, looked: Option<Looked>) -> Nanos {
        let noticed = looked.is_some_and(|looked| looked.by_kernel);
        if noticed { self.price.plus(self.notice) } else { self.price }
    }

    /// Whether number `worker` of `workers` may watch closely under this debt: the lower its number, the longer.
    fn lets_watch(&self, debt: Nanos, worker: WorkerId, workers: usize) -> bool {
        debt.times(2) < self.debt_max.times((2 * workers - worker.min(workers)) as u64)
    }

    /// Whether workers may ask others to step aside under this debt.
    fn lets_ask(&self, debt: Nanos, workers: usize) -> bool {
        debt.times(2) < self.debt_max.times(workers as u64)
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
        if self.patience().is_some_and(|patience| !patience.lets_ask(view.debt(), self.topology().workers())) {
            return;
        }
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
        patience.leaves(awake, view.queued(), self.topology().workers())
    }

    /// Whether `worker` may watch closely: what that costs has been made up for.
    pub(super) fn lets_watch(&self, view: &impl View, worker: WorkerId) -> bool {
        let lets = |patience: Patience| patience.lets_watch(view.debt(), worker, self.topology().workers());
        self.patience().is_none_or(lets)
    }

    /// What a job adds to the debt that is called to step aside, having watched as closely as `watch` says.
    pub(super) fn cost_of_call(&self, watch: Watch, looked: Option<Looked>, flagged: bool) -> Nanos {
        let pays = flagged || watch == Watch::Closely;
        self.patience().filter(|_| pays).map_or(Nanos::ZERO, |patience| patience.cost(looked))
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

    // Four workers with a debt of 10 ms each. Asking ends at half of it. Of those that watch the last goes first, at five
    // eighths, and the first one at all of it.
    #[test]
    fn a_debt_ends_asking_and_then_watching() {
        let patience = Patience::of(Nanos::new(250), Nanos::new(500));
        let may = |debt_us: u64| {
            let debt = Nanos::from_micros(debt_us);
            let watch = (0..4).filter(|worker| patience.lets_watch(debt, *worker, 4)).count();
            (patience.lets_ask(debt, 4), watch)
        };
        assert_eq!([may(0), may(19_999)], [(true, 4); 2]);
        assert_eq!(
            [20_000, 24_999, 25_000, 30_000, 35_000, 39_999, 40_000].map(may),
            [4, 4, 3, 2, 1, 1, 0].map(|n| (false, n))
        );
    }

    #[test]
    fn a_call_costs_its_price_and_idle_time_makes_up_for_it() {
        let us = Nanos::from_micros;
        let patience = Patience { notice: us(5), ..Patience::of(us(1), us(1)) };
        let looked = |by_kernel| Some(Looked { waiting: 1, by_kernel });
        assert_eq!([None, looked(false), looked(true)].map(|looked| patience.cost(looked)), [us(1), us(1), us(6)]);
        assert_eq!([repaid(us(10), us(2)), repaid(us(10), us(4))], [us(4), Nanos::ZERO]);
    }
}
