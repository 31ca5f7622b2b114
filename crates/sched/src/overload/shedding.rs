//! The rule of shedding as one worker applies it. `README.md` in this folder explains it. Threads
//! and virtual time use the same functions.

use super::{Absence, HeavyQueue, QueueLoad, StandingQueues, WaitBounds, expected_service, latest_start};
use crate::estimate::{ServiceTimes, TimesOfClass};
use crate::fate::{CLASSES, Expired};
use crate::time::{Nanos, ThreadUse};
use crate::tuning::{MaxWait, Tuning};

/// The data of one request that the rule of shedding uses: its times, its deadline and its service
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// When the request reached its socket.
    pub came_at: Nanos,
    /// Since when the request has been ready to run: since its arrival, or since it last entered a
    /// queue.
    pub ready_at: Nanos,
    /// From this time on, the request must be checked before it begins or resumes, because it may
    /// be old or too late. [`Nanos::MAX`] = never; also while it runs.
    pub start_by: Nanos,
    /// When the answer becomes worthless; [`Nanos::MAX`] = never.
    pub expires_at: Nanos,
    /// Time from the request's arrival until it expires; `None` = never.
    pub deadline: Option<Nanos>,
    /// Whether the source address is known to be genuine. A request from a genuine address may wait
    /// longer than others before it is refused.
    pub validated: bool,
    /// The service time that the handler expects, if it says so.
    pub cost: Option<Nanos>,
    /// The service time so far.
    pub service: Nanos,
    /// Number of requests in the queues of continuations when this one first entered, itself
    /// included; 0 before that. `u32::MAX` if it ran on because the queues were full.
    pub in_line: u32,
    /// How long the request had waited when it first entered a queue of continuations.
    pub waited_before: Nanos,
}

impl Stay {
    /// A request that arrived at this time and never expires.
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

    /// The same request, whose service gives it this `deadline` and expects this `cost`.
    #[inline]
    #[must_use]
    pub fn within(self, deadline: Option<Nanos>, cost: Option<Nanos>) -> Stay {
        let expires_at = deadline.map_or(Nanos::MAX, |after| self.ready_at.plus(after));
        Stay { expires_at, deadline, cost, ..self }
    }

    /// Whether the handler has begun.
    pub fn has_begun(&self) -> bool {
        self.service > Nanos::ZERO
    }

    /// How long the request has waited until `now`.
    pub fn wait(&self, now: Nanos) -> Nanos {
        now.minus(self.came_at).minus(self.service)
    }

    /// The latest time at which the request may begin.
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

/// The limits that the rule of shedding applies, from the setting and from measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// Limits for requests that have not begun.
    pub fresh: WaitBounds,
    /// Limits for requests that have yielded.
    pub interrupted: WaitBounds,
    /// Mean service time of requests that yield; zero if unknown.
    pub heavy: Nanos,
    /// Expected service time, by class.
    pub expected: [Nanos; CLASSES],
}

impl WaitLimits {
    /// No limits: requests wait without limit, and are too late only after their deadline.
    pub const NONE: WaitLimits = WaitLimits {
        fresh: WaitBounds::NONE,
        interrupted: WaitBounds::NONE,
        heavy: Nanos::ZERO,
        expected: [Nanos::ZERO; CLASSES],
    };

    /// Updates the limits from the measured service times `times` of all requests, under a policy
    /// with this `first_slice`. `of_class` has the service times of each class, if classes are
    /// known. Too few measurements change nothing.
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

    /// The expected service time of a request of `class`.
    pub fn expected(&self, class: u8) -> Nanos {
        self.expected[usize::from(class).min(CLASSES - 1)]
    }
}

/// Why a request must not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The request waited too long in a socket with a standing queue.
    Waited,
    /// The request is assumed to be heavy and would wait too long, or the queue of its class stands
    /// and it has waited too long.
    Refused,
    /// The request's deadline has passed, or would pass before its end.
    Expired(Expired),
}

/// Requests that are assumed to be heavy do not begin if their predicted wait reaches this many
/// quarters of the bound. Begun requests are refused only at the full bound. If both limits were
/// equal, about half of the first slices would be wasted.
const BEGINS_BELOW: u64 = 3;
/// The value of [`Stay::in_line`] for a request that ran on because the queues were full.
const GOES_ON: u32 = u32::MAX;

