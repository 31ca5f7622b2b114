//! The rule of shedding, as one worker applies it: `README.md` beside this file argues it. Threads and virtual time call
//! the same functions.

use super::{HeavyQueue, QueueBounds, StandingQueues, WaitBounds, expected_service, latest_start};
use crate::fate::{CLASSES, Expired};
use crate::sched::MaxWait;
use crate::sched::estimate::{ServiceTimes, TimesOfClass};
use crate::time::Nanos;

/// What the rule knows of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// When the request came to its socket, as far as that is known.
    pub came_at: Nanos,
    /// Since when it has been ready to run: its arrival, or when it was last put into a queue.
    pub ready_at: Nanos,
    /// The time from which on it must be looked at before it begins, or resumes from a queue: it is old then, or too
    /// late. [`Nanos::MAX`] = never, and while it runs.
    pub start_by: Nanos,
    /// The time from which on its answer is worthless; [`Nanos::MAX`] = never.
    pub expires_at: Nanos,
    /// How long after its arrival it expires; `None` = never.
    pub deadline: Option<Nanos>,
    /// The service that its handler expects of it.
    pub cost: Option<Nanos>,
    /// The service that it has had.
    pub service: Nanos,
    /// Requests that were in queues of continuations when it first went into one.
    pub behind: u32,
    /// Whether it has come out of a queue of continuations. Then it is not shed any more for having waited: what was done
    /// of it would be lost.
    pub resumed: bool,
}

impl Stay {
    /// A request that came at this time, and never expires.
    pub fn new(came_at: Nanos) -> Stay {
        Stay {
            came_at,
            ready_at: came_at,
            start_by: Nanos::MAX,
            expires_at: Nanos::MAX,
            deadline: None,
            cost: None,
            service: Nanos::ZERO,
            behind: 0,
            resumed: false,
        }
    }

    /// Whether the request has been in its handler.
    pub fn has_begun(&self) -> bool {
        self.service > Nanos::ZERO
    }

    /// How long the request has waited until `now`.
    pub fn wait(&self, now: Nanos) -> Nanos {
        now.minus(self.came_at).minus(self.service)
    }

    /// The time from which on the request must not begin.
    fn latest_start(&self, class: u8, limits: &impl Limits) -> Nanos {
        let Some(deadline) = self.deadline else { return Nanos::MAX };
        let expected = self.cost.unwrap_or_else(|| limits.expected(class));
        latest_start(self.expires_at, deadline, expected, self.service)
    }
}

/// The numbers of the rule.
pub trait Limits {
    /// The bounds for a request, which has `begun` or not.
    fn bounds(&self, begun: bool) -> WaitBounds;
    /// [`WaitBounds::target`] of these.
    fn target(&self, begun: bool) -> Nanos;
    /// The service to expect of a request of `class`.
    fn expected(&self, class: u8) -> Nanos;
}

/// Limits that do not change.
#[derive(Clone, Copy, Debug)]
pub struct FixedLimits {
    /// How long requests may wait.
    pub waits: QueueBounds,
    /// The service to expect, by class.
    pub expected: [Nanos; CLASSES],
}

impl FixedLimits {
    /// Requests wait for as long as it takes, and none is too late before it has expired.
    pub const NONE: FixedLimits = FixedLimits { waits: QueueBounds::NONE, expected: [Nanos::ZERO; CLASSES] };
}

impl Limits for FixedLimits {
    fn bounds(&self, begun: bool) -> WaitBounds {
        *self.waits.of(begun)
    }

    fn target(&self, begun: bool) -> Nanos {
        self.waits.of(begun).target
    }

    fn expected(&self, class: u8) -> Nanos {
        self.expected[usize::from(class).min(CLASSES - 1)]
    }
}

/// The service to expect of each class: by what is measured of its own requests where classes may be known, else of all.
/// `None` where too few were measured to tell, and under [`MaxWait::Off`] zero.
pub fn expected_by_class(
    max_wait: MaxWait,
    times: &ServiceTimes,
    of_class: Option<&TimesOfClass>,
) -> [Option<Nanos>; CLASSES] {
    if max_wait == MaxWait::Off {
        return [Some(Nanos::ZERO); CLASSES];
    }
    match of_class {
        Some(of_class) => of_class.each_ref().map(expected_service),
        None => [expected_service(times); CLASSES],
    }
}

/// Why a request must not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has waited for too long in a queue that stands.
    Waited,
    /// Its deadline has passed, or would before its end.
    Expired(Expired),
}

/// What one worker knows of the queues that it takes from: the sockets, and behind them the queues of continuations.
#[derive(Debug)]
pub struct Shedding {
    queues: StandingQueues,
    heavy: HeavyQueue,
    /// The number of the queues of continuations.
    continuations: usize,
}

