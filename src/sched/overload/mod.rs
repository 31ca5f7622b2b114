//! When a request has waited for too long, after CoDel: `README.md` beside this file argues the
//! rule and its numbers.
//!
//! [`WaitBounds`] are numbers, from a setting and from measured service times. [`StandingQueues`]
//! is what a worker sees: whether a queue stands, so that what is old in it is shed. Threads and
//! virtual time use both.

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

/// Bounds on the time that requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitBounds {
    /// What has waited for less is young. [`Nanos::MAX`] = everything is.
    pub target: Nanos,
    /// A queue that has stood of late stands again once nothing young has left it for this long;
    /// zero = it always does.
    pub interval: Nanos,
    /// What has waited for this long in a queue that stands is shed.
    pub bound: Nanos,
    /// What has waited for this long is shed from any queue: the answer would come too late.
    pub limit: Nanos,
    /// How long clients wait. A request that has begun is broken off after so much.
    pub patience: Nanos,
}

/// How long clients wait, as far as is known. Most clients of UDP services repeat a request, or ask
/// another server, after 1 to 5 s.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// The least patience, in service times: where requests take seconds, their clients know that.
const PATIENCE_SERVICES: u64 = 5;
/// The part of the patience that is left for service and reply at least, as its inverse.
const REPLY_PART: u64 = 10;
/// A queue stands, for the first time, once nothing young has left it for this part of the
/// patience, as its inverse. Bursts are shorter, and no client has left by then.
const ONSET_PART: u64 = 2;
/// The least target: that of CoDel (RFC 8289, section 4.3).
const TARGET_MIN: Nanos = Nanos::from_millis(5);
/// The least interval: that of CoDel.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
/// The target in units of [`ServiceTimes::delay_unit`].
const TARGET_UNITS: u64 = 10;
/// The bound in targets, as in Facebook's CoDel.
const BOUND_TARGETS: u64 = 2;
/// The interval in targets.
const INTERVAL_TARGETS: u64 = 4;
/// Requests in a row that stepped aside, from which on the next is taken to. Where one in twenty is
/// light, a row of this length is one in 27.
const HEAVY_IN_A_ROW: u32 = 64;
/// Of requests that are taken to step aside, one in so many is tried. Its first slice is lost as
/// often as not, which is little beside the service of one.
const TRIED: u32 = 16;
/// Mean times between two ends that a worker sees, after which nothing is taken to end any more.
const UNMOVED: u64 = 4;
/// Measured requests below which nothing is known.
const MEASURED_MIN: u64 = 20;
/// The share of requests that take no longer than [`expected_service`].
const EXPECTED_QUANTILE: f64 = 0.9;

impl WaitLimits {
    /// The limits under `max_wait` until something is measured.
    pub fn unmeasured(max_wait: MaxWait) -> WaitLimits {
        let bounds = match max_wait {
            MaxWait::Off => WaitBounds::NONE,
            MaxWait::For(bound) => WaitBounds::always(bound, bound),
            // Half of the time is for a service of which nothing is known.
            MaxWait::Auto => {
                let half = Nanos::new(PATIENCE.get() / 2);
                WaitBounds { interval: half, ..WaitBounds::always(half, PATIENCE) }
            }
        };
        WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE }
    }

    /// The bounds of `max_wait`, where requests took `times`, and each of them `beside` for its way
    /// in and out. Within `first_slice`, a request could go before other fresh ones (`None` = for
    /// all its time). `None` where too few were measured to tell.
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

    /// The bounds for a request, which has `begun` or not.
    pub fn of(&self, begun: bool) -> &WaitBounds {
        if begun { &self.interrupted } else { &self.fresh }
    }
}

impl WaitBounds {
    /// The same for a request that must begin within `patience` of its arrival.
    pub fn within(self, patience: Nanos) -> WaitBounds {
        WaitBounds { bound: self.bound.min(patience), ..self }
    }

    /// No bounds.
    pub const NONE: WaitBounds = WaitBounds {
        target: Nanos::MAX,
        interval: Nanos::MAX,
        bound: Nanos::MAX,
        limit: Nanos::MAX,
        patience: Nanos::MAX,
    };

    /// What has waited for `limit` is shed, whatever else waits.
    pub const fn always(limit: Nanos, patience: Nanos) -> WaitBounds {
        WaitBounds { target: limit, interval: Nanos::ZERO, bound: limit, limit, patience }
    }