/// The state of shedding of one worker: of each socket, each class, and all queues of continuations
/// together. A clone is for another worker that receives from the same sockets.
#[derive(Clone, Debug)]
pub struct Shedding {
    absence: Absence,
    sockets: StandingQueues,
    /// One queue per class, if the policy knows classes: one class may wait while others from the
    /// same sockets do not.
    classes: Option<StandingQueues>,
    /// The classes with a standing queue, one bit each.
    standing: u8,
    heavy: HeavyQueue,
    workers: usize,
    /// Capacity of the queues, in jobs.
    room: usize,
}

impl Shedding {
    /// The state of one of `workers` workers. Their queues have room for `room` jobs, and they
    /// receive from this many `sockets`. `classified` = the policy knows classes.
    pub fn new(sockets: usize, workers: usize, room: usize, classified: bool) -> Shedding {
        let classes = classified.then(|| StandingQueues::new(CLASSES));
        let sockets = StandingQueues::new(sockets);
        // Where nothing reads its thread's use, the worker counts as never absent.
        let always = |now| ThreadUse { cpu: now, waits: 0 };
        let (absence, heavy) = (Absence::new(always), HeavyQueue::default());
        Shedding { absence, sockets, classes, standing: 0, heavy, workers, room }
    }

    /// Sets what reads the use of the worker's thread until a given time.
    pub fn with_cpu(self, used: fn(Nanos) -> ThreadUse) -> Shedding {
        Shedding { absence: Absence::new(used), ..self }
    }

    /// The part of a slice that the thread can have worked for. The slice ends at `now` and took
    /// `time`.
    #[inline]
    pub fn worked(&self, time: Nanos, now: Nanos) -> Nanos {
        self.absence.worked(time, now)
    }

    /// How long a request has waited until `now`. With measured limits (`--max-wait auto`),
    /// absences of this worker are subtracted; with a fixed limit they count.
    fn waited(&mut self, stay: &Stay, now: Nanos, bounds: &WaitBounds) -> Nanos {
        if bounds.interval == Nanos::ZERO { stay.wait(now) } else { self.waited_at_all(stay, now) }
    }

    /// How long a request has waited until `now`, minus the absences of this worker.
    fn waited_at_all(&mut self, stay: &Stay, now: Nanos) -> Nanos {
        self.absence.look(now);
        stay.wait(now).minus(self.absence.since(stay.came_at))
    }

    /// The time from which on a request of `class` that is about to wait must be checked.
    pub fn start_by(&self, stay: &Stay, class: u8, limits: &WaitLimits) -> Nanos {
        let begun = stay.has_begun();
        let wait = if begun { limits.of(true).patience } else { limits.of(false).target };
        let old = stay.came_at.plus(stay.service).plus(wait);
        if stay.deadline.is_some() { old.min(stay.latest_start(class, limits)) } else { old }
    }

    /// Whether to shed a datagram that reached `socket` at `came_at`. Called when the datagram is
    /// received.
    pub fn is_old(&mut self, socket: usize, now: Nanos, came_at: Nanos, limits: &WaitLimits) -> bool {
        let (bounds, wait) = (limits.of(false), self.waited(&Stay::new(came_at), now, limits.of(false)));
        wait >= bounds.target && self.sockets.on_old(socket, now, wait, now.minus(came_at), &self.absence, bounds)
    }