impl Shedding {
    /// A worker that takes from this many sockets.
    pub fn new(sockets: usize) -> Shedding {
        Shedding { queues: StandingQueues::new(sockets + 1), heavy: HeavyQueue::default(), continuations: sockets }
    }

    /// The time from which on a request of `class`, which is about to wait, must be looked at.
    pub fn start_by(&self, stay: &Stay, class: u8, limits: &impl Limits) -> Nanos {
        let old = || stay.came_at.plus(stay.service).plus(limits.target(stay.has_begun()));
        let old = if stay.resumed { Nanos::MAX } else { old() };
        if stay.deadline.is_some() { old.min(stay.latest_start(class, limits)) } else { old }
    }

    /// Whether a datagram that has waited in `socket` for this long is to be shed as it is received.
    pub fn is_old(&mut self, socket: usize, now: Nanos, wait: Nanos, limits: &impl Limits) -> bool {
        let bounds = limits.bounds(false);
        wait >= bounds.target && self.queues.on_old(socket, now, wait, &bounds)
    }

    /// Why a fresh request from `socket` must not begin `now`, if it must not. `waiting` counts the requests in queues of
    /// continuations, about.
    #[inline]
    pub fn on_begin(
        &mut self,
        stay: &Stay,
        (class, socket): (u8, usize),
        now: Nanos,
        waiting: impl FnOnce() -> usize,
        limits: &impl Limits,
    ) -> Option<Cause> {
        let mut cause = None;
        if now < stay.start_by {
            self.queues.on_young(socket);
        } else {
            cause = self.cause(stay, class, socket, now, limits);
        }
        if cause.is_none() && self.heavy.is_certain() && self.would_wait(stay, class, now, waiting(), limits) {
            cause = Some(Cause::Waited);
        }
        cause
    }

    /// Why a continuation must not go on `now`, if it must not: out of a queue, or still at hand after a pause.
    #[inline]
    pub fn on_resume(&mut self, stay: &mut Stay, class: u8, now: Nanos, limits: &impl Limits) -> Option<Cause> {
        // What is still at hand says nothing of the queue, and what was in it before says too much.
        let is_first = stay.start_by != Nanos::MAX && !stay.resumed;
        if now >= stay.start_by {
            if let Some(cause) = self.cause(stay, class, self.continuations, now, limits) {
                return Some(cause);
            }
        } else if is_first {
            self.queues.on_young(self.continuations);
        }
        if is_first {
            stay.resumed = true;
            self.heavy.on_left(now.minus(stay.ready_at), stay.behind as usize);
        }
        None
    }

    /// Why a request from `queue` must not run `now`, which is no sooner than its [`Stay::start_by`].
    #[cold]
    fn cause(&mut self, stay: &Stay, class: u8, queue: usize, now: Nanos, limits: &impl Limits) -> Option<Cause> {
        if now >= stay.expires_at {
            return Some(Cause::Expired(Expired::Passed));
        }
        if now >= stay.latest_start(class, limits) {
            return Some(Cause::Expired(Expired::TooLate));
        }
        let (wait, bounds) = (stay.wait(now), limits.bounds(queue == self.continuations));
        let is_old = wait >= bounds.target && !stay.resumed;
        (is_old && self.queues.on_old(queue, now, wait, &bounds)).then_some(Cause::Waited)
    }

    /// Whether a fresh request that turns out heavy would then wait for too long, by the bound for all or by its own
    /// deadline. Its first slice would be lost.
    #[cold]
    fn would_wait(&mut self, stay: &Stay, class: u8, now: Nanos, waiting: usize, limits: &impl Limits) -> bool {
        let bounds = limits.bounds(true);
        let patience = stay.latest_start(class, limits).minus(stay.came_at);
        bounds.bound != Nanos::MAX
            && self.heavy.is_full(now, waiting, now.minus(stay.came_at), &bounds.within(patience))
    }

    /// Notes that a request goes into a queue of continuations, while `waiting` others are in some.
    pub fn on_put(&mut self, stay: &mut Stay, class: u8, waiting: impl FnOnce() -> usize, limits: &impl Limits) {
        if !stay.resumed {
            self.heavy.on_heavy();
            stay.behind = u32::try_from(waiting()).unwrap_or(u32::MAX);
        }
        stay.start_by = self.start_by(stay, class, limits);
    }

    /// Notes that a request has ended by itself.
    #[inline]
    pub fn on_end(&mut self, stay: &Stay) {
        if !stay.resumed {
            self.heavy.on_light();
        }
    }

    /// Notes that the worker has nothing to do: none of its queues stands.
    pub fn on_rest(&mut self, now: Nanos) {
        self.queues.on_rest(now);
        self.heavy.on_rest();
    }
}