    /// The bounds for a queue whose requests take `times`, and each of them `beside` for its way in
    /// and out.
    fn measured(times: &ServiceTimes, beside: Nanos) -> WaitBounds {
        let service = times.quantile(EXPECTED_QUANTILE);
        let patience = PATIENCE.max(service.times(PATIENCE_SERVICES));
        let limit = patience.minus(service.max(Nanos::new(patience.get() / REPLY_PART)));
        let target = times.delay_unit(beside).times(TARGET_UNITS).max(TARGET_MIN).min(limit);
        let interval = target.times(INTERVAL_TARGETS).max(INTERVAL_MIN);
        WaitBounds { target, interval, bound: target.times(BOUND_TARGETS).min(limit), limit, patience }
    }

    /// The same for requests whose wait is known beforehand: there is no reason to shed what would
    /// be answered in time.
    fn patient(self) -> WaitBounds {
        WaitBounds { target: Nanos::new(self.limit.get() / 2), interval: self.onset(), bound: self.limit, ..self }
    }

    /// A queue stands, for the first time, once nothing young has left it for this long.
    fn onset(&self) -> Nanos {
        self.interval.max(Nanos::new(if self.interval == Nanos::ZERO { 0 } else { self.patience.get() / ONSET_PART }))
    }
}

/// The service time to expect of a request, where requests took `times`: a high quantile. `None`
/// where too few were measured to tell.
pub fn expected_service(times: &ServiceTimes) -> Option<Nanos> {
    (times.count() >= MEASURED_MIN).then(|| times.quantile(EXPECTED_QUANTILE))
}

/// The latest time at which a request may begin, so that it is likely to end before `expires_at`.
/// [`Nanos::MAX`] if it never expires.
///
/// `deadline` is the time from its arrival to `expires_at`. `expected` is its service time, of
/// which it has had `served`. However long that is, half of the deadline is left for waiting. So
/// requests with short deadlines are tried, and measured.
pub fn latest_start(expires_at: Nanos, deadline: Nanos, expected: Nanos, served: Nanos) -> Nanos {
    let half = Nanos::new(deadline.get() / 2);
    if expires_at == Nanos::MAX { Nanos::MAX } else { expires_at.minus(expected.min(half).minus(served)) }
}

/// The queues of continuations together, as one worker sees them: how long a request that goes into
/// them will wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeavyQueue {
    /// Requests in a row that stepped aside before they ended.
    pub(super) in_a_row: u32,
    /// Requests that were taken to step aside.
    asked: u32,
    /// The wait for each request in front (Little's law: waiting requests = their rate x their
    /// wait). An EWMA, in which each end has the weight of an eighth.
    each: Nanos,
    /// When such a request last ended, or none waited.
    moved_at: Nanos,
    /// Whether the queues stand: the wait to expect was long for an interval, and has not been
    /// short for one since.
    pub(super) stands: bool,
    /// Since when the wait to expect says otherwise, if it does.
    otherwise_since: Option<Nanos>,
}

impl HeavyQueue {
    /// Whether the next request is as good as known to step aside. One in some begins all the same:
    /// where light ones come again, it tells.
    #[inline]
    pub fn is_certain(&mut self) -> bool {
        let is_certain = self.in_a_row >= HEAVY_IN_A_ROW;
        self.asked = self.asked.wrapping_add(is_certain.into());
        is_certain && !self.asked.is_multiple_of(TRIED)
    }

    /// Notes that a request ends which waited for `wait` since it first went into a queue, where
    /// `behind` others were.
    #[inline]
    pub fn on_end(&mut self, now: Nanos, wait: Nanos, behind: usize) {
        let each = wait.get() / (behind as u64).max(1);
        let known = if self.each == Nanos::ZERO { each } else { self.each.get() };
        self.each = Nanos::new((known / 8 * 7).saturating_add(each / 8));
        self.moved_at = now;
    }

    /// Whether a request that has waited for `waited` would wait for `most` or longer. At `now`,
    /// `waiting` others are in the queues, which `workers` serve, and which are `crowded` if they
    /// have no room.
    pub fn is_full(
        &mut self,
        now: Nanos,
        (waiting, workers, crowded): (usize, usize, bool),
        waited: Nanos,
        most: Nanos,
        (absence, bounds): (&Absence, &WaitBounds),
    ) -> bool {
        let lasted = |since: Nanos| now.minus(since).minus(absence.since(since));
        if waiting == 0 {
            self.moved_at = now;
        }
        // Where fresh requests take all the time, none of these ends. This worker sees the end of
        // one in `workers`.
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

    /// Whether a request that has begun and waited for `wait` is to be broken off.
    pub fn gives_up(&self, wait: Nanos, bounds: &WaitBounds) -> bool {
        wait >= bounds.patience && (self.stands || bounds.interval == Nanos::ZERO)
    }

    /// Notes that the worker has nothing to do: the queues do not stand.
    pub fn on_rest(&mut self, now: Nanos) {
        (self.stands, self.otherwise_since, self.moved_at) = (false, None, now);
    }
}

#[cfg(test)]
mod tests;
