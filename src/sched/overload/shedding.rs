//! The rule of shedding, as one worker applies it: `README.md` beside this file argues it. Threads
//! and virtual time call the same functions.

use super::{Absence, HeavyQueue, StandingQueues, WaitBounds, expected_service, latest_start};
use crate::fate::{CLASSES, Expired};
use crate::sched::estimate::{ServiceTimes, TimesOfClass};
use crate::sched::tuning::{MaxWait, Tuning};
use crate::time::Nanos;

/// What the rule knows of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// When the request came to its socket, as far as that is known.
    pub came_at: Nanos,
    /// Since when it has been ready to run: its arrival, or when it was last put into a queue.
    pub ready_at: Nanos,
    /// The time from which on it must be looked at before it begins, or resumes from a queue: it is
    /// old then, or too late. [`Nanos::MAX`] = never, and while it runs.
    pub start_by: Nanos,
    /// The time from which on its answer is worthless; [`Nanos::MAX`] = never.
    pub expires_at: Nanos,
    /// How long after its arrival it expires; `None` = never.
    pub deadline: Option<Nanos>,
    /// Whether its source is not forged. Such a request may wait longer, behind fewer others.
    pub validated: bool,
    /// The service that its handler expects of it.
    pub cost: Option<Nanos>,
    /// The service that it has had.
    pub service: Nanos,
    /// Since it first went into a queue of continuations: how many were there, itself included;
    /// before that 0. `u32::MAX` if it went on for want of room.
    pub in_line: u32,
    /// How long it had waited until then.
    pub waited_before: Nanos,
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
            validated: false,
            cost: None,
            service: Nanos::ZERO,
            in_line: 0,
            waited_before: Nanos::ZERO,
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
    fn latest_start(&self, class: u8, limits: &WaitLimits) -> Nanos {
        let Some(deadline) = self.deadline else { return Nanos::MAX };
        let expected = self.cost.unwrap_or_else(|| limits.expected(class));
        latest_start(self.expires_at, deadline, expected, self.service)
    }
}

impl Default for Stay {
    fn default() -> Stay {
        Stay::new(Nanos::ZERO)
    }
}

/// The numbers of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// How long requests may wait that have not begun.
    pub fresh: WaitBounds,
    /// How long requests may wait that stepped aside.
    pub interrupted: WaitBounds,
    /// Service of a request that stepped aside, in the mean; zero where that is not known.
    pub heavy: Nanos,
    /// The service to expect, by class.
    pub expected: [Nanos; CLASSES],
}

impl WaitLimits {
    /// Requests wait for as long as it takes, and none is too late before it has expired.
    pub const NONE: WaitLimits = WaitLimits {
        fresh: WaitBounds::NONE,
        interrupted: WaitBounds::NONE,
        heavy: Nanos::ZERO,
        expected: [Nanos::ZERO; CLASSES],
    };

    /// Follows the measured `times` of all requests under a policy with this first slice. Where
    /// classes may be known, also those of each class. Too few measurements change nothing.
    pub fn follow(
        &mut self,
        tuning: &Tuning,
        first_slice: Option<Nanos>,
        times: &ServiceTimes,
        of_class: Option<&TimesOfClass>,
    ) {
        let Tuning { max_wait, beside, .. } = *tuning;
        let measured = WaitLimits::measured(max_wait, times, beside, first_slice).unwrap_or(*self);
        *self = WaitLimits { expected: self.expected, ..measured };
        for (class, expected) in self.expected.iter_mut().enumerate() {
            *expected = match max_wait {
                MaxWait::Off => Nanos::ZERO,
                _ => expected_service(of_class.map_or(times, |of_class| &of_class[class])).unwrap_or(*expected),
            };
        }
    }

    /// The service to expect of a request of `class`.
    pub fn expected(&self, class: u8) -> Nanos {
        self.expected[usize::from(class).min(CLASSES - 1)]
    }
}

/// Why a request must not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has waited for too long in a socket that stands.
    Waited,
    /// It is a heavy one, or of a class whose queue stands, and has waited or would wait for too
    /// long.
    Refused,
    /// Its deadline has passed, or would before its end.
    Expired(Expired),
}

/// In quarters of the bound, the wait to expect from which on heavy requests do not begin. It is
/// below what a first slice is refused at, or that would be lost as often as not.
const BEGINS_BELOW: u64 = 3;
/// [`Stay::in_line`] of a request that went on where the queues had no room for it.
const GOES_ON: u32 = u32::MAX;

