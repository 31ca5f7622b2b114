//! Load shedding, after CoDel: decides which requests end unserved because they have waited too
//! long. `README.md` in this folder explains the rule and its constants.
//!
//! [`WaitBounds`] has the limits, from the setting or from measured service times.
//! [`StandingQueues`] observes which queues are standing queues; old requests are shed from these.
//! Threads and virtual time use both.

mod absence;
mod shedding;
pub mod sources;
mod standing;

pub use absence::Absence;
pub use shedding::{Cause, Shedding, Stay, WaitLimits};
pub use standing::StandingQueues;

use super::estimate::ServiceTimes;
use super::tuning::MaxWait;
use crate::time::Nanos;

/// Limits on the time that requests wait. A *standing queue* (CoDel) is one that only old requests
/// have left for an interval. The comments also say that it *stands*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitBounds {
    /// A request that has waited less than this is young. [`Nanos::MAX`] = every request is.
    pub target: Nanos,
    /// A queue that was recently a standing queue is one again after only old requests have left it
    /// for this long. Zero = every queue is always a standing queue.
    pub interval: Nanos,
    /// A request that has waited this long is shed from a standing queue.
    pub bound: Nanos,
    /// A request that has waited this long is shed from any queue, because its answer would be too
    /// late.
    pub limit: Nanos,
    /// How long clients wait for an answer. A begun request is aborted after this time.
    pub patience: Nanos,
}

/// How long clients are assumed to wait for an answer. Most clients of UDP services resend, or ask
/// another server, after 1 to 5 s.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// The patience is at least this many service times: clients whose requests take seconds expect to
/// wait.
const PATIENCE_SERVICES: u64 = 5;
/// One part in this many of the patience, a tenth, is kept for service and reply, or the expected
/// service time if that is longer.
const REPLY_PART: u64 = 10;
/// A queue first becomes a standing queue after only old requests have left it for half (one part
/// in this many) of the patience. Bursts are shorter, and no client has given up by then.
const ONSET_PART: u64 = 2;
/// The least target, as CoDel has it (RFC 8289, section 4.3).
const TARGET_MIN: Nanos = Nanos::from_millis(5);
/// The least interval, as CoDel has it.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
/// The target, as a multiple of [`ServiceTimes::delay_unit`].
const TARGET_UNITS: u64 = 10;
/// The bound, as a multiple of the target, as in Facebook's CoDel.
const BOUND_TARGETS: u64 = 2;
/// The interval, as a multiple of the target.
const INTERVAL_TARGETS: u64 = 4;
/// After this many yielding requests in a row, the next is assumed to yield too. If one request in
/// twenty is light, 64 in a row all yield with a chance of 1 in 27.
const HEAVY_IN_A_ROW: u32 = 64;
/// Of the requests that are assumed to yield, one in this many begins without a check. About half
/// of these are refused later and waste a first slice, which is short beside a whole service time.
const TRIED: u32 = 16;
/// If no request ends for this many times the mean time between ends, a worker assumes that the
/// queues of continuations do not move.
const UNMOVED: u64 = 4;
/// Least number of measured requests; with fewer, service times count as unknown.
const MEASURED_MIN: u64 = 20;
/// The quantile of service times that [`expected_service`] returns.
const EXPECTED_QUANTILE: f64 = 0.9;