    /// Why a fresh request from `socket` must not begin at `now`; `None` if it may. `queue` returns
    /// the number of waiting requests that have yielded, and whether the gate limits this request's
    /// source.
    #[inline]
    pub fn on_begin(
        &mut self,
        stay: &Stay,
        class: u8,
        socket: usize,
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
                .filter(|cause| *cause != Cause::Waited || !limits.of(false).keeps(stay, now))
        };
        let class_stands = self.classes.is_some() && self.class_stands(stay, class, now, limits);
        let would_wait = |this: &mut Shedding| {
            let (waiting, limited) = queue();
            // Room for two requests per worker is left out: the one that it runs, and the place
            // that is kept for it.
            let crowded = waiting + 2 * this.workers >= this.room;
            let load = QueueLoad { waiting, workers: this.workers, crowded };
            this.is_full(stay, class, now, load, eighths(stay, limited, BEGINS_BELOW), limits)
        };
        let refused = || class_stands || self.heavy.is_certain() && would_wait(self);
        cause.or_else(|| refused().then_some(Cause::Refused))
    }

    /// Whether to shed a fresh request of `class`: it is old, and the queue of its class is a
    /// standing queue.
    fn class_stands(&mut self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> bool {
        let wait = self.waited(stay, now, limits.of(true));
        let Some(classes) = &mut self.classes else { return false };
        let (bounds, bit) = (limits.of(true), 1 << class);
        if wait < bounds.target {
            classes.on_young(class.into());
            self.standing &= !bit;
            return false;
        }
        let is_shed = classes.on_old(class.into(), now, wait, stay.wait(now), &self.absence, bounds);
        self.standing |= if is_shed { bit } else { 0 };
        is_shed
    }

    /// Whether a request that yields at `now` would wait too long: for so many `eighths` of its
    /// bound or longer. Its bound is the common one, or the time to its deadline if that is
    /// shorter.
    #[cold]
    fn is_full(
        &mut self,
        stay: &Stay,
        class: u8,
        now: Nanos,
        load: QueueLoad,
        eighths: u64,
        limits: &WaitLimits,
    ) -> bool {
        let patience = stay.latest_start(class, limits).minus(stay.came_at);
        let bounds = limits.of(true).within(patience);
        let most = Nanos::new(bounds.bound.get() / 8).times(eighths);
        limits.of(true).bound != Nanos::MAX && {
            let waited = self.waited(stay, now, &bounds);
            // Full queues alone are no reason to refuse. The work in them must also be too much to
            // be done in time.
            let work = Nanos::new(limits.heavy.get() * load.waiting as u64 / load.workers as u64);
            let crowded = load.crowded && (work == Nanos::ZERO || waited.plus(work) >= most);
            self.heavy.is_full(now, QueueLoad { crowded, ..load }, waited, most, &self.absence, &bounds)
        }
    }

    /// Why a request that has yielded or paused must not resume at `now`; `None` if it may.
    #[inline]
    pub fn on_resume(&mut self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> Option<Cause> {
        if now < stay.start_by {
            return None;
        }
        let waited = self.waited(stay, now, limits.of(true));
        let gives_up = self.heavy.gives_up(waited, limits.of(true));
        self.expired(stay, class, now, limits).or(gives_up.then_some(Cause::Expired(Expired::TooLate)))
    }

    /// Why a request must not run at `now` because of its own deadline; `None` if it may.
    #[cold]
    fn expired(&self, stay: &Stay, class: u8, now: Nanos, limits: &WaitLimits) -> Option<Cause> {
        let reason = if now >= stay.expires_at { Expired::Passed } else { Expired::TooLate };
        (now >= stay.expires_at.min(stay.latest_start(class, limits))).then_some(Cause::Expired(reason))
    }

    /// Whether a request that yields may enter a queue of continuations. It is asked only the first
    /// time, so a refusal wastes only the first slice. `queue` returns how many others wait, and
    /// whether the gate limits its source. Without `room` the request runs on instead of waiting.
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
        let load = QueueLoad { waiting, workers: self.workers, crowded: !room };
        !self.is_full(stay, class, now, load, eighths(stay, limited, 4), limits)
    }

    /// Whether the queues of continuations, or the queue of any class, are standing queues, as far
    /// as this worker knows.
    pub fn continuations_stand(&self) -> bool {
        self.heavy.stands || self.standing != 0
    }

    /// Notes that a request has ended by itself.
    #[inline]
    pub fn on_end(&mut self, stay: &Stay, now: Nanos) {
        match stay.in_line {
            0 => self.heavy.in_a_row = 0,
            // The request ran on and waited behind no other.
            GOES_ON => {}
            in_line => {
                let in_queues = self.waited_at_all(stay, now).minus(stay.waited_before);
                self.heavy.on_end(now, in_queues, in_line as usize - 1);
            }
        }
    }

    /// Notes that the worker has nothing to do, so it has no standing queue.
    pub fn on_rest(&mut self, now: Nanos) {
        self.absence.on_rest(now);
        self.sockets.on_rest(now);
        self.classes.iter_mut().for_each(|classes| classes.on_rest(now));
        self.standing = 0;
        self.heavy.on_rest(now);
    }
}

/// The part of its bound, in eighths, up to which a request may wait. So requests of limited
/// sources are refused first, and those of validated sources last.
fn eighths(stay: &Stay, limited: bool, quarters: u64) -> u64 {
    match (limited, stay.validated) {
        (true, _) => quarters,
        (false, false) => quarters * 2,
        (false, true) => quarters * 3,
    }
}