/// What one worker knows of the queues that it takes from: the sockets, and the queues of
/// continuations together. A clone is for another worker of the same sockets.
#[derive(Clone, Debug)]
pub struct Shedding {
    absence: Absence,
    sockets: StandingQueues,
    /// Where the policy knows classes, a class may wait while others that came through the same
    /// sockets do not.
    classes: Option<StandingQueues>,
    /// The classes whose requests stand, a bit for each.
    standing: u8,
    heavy: HeavyQueue,
    workers: usize,
    /// How many jobs the queues have room for.
    room: usize,
}

impl Shedding {
    /// That of one of this many workers, whose queues have so much room, and which take from this
    /// many sockets. The policy knows classes if `classified`.
    pub fn new(sockets: usize, [workers, room]: [usize; 2], classified: bool) -> Shedding {
        let classes = classified.then(|| StandingQueues::new(CLASSES));
        let sockets = StandingQueues::new(sockets);
        // As if the worker always had a CPU.
        let (absence, heavy) = (Absence::new(|now| now), HeavyQueue::default());
        Shedding { absence, sockets, classes, standing: 0, heavy, workers, room }
    }

    /// The same for a worker whose thread has had so much of its CPU's time until a time, as far as
    /// that is known.
    pub fn with_cpu(self, had: fn(Nanos) -> Nanos) -> Shedding {
        Shedding { absence: Absence::new(had), ..self }
    }

    /// How long a request has waited until `now`. Where the bounds are measured, without the time
    /// in which this worker could not serve it.
    fn waited(&mut self, stay: &Stay, now: Nanos, bounds: &WaitBounds) -> Nanos {
        if bounds.interval == Nanos::ZERO { stay.wait(now) } else { self.waited_at_all(stay, now) }
    }

    /// The same, whatever the bounds are.
    fn waited_at_all(&mut self, stay: &Stay, now: Nanos) -> Nanos {
        self.absence.look(now);
        stay.wait(now).minus(self.absence.since(stay.came_at))
    }

    /// The time from which on a request of `class`, which is about to wait, must be looked at.
    pub fn start_by(&self, stay: &Stay, class: u8, limits: &WaitLimits) -> Nanos {
        let begun = stay.has_begun();
        let wait = if begun { limits.of(true).patience } else { limits.of(false).target };
        let old = stay.came_at.plus(stay.service).plus(wait);
        if stay.deadline.is_some() { old.min(stay.latest_start(class, limits)) } else { old }
    }

    /// Whether a datagram that came to `socket` at that time is to be shed as it is received.
    pub fn is_old(&mut self, socket: usize, now: Nanos, came_at: Nanos, limits: &WaitLimits) -> bool {
        let (bounds, wait) = (limits.of(false), self.waited(&Stay::new(came_at), now, limits.of(false)));
        wait >= bounds.target && self.sockets.on_old(socket, now, (wait, now.minus(came_at)), &self.absence, bounds)
    }

    /// Why a fresh request from `socket` must not begin `now`, if it must not. `queue`: how many
    /// have stepped aside, and whether the gate limits its source.
    #[inline]
    pub fn on_begin(
        &mut self,
        stay: &Stay,
        (class, socket): (u8, usize),
        now: Nanos,
        queue: impl FnOnce() -> (usize, bool),
        limits: &WaitLimits,
    ) -> Option<Cause> {
        let cause = if now < stay.start_by {
            self.sockets.on_young(socket);
            None
        } else {
            self.expired(stay, class, now, limits)
                .or_else(|| self.is_old(socket, now, stay.came_at, limits).then_some(Cause::Waited))
        };
        let class_stands = self.classes.is_some() && self.class_stands(stay, class, now, limits);
        let would_wait = |this: &mut Shedding| {
            let (waiting, limited) = queue();
            // Each worker has one at hand, and keeps a place for it.
            let crowded = waiting + 2 * this.workers >= this.room;
            this.is_full(stay, class, now, (waiting, limited, crowded), limits, BEGINS_BELOW)
        };
        let refused = || class_stands || self.heavy.is_certain() && would_wait(self);
        cause.or_else(|| refused().then_some(Cause::Refused))
    }

