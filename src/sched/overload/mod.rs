//! When a request has waited for too long, after CoDel: `README.md` beside this file argues the
//! rule and its numbers.
//!
//! [`WaitBounds`] are numbers, from a setting and from measured service times. [`StandingQueues`]
//! is what a worker sees: whether a queue stands, so that what is old in it is shed. Threads and
//! virtual time use both.

mod shedding;
pub mod sources;

pub use shedding::{Cause, Shedding, Stay, WaitLimits, expected_by_class};

use super::estimate::ServiceTimes;
use crate::time::{DURATION_FORM, DurationError, Nanos, SharedTimes, parse_duration};
use std::fmt;
use std::str::FromStr;

/// How long requests may wait before they are shed: `--max-wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MaxWait {
    /// As measured, and only while a queue stands.
    Auto,
    /// For ever.
    Off,
    /// This long, always. Above zero.
    For(Nanos),
}

/// Bounds on the time that requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitBounds {
    /// What has waited for less is young. [`Nanos::MAX`] = everything is.
    pub target: Nanos,
    /// A queue stands once nothing young has left it for this long; zero = it always does.
    pub interval: Nanos,
    /// What has waited for this long in a queue that stands is shed.
    pub bound: Nanos,
}

/// The bounds of both kinds of queues: what is served from them takes different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// For requests that have not begun.
    pub fresh: WaitBounds,
    /// For requests that stepped aside.
    pub interrupted: WaitBounds,
    /// Service of a request that stepped aside, in the mean; zero where that is not known.
    pub heavy: Nanos,
}

/// The range of [`MaxWait::For`].
const FOR_MIN: Nanos = Nanos::from_micros(1);
const FOR_MAX: Nanos = Nanos::from_secs(3_600);
/// The least target: that of CoDel (RFC 8289, section 4.3), which is also long for a pause of the
/// host.
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
/// Mean times between two ends that a worker sees, after which nothing is taken to end any more.
const UNMOVED: u64 = 4;
/// Measured requests below which nothing is known.
const MEASURED_MIN: u64 = 20;
/// The share of requests that take no longer than [`expected_service`].
const EXPECTED_QUANTILE: f64 = 0.9;

impl FromStr for MaxWait {
    type Err = String;

    /// `auto`, `off`, or a duration of 1 us to 1 h.
    fn from_str(text: &str) -> Result<MaxWait, String> {
        match text {
            "auto" => Ok(MaxWait::Auto),
            "off" => Ok(MaxWait::Off),
            _ => match parse_duration(text) {
                Ok(bound) if (FOR_MIN..=FOR_MAX).contains(&bound) => Ok(MaxWait::For(bound)),
                Ok(_) | Err(DurationError::TooLong(_)) => Err("out of range".to_owned()),
                Err(DurationError::Form(_)) => {
                    Err(format!("neither auto nor off nor a duration; write {DURATION_FORM}"))
                }
            },
        }
    }
}

impl fmt::Display for MaxWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxWait::Auto => f.pad("auto"),
            MaxWait::Off => f.pad("off"),
            MaxWait::For(bound) => bound.fmt(f),
        }
    }
}

impl QueueBounds {
    /// No bounds.
    pub const NONE: QueueBounds =
        QueueBounds { fresh: WaitBounds::NONE, interrupted: WaitBounds::NONE, heavy: Nanos::ZERO };