impl WaitLimits {
    /// The limits under `max_wait` before anything is measured.
    pub fn unmeasured(max_wait: MaxWait) -> WaitLimits {
        let bounds = match max_wait {
            MaxWait::Off => WaitBounds::NONE,
            MaxWait::For(bound) => WaitBounds::always(bound, bound),
            // Half of the patience is kept for service, because its length is unknown.
            MaxWait::Auto => {
                let half = Nanos::new(PATIENCE.get() / 2);
                WaitBounds { interval: half, ..WaitBounds::always(half, PATIENCE) }
            }
        };
        WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE }
    }

    /// The limits under `max_wait` for requests with the service times `times`, each of which takes
    /// `beside` outside its handler. After `first_slice`, other fresh requests may go first (`None`
    /// = never). `None` if too few requests were measured.
    pub fn measured(
        max_wait: MaxWait,
        times: &ServiceTimes,
        beside: Nanos,
        first_slice: Option<Nanos>,
    ) -> Option<WaitLimits> {
        let (within, beyond) = match first_slice {
            None => (times.clone(), times.clone()),
            Some(slice) => (times.within(slice), times.only(|took| took > slice)),
        };
        let known = WaitLimits { heavy: beyond.mean(), ..WaitLimits::unmeasured(max_wait) };
        match max_wait {
            MaxWait::Off => Some(WaitLimits::NONE),
            MaxWait::For(_) => Some(known),
            MaxWait::Auto if times.count() < MEASURED_MIN => None,
            MaxWait::Auto => {
                let heavy = if beyond.count() < MEASURED_MIN { times } else { &beyond };
                let [fresh, interrupted] = [&within, heavy].map(|times| WaitBounds::measured(times, beside));
                Some(WaitLimits { fresh, interrupted: interrupted.patient(), ..known })
            }
        }
    }

    /// The limits for a request that has `begun`, or has not.
    pub fn of(&self, begun: bool) -> &WaitBounds {
        if begun { &self.interrupted } else { &self.fresh }
    }
}

impl WaitBounds {
    /// Changes these limits for a request that must begin within `patience` of its arrival.
    pub fn within(self, patience: Nanos) -> WaitBounds {
        WaitBounds { bound: self.bound.min(patience), ..self }
    }

    /// Whether an old request is served all the same: its source is validated, and its answer can
    /// still come in time. So a standing queue sheds requests of unknown sources first.
    pub fn keeps(&self, stay: &Stay, now: Nanos) -> bool {
        stay.validated && stay.wait(now) < self.limit
    }

    /// Limits that shed nothing.
    pub const NONE: WaitBounds = WaitBounds {
        target: Nanos::MAX,
        interval: Nanos::MAX,
        bound: Nanos::MAX,
        limit: Nanos::MAX,
        patience: Nanos::MAX,
    };

    /// Sheds every request that has waited for `limit`, whether or not there is a standing queue.
    pub const fn always(limit: Nanos, patience: Nanos) -> WaitBounds {
        WaitBounds { target: limit, interval: Nanos::ZERO, bound: limit, limit, patience }
    }

    /// The limits of a queue whose requests have the service times `times`, and take `beside`
    /// outside their handlers.
    fn measured(times: &ServiceTimes, beside: Nanos) -> WaitBounds {
        let service = times.quantile(EXPECTED_QUANTILE);
        let patience = PATIENCE.max(service.times(PATIENCE_SERVICES));
        let limit = patience.minus(service.max(Nanos::new(patience.get() / REPLY_PART)));
        let target = times.delay_unit(beside).times(TARGET_UNITS).max(TARGET_MIN).min(limit);
        let interval = target.times(INTERVAL_TARGETS).max(INTERVAL_MIN);
        WaitBounds { target, interval, bound: target.times(BOUND_TARGETS).min(limit), limit, patience }
    }

    /// Changes these limits for continuations. Their wait is predicted, so only those are shed
    /// whose answer would come too late.
    fn patient(self) -> WaitBounds {
        WaitBounds { target: Nanos::new(self.limit.get() / 2), interval: self.onset(), bound: self.limit, ..self }
    }

    /// For how long only old requests must have left a queue before it first becomes a standing
    /// queue.
    fn onset(&self) -> Nanos {
        self.interval.max(Nanos::new(if self.interval == Nanos::ZERO { 0 } else { self.patience.get() / ONSET_PART }))
    }
}

/// The expected service time of a request: the 90th percentile of `times`. `None` if too few were
/// measured.
pub fn expected_service(times: &ServiceTimes) -> Option<Nanos> {
    (times.count() >= MEASURED_MIN).then(|| times.quantile(EXPECTED_QUANTILE))
}

/// The latest time at which a request may begin so that it probably ends before `expires_at`.
/// [`Nanos::MAX`] if it never expires.
///
/// `deadline` is the time from the request's arrival to `expires_at`. `expected` is its expected
/// service time, and `served` the part that it has had. At least half of the deadline is left for
/// waiting, so that requests with short deadlines are still tried and measured.
pub fn latest_start(expires_at: Nanos, deadline: Nanos, expected: Nanos, served: Nanos) -> Nanos {
    let half = Nanos::new(deadline.get() / 2);
    if expires_at == Nanos::MAX { Nanos::MAX } else { expires_at.minus(expected.min(half).minus(served)) }
}