    /// Whether to shed a fresh request of `class` that begins `now`, because its class stands.
    fn class_stands(&mut self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> bool {
        let wait = self.waited(stay, now, limits.of(true));
        let Some(classes) = &mut self.classes else { return false };
        let (bounds, bit) = (limits.of(true), 1 << class);
        if wait < bounds.target {
            classes.on_young(class.into());
            self.standing &= !bit;
            return false;
        }
        let is_shed = classes.on_old(class.into(), now, (wait, stay.wait(now)), &self.absence, bounds);
        self.standing |= if is_shed { bit } else { 0 };
        is_shed
    }

    /// Whether a request that steps aside at `now` would wait for `quarters` quarters of its bound.
    /// This is the bound for all, or the time to the request's deadline.
    #[cold]
    fn is_full(
        &mut self,
        stay: &Stay,
        class: u8,
        now: Nanos,
        (waiting, limited, crowded): (usize, bool, bool),
        limits: &WaitLimits,
        quarters: u64,
    ) -> bool {
        let patience = stay.latest_start(class, limits).minus(stay.came_at);
        let bounds = limits.of(true).within(patience);
        // In eighths. Where requests of several kinds wait, those of limited sources are refused
        // first, and validated ones last.
        let eighths = match (limited, stay.validated) {
            (true, _) => quarters,
            (false, false) => quarters * 2,
            (false, true) => quarters * 3,
        };
        let most = Nanos::new(bounds.bound.get() / 8).times(eighths);
        limits.of(true).bound != Nanos::MAX && {
            let waited = self.waited(stay, now, &bounds);
            // Where the queues have no room, what they hold can be more than is done in time.
            let work = Nanos::new(limits.heavy.get() * waiting as u64 / self.workers as u64);
            let crowded = crowded && (work == Nanos::ZERO || waited.plus(work) >= most);
            self.heavy.is_full(now, (waiting, self.workers, crowded), waited, most, (&self.absence, &bounds))
        }
    }

    /// Why a continuation must not go on `now`; `None` if it may. It comes from a queue or a pause.
    #[inline]
    pub fn on_resume(&mut self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> Option<Cause> {
        if now < stay.start_by {
            return None;
        }
        let waited = self.waited(stay, now, limits.of(true));
        let gives_up = self.heavy.gives_up(waited, limits.of(true));
        self.expired(stay, class, now, limits).or(gives_up.then_some(Cause::Expired(Expired::TooLate)))
    }

    /// Why a request whose time has come must not run `now`, by its own deadline.
    #[cold]
    fn expired(&self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> Option<Cause> {
        let reason = if now >= stay.expires_at { Expired::Passed } else { Expired::TooLate };
        (now >= stay.expires_at.min(stay.latest_start(class, limits))).then_some(Cause::Expired(reason))
    }

    /// Whether a request that steps aside may go into a queue of continuations. If it may not, only
    /// its first slice is lost: it is asked once. `queue`: how many others are there, and whether
    /// the gate limits its source. Without `room` there it goes on instead of waiting.
    pub fn on_put(
        &mut self,
        stay: &mut Stay,
        class: u8,
        now: Nanos,
        queue: impl FnOnce() -> (usize, bool),
        room: bool,
        limits: &WaitLimits,
    ) -> bool {
        stay.start_by = self.start_by(stay, class, limits);
        if stay.in_line > 0 {
            return true;
        }
        let (waiting, limited) = queue();
        stay.waited_before = self.waited_at_all(stay, now);
        stay.in_line = if room { u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1) } else { GOES_ON };
        self.heavy.in_a_row = self.heavy.in_a_row.saturating_add(1);
        !self.is_full(stay, class, now, (waiting, limited, !room), limits, 4)
    }

    /// Whether the queues of continuations stand, or those of a class, as far as this worker knows.
    pub fn continuations_stand(&self) -> bool {
        self.heavy.stands || self.standing != 0
    }

    /// Notes that a request has ended by itself.
    #[inline]
    pub fn on_end(&mut self, stay: &Stay, now: Nanos) {
        match stay.in_line {
            0 => self.heavy.in_a_row = 0,
            // It has waited behind none of them.
            GOES_ON => {}
            in_line => {
                let in_queues = self.waited_at_all(stay, now).minus(stay.waited_before);
                self.heavy.on_end(now, in_queues, in_line as usize - 1);
            }
        }
    }

    /// Notes that the worker has nothing to do: none of its queues stands.
    pub fn on_rest(&mut self, now: Nanos) {
        self.absence.on_rest(now);
        self.sockets.on_rest(now);
        self.classes.iter_mut().for_each(|classes| classes.on_rest(now));
        self.standing = 0;
        self.heavy.on_rest(now);
    }
}