    /// The bounds of `max_wait`, where requests took `times`, and each of them `beside` for its way
    /// in and out. Within `first_slice`, a request could go before other fresh ones (`None` = for
    /// all its time). `None` where too few were measured to tell.
    pub fn new(
        max_wait: MaxWait,
        times: &ServiceTimes,
        beside: Nanos,
        first_slice: Option<Nanos>,
    ) -> Option<QueueBounds> {
        let all = WaitBounds::new(max_wait, times, beside)?;
        let of = |times: ServiceTimes| WaitBounds::new(max_wait, &times, beside).unwrap_or(all);
        let Some(slice) = first_slice else {
            return Some(QueueBounds { fresh: all, interrupted: all, heavy: times.mean() });
        };
        let beyond = times.beyond(slice);
        Some(QueueBounds { fresh: of(times.within(slice)), heavy: beyond.mean(), interrupted: of(beyond) })
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

    /// What has begun and waited for this long in all is broken off while the queues stand. It is
    /// above the bound, which holds for the mean of what is admitted.
    pub fn give_up(&self) -> Nanos {
        self.bound.plus(self.bound.minus(self.target).times(2))
    }

    /// No bounds.
    pub const NONE: WaitBounds = WaitBounds { target: Nanos::MAX, interval: Nanos::MAX, bound: Nanos::MAX };

    /// The bounds of `max_wait` for a queue whose requests take `times`, and each of them `beside`
    /// for its way in and out. `None` where too few were measured to tell.
    pub fn new(max_wait: MaxWait, times: &ServiceTimes, beside: Nanos) -> Option<WaitBounds> {
        match max_wait {
            MaxWait::Off => Some(WaitBounds::NONE),
            MaxWait::For(bound) => Some(WaitBounds { target: bound, interval: Nanos::ZERO, bound }),
            MaxWait::Auto if times.count() < MEASURED_MIN => None,
            MaxWait::Auto => {
                let target = times.delay_unit(beside).times(TARGET_UNITS).max(TARGET_MIN);
                let interval = target.times(INTERVAL_TARGETS).max(INTERVAL_MIN);
                Some(WaitBounds { target, interval, bound: target.times(BOUND_TARGETS) })
            }
        }
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
    in_a_row: u32,
    /// The wait for each request in front (Little's law: waiting requests = their rate x their
    /// wait). An EWMA, in which each end has the weight of an eighth.
    each: Nanos,
    /// When such a request last ended, or none waited.
    moved_at: Nanos,
    /// Whether the queues stand: the wait to expect was long for an interval, and has not been
    /// short for one since.
    stands: bool,
    /// Since when the wait to expect says otherwise, if it does.
    otherwise_since: Option<Nanos>,
}

impl HeavyQueue {
    /// Notes a request that ends without having stepped aside.
    #[inline]
    pub fn on_light(&mut self) {
        self.in_a_row = 0;
    }

    /// Notes a request that steps aside for the first time.
    #[inline]
    pub fn on_heavy(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Whether the next request is as good as known to step aside.
    #[inline]
    pub fn is_certain(&self) -> bool {
        self.in_a_row >= HEAVY_IN_A_ROW
    }

    /// Notes that a request ends after `wait`; `behind` others waited when it first went into a
    /// queue.
    #[inline]
    pub fn on_end(&mut self, now: Nanos, wait: Nanos, behind: usize) {
        let each = wait.get() / (behind as u64).max(1);
        let known = if self.each == Nanos::ZERO { each } else { self.each.get() };
        self.each = Nanos::new((known / 8 * 7).saturating_add(each / 8));
        self.moved_at = now;
    }

    /// Whether a request that has waited for `waited` would wait for `most` or longer. At `now`,
    /// `waiting` others are in the queues, and `workers` serve them.
    pub fn is_full(
        &mut self,
        now: Nanos,
        (waiting, workers): (usize, usize),
        waited: Nanos,
        most: Nanos,
        bounds: &WaitBounds,
    ) -> bool {
        if waiting == 0 {
            self.moved_at = now;
        }
        // Where fresh requests take all the time, none of these ends. This worker sees the end of
        // one in `workers`.
        let unmoved = Nanos::new(now.minus(self.moved_at).get() / (workers as u64 * UNMOVED));
        let expected = waited.plus(self.each.max(unmoved).times(waiting as u64));
        let is_long = expected >= Nanos::new(bounds.bound.get() / 2);
        let since = (is_long != self.stands).then(|| self.otherwise_since.unwrap_or(now));
        self.otherwise_since = since;
        if since.is_some_and(|since| now.minus(since) >= bounds.interval) {
            (self.stands, self.otherwise_since) = (is_long, None);
        }
        self.stands && expected >= most
    }

    /// Whether the queues stand, as far as this worker knows.
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// Whether a request that has begun and waited for `wait` is to be broken off.
    pub fn gives_up(&self, wait: Nanos, bounds: &WaitBounds) -> bool {
        wait >= bounds.give_up() && (self.stands || bounds.interval == Nanos::ZERO)
    }

    /// Notes that the worker has nothing to do: the queues do not stand.
    pub fn on_rest(&mut self, now: Nanos) {
        (self.stands, self.otherwise_since, self.moved_at) = (false, None, now);
    }
}

/// The queues from which one worker takes jobs. Its clones are those of other workers that take
/// from the same ones: each sees what the others took. A worker with many sockets comes to each
/// once in a long while.
#[derive(Clone, Debug)]
pub struct StandingQueues {
    /// Of each queue, since when nothing young has left it ([`Nanos::MAX`] after something young),
    /// and when something old last left it. Where two workers write at once, one job more or less
    /// counts as young.
    queues: SharedTimes<2>,
    /// When the worker last had nothing to do.
    rested_at: Nanos,
}

/// The times of a queue.
const SINCE: usize = 0;
const LAST: usize = 1;

impl StandingQueues {
    /// This many queues, none of which stands.
    pub fn new(queues: usize) -> StandingQueues {
        StandingQueues { queues: SharedTimes::new(queues, [Nanos::MAX, Nanos::ZERO]), rested_at: Nanos::ZERO }
    }

    /// Notes that a job from `queue` begins which had waited for less than the target.
    #[inline]
    pub fn on_young(&mut self, queue: usize) {
        if self.queues.get(queue)[SINCE] != Nanos::MAX {
            self.queues.set(queue, SINCE, Nanos::MAX);
        }
    }

    /// Notes that a job from `queue` is at hand which has waited for `wait`, at least the target.
    /// True if it is to be shed.
    #[cold]
    pub fn on_old(&mut self, queue: usize, now: Nanos, wait: Nanos, bounds: &WaitBounds) -> bool {
        let [mut since, last] = self.queues.get(queue);
        // What workers saw before this one last rested, or too long ago, says nothing of a queue
        // that has stood since. An exception: this job was in the queue then, and nothing behind it
        // has left.
        let unseen = now.minus(last);
        let is_lost = unseen > bounds.interval && unseen > wait;
        if since == Nanos::MAX || since < self.rested_at || is_lost {
            since = now;
            self.queues.set(queue, SINCE, since);
        }
        self.queues.set(queue, LAST, now);
        now.minus(since) >= bounds.interval && wait >= bounds.bound
    }

    /// Notes that the worker has nothing to do: none of its queues stands.
    pub fn on_rest(&mut self, now: Nanos) {
        self.rested_at = now;
    }
}

#[cfg(test)]
mod tests;