/// Predicts how long a request waits that enters a queue of continuations. Each worker has one, for
/// all these queues together.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeavyQueue {
    /// How many requests in a row yielded before they ended.
    pub(super) in_a_row: u32,
    /// Number of requests that were assumed to yield.
    asked: u32,
    /// The wait for each request ahead in the queue, by Little's law (waiting requests = rate x
    /// wait). An EWMA in which each ended request has weight 1/8.
    each: Nanos,
    /// When a request from the queues last ended, or none waited.
    moved_at: Nanos,
    /// Whether the queues are standing queues. This becomes true, or false again, after the
    /// predicted wait was long, or short, for a whole interval.
    pub(super) stands: bool,
    /// Since when the predicted wait contradicts `stands`, if it does.
    otherwise_since: Option<Nanos>,
}

/// The queues of continuations, as a request finds them that would enter.
#[derive(Clone, Copy, Debug)]
pub struct QueueLoad {
    /// How many others wait there.
    pub waiting: usize,
    /// How many workers serve them.
    pub workers: usize,
    /// Whether there is no room.
    pub crowded: bool,
}

impl HeavyQueue {
    /// Whether the next request is assumed to yield. Some of these are tried anyway, to notice
    /// light requests again.
    #[inline]
    pub fn is_certain(&mut self) -> bool {
        let is_certain = self.in_a_row >= HEAVY_IN_A_ROW;
        self.asked = self.asked.wrapping_add(is_certain.into());
        is_certain && !self.asked.is_multiple_of(TRIED)
    }

    /// Notes the end of a request that waited for `wait` after it first entered a queue, behind
    /// `behind` others.
    #[inline]
    pub fn on_end(&mut self, now: Nanos, wait: Nanos, behind: usize) {
        let each = wait.get() / (behind as u64).max(1);
        let known = if self.each == Nanos::ZERO { each } else { self.each.get() };
        self.each = Nanos::new((known / 8 * 7).saturating_add(each / 8));
        self.moved_at = now;
    }

    /// Whether to refuse a request that has waited for `waited`: the queues stand or are full, and
    /// its predicted wait is `most` or longer. At `now` the queues have this `load`.
    pub fn is_full(
        &mut self,
        now: Nanos,
        load: QueueLoad,
        waited: Nanos,
        most: Nanos,
        absence: &Absence,
        bounds: &WaitBounds,
    ) -> bool {
        let QueueLoad { waiting, workers, crowded } = load;
        let lasted = |since: Nanos| now.minus(since).minus(absence.since(since));
        if waiting == 0 {
            self.moved_at = now;
        }
        // If fresh requests take all the time, no continuation ends, so the time without an end
        // counts. A worker sees only the ends of its own requests, one in `workers`.
        let unmoved = Nanos::new(lasted(self.moved_at).get() / (workers as u64 * UNMOVED));
        let expected = waited.plus(self.each.max(unmoved).times(waiting as u64));
        let is_long = expected >= Nanos::new(bounds.bound.get() / 2);
        let since = (is_long != self.stands).then(|| self.otherwise_since.unwrap_or(now));
        self.otherwise_since = since;
        if since.is_some_and(|since| lasted(since) >= bounds.interval) {
            (self.stands, self.otherwise_since) = (is_long, None);
        }
        (self.stands || crowded) && expected >= most
    }

    /// Whether to abort a begun request that has waited for `wait`.
    pub fn gives_up(&self, wait: Nanos, bounds: &WaitBounds) -> bool {
        wait >= bounds.patience && (self.stands || bounds.interval == Nanos::ZERO)
    }

    /// Notes that the worker has nothing to do, so there is no standing queue.
    pub fn on_rest(&mut self, now: Nanos) {
        (self.stands, self.otherwise_since, self.moved_at) = (false, None, now);
    }
}

#[cfg(test)]
mod tests;
