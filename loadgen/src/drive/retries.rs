//! Retries: what clients do about requests that are shed or not answered in time.
//!
//! A request has up to 1 + N attempts, one after another. If an attempt is shed, or has no reply
//! within the timeout, the next one follows after a backoff. The backoff doubles each time. After
//! the last attempt the client gives up. A reply to any attempt ends the request, unless the
//! attempt was shed. This module neither reads a clock nor sends.
//!
//! Memory is bounded: a few bytes for each request of the schedule, and for each retry that waits
//! for its time or for its reply. First attempts wait in the order of the schedule, which needs no
//! memory.

use crate::drive::SLIP_LIMIT;
use crate::drive::schedule::{Request, silence_max};
use crate::plan::{RETRIES_MAX, Retrying};
use forebay::fate::Ending;
use forebay::inside::wire::Status;
use forebay::time::Nanos;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The longest time for which a server's hint delays a retry. So no server can keep a run from
/// ending.
const HINT_MAX: Nanos = Nanos::from_secs(60);
impl Retrying {
    /// The backoff after `attempt` of request `id`: uniform from half to one and a half of the
    /// mean. It depends only on `seed`, the request and the attempt.
    fn pause(&self, seed: u64, id: usize, attempt: u8) -> Nanos {
        let drawn =
            SplitMix64::seed_from_u64(seed.rotate_left(32) ^ ((id as u64) << 8) ^ u64::from(attempt)).next_u64();
        let uniform = (drawn >> 11) as f64 / (1u64 << 53) as f64;
        let mean = self.backoff.times(1 << attempt.min(RETRIES_MAX));
        Nanos::new((mean.get() as f64 * (0.5 + uniform)) as u64)
    }
}

/// The number of attempts after the warm-up, by outcome. A reply counts however late it came. The
/// outcomes are disjoint and sum to `sent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct AttemptCounts {
    /// All attempts: one for each request, and its retries.
    pub sent: u64,
    /// Attempts that were served.
    pub answered: u64,
    /// Attempts that the server shed.
    pub shed: u64,
    /// Attempts of a kind that the server does not serve.
    pub refused: u64,
    /// Attempts whose handler panicked or stalled.
    pub failed: u64,
    /// Attempts without a reply.
    pub unanswered: u64,
    /// Retries because an attempt was shed.
    pub after_shed: u64,
    /// Retries because an attempt had no reply in time.
    pub after_timeout: u64,
    /// Retries that the generator sent more than [`SLIP_LIMIT`] after their time.
    pub late: u64,
}

/// What a reply means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The end of the request; `late` if its client had given up.
    End { late: bool },
    /// The end of an attempt that is not the last.
    Attempt,
    /// A reply to an attempt that had one already, or to a request that had ended.
    Duplicate,
}

/// The state of one request.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The attempt that was sent last.
    attempt: u8,
    /// A bit for each attempt that has had a reply.
    replied: u8,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The last attempt may still be replied to.
    #[default]
    Waiting,
    /// The next attempt waits for its time, because the last one was shed.
    Shed,
    /// The next attempt waits for its time, because the last one had no reply.
    TimedOut,
    /// The client waits no longer.
    GivenUp,
    /// There is a reply that ends the request.
    Ended,
}

/// A retry to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// The number of the request.
    pub(crate) id: usize,
    /// The attempt, at least 1.
    pub(crate) attempt: u8,
}

/// The clients of a run.
#[derive(Debug, Default)]
pub(crate) struct Clients<'a> {
    pub(crate) schedule: &'a [Request],
    retrying: Retrying,
    seed: u64,
    pub(crate) start: Nanos,
    warmup: Nanos,
    timeout: Nanos,
    /// How long after its time a request may have a reply.
    open_for: Nanos,
    states: Vec<State>,
    /// The number of requests that have a final reply, or whose client has given up.
    pub(crate) over: u64,
    /// The number of requests that had no reply in time.
    lost: u64,
    /// First attempts with smaller numbers have timed out.
    timed_out: usize,
    /// Retries that were sent, in the order of their timeouts: time, request and attempt.
    waiting: VecDeque<(Nanos, u32, u8)>,
    /// Requests that are backing off, by the time of their next attempt.
    backing_off: BinaryHeap<Reverse<(Nanos, u32)>>,
    counts: AttemptCounts,
}

impl<'a> Clients<'a> {
    /// The clients of `schedule`, whose times count from `start`. Attempts at requests before
    /// `warmup` are not counted. Each attempt must have a reply within `timeout`.
    pub(crate) fn new(
        schedule: &'a [Request],
        retrying: Retrying,
        seed: u64,
        start: Nanos,
        warmup: Nanos,
        timeout: Nanos,
    ) -> Clients<'a> {
        let states = vec![State::default(); schedule.len()];
        // Also where its timeout is over: a server that is overloaded answers late.
        let open_for = timeout.max(silence_max(schedule));
        Clients { schedule, retrying, seed, start, warmup, timeout, open_for, states, ..Clients::default() }
    }

    /// Whether requests are sent again. If not, no client gives up.
    pub(crate) fn retry(&self) -> bool {
        self.retrying.max > 0
    }

    /// Whether request `id` has had this attempt, if it has been sent at all.
    pub(crate) fn has_sent(&self, id: usize, attempt: u8) -> bool {
        self.states.get(id).is_some_and(|state| attempt <= state.attempt)
    }

    /// Whether request `id` has had a reply, to any attempt.
    pub(crate) fn is_replied_to(&self, id: usize) -> bool {
        self.states[id].replied > 0
    }

    /// Whether request `id` was due by `at`.
    pub(crate) fn is_due(&self, id: usize, at: Nanos) -> bool {
        self.start.plus(self.schedule[id].at) <= at
    }

    /// Whether a reply to request `id` may still come at `at`.
    pub(crate) fn is_young(&self, id: usize, at: Nanos) -> bool {
        at <= self.start.plus(self.schedule[id].at).plus(self.open_for)
    }

    /// Notes a reply to an attempt that was sent: its status and hint, and when it came.
    pub(crate) fn on_reply(&mut self, id: usize, attempt: u8, status: Status, hint: Nanos, at: Nanos) -> Heard {
        let state = &mut self.states[id];
        let bit = 1 << attempt;
        if state.replied & bit != 0 {
            return Heard::Duplicate;
        }
        state.replied |= bit;
        let ending = status.ending();
        if self.schedule[id].at >= self.warmup {
            *self.counts.of(ending) += 1;
        }
        match state.phase {
            Phase::Ended => Heard::Duplicate,
            Phase::GivenUp => {
                state.phase = Phase::Ended;
                Heard::End { late: true }
            }
            _ if ending == Ending::Shed && attempt < self.retrying.max => {
                // Of an earlier attempt than the one that the client waits for, or is about to
                // send, it says nothing new.
                if state.phase == Phase::Waiting && attempt == state.attempt {
                    self.back_off(id, Phase::Shed, at.plus(hint.min(HINT_MAX)));
                }
                Heard::Attempt
            }
            Phase::Waiting | Phase::Shed | Phase::TimedOut => {
                state.phase = Phase::Ended;
                self.over += 1;
                Heard::End { late: false }
            }
        }
    }

    /// Times out attempts until `now`. All replies until then must have been noted. The first
    /// `sent` requests of the schedule have been sent.
    pub(crate) fn time_out(&mut self, now: Nanos, sent: u64) {
        while let Some(end) = self.first_end(sent).filter(|end| *end <= now) {
            self.time_out_one(self.timed_out, 0, end);
            self.timed_out += 1;
        }
        while let Some((end, id, attempt)) = self.waiting.front().copied().filter(|(end, ..)| *end <= now) {
            self.waiting.pop_front();
            self.time_out_one(id as usize, attempt, end);
        }
    }

    /// How many of the first `sent` requests had no reply in time until `now`. All replies until
    /// then must have been noted, and with retries all timeouts.
    pub(crate) fn lost(&mut self, now: Nanos, sent: u64) -> u64 {
        while !self.retry() && (self.timed_out as u64) < sent {
            let end = self.start.plus(self.schedule[self.timed_out].at).plus(self.timeout);
            if end > now {
                break;
            }
            self.lost += u64::from(!self.is_replied_to(self.timed_out));
            self.timed_out += 1;
        }
        self.lost
    }

    /// The next retry that is due by `now`; it then counts as sent.
    pub(crate) fn next_retry(&mut self, now: Nanos) -> Option<Retry> {
        while let Some(Reverse((due, id))) = self.backing_off.peek().copied().filter(|Reverse((due, _))| *due <= now) {
            self.backing_off.pop();
            let number = id as usize;
            let state = &mut self.states[number];
            let why = std::mem::replace(&mut state.phase, Phase::Waiting);
            if !matches!(why, Phase::Shed | Phase::TimedOut) {
                // Its client has heard from an earlier attempt meanwhile.
                state.phase = why;
                continue;
            }
            state.attempt += 1;
            let attempt = state.attempt;
            self.waiting.push_back((now.plus(self.timeout), id, attempt));
            if self.schedule[number].at >= self.warmup {
                self.counts.after_shed += u64::from(why == Phase::Shed);
                self.counts.after_timeout += u64::from(why == Phase::TimedOut);
                self.counts.late += u64::from(now.minus(due) > SLIP_LIMIT);
            }
            return Some(Retry { id: number, attempt });
        }
        None
    }

    /// When the next timeout or retry is due, if `sent` requests of the schedule have been sent.
    pub(crate) fn next_at(&self, sent: u64) -> Option<Nanos> {
        let waiting = self.waiting.front().map(|(end, ..)| *end);
        let backing_off = self.backing_off.peek().map(|Reverse((due, _))| *due);
        [self.first_end(sent), waiting, backing_off].into_iter().flatten().min()
    }

    /// The counts of a run that sent the first `sent` requests of the schedule.
    pub(crate) fn counts(&self, sent: u64) -> AttemptCounts {
        let AttemptCounts { answered, shed, refused, failed, .. } = self.counts;
        let first = self.schedule[..sent as usize].iter().filter(|request| request.at >= self.warmup).count() as u64;
        let sent = first + self.counts.retries();
        AttemptCounts { sent, unanswered: sent - answered - shed - refused - failed, ..self.counts }
    }

    /// When the oldest first attempt that still waits times out. `None` if none waits, or if no
    /// client gives up.
    fn first_end(&self, sent: u64) -> Option<Nanos> {
        let request = self.schedule.get(self.timed_out).filter(|_| self.retry() && (self.timed_out as u64) < sent)?;
        Some(self.start.plus(request.at).plus(self.timeout))
    }

    fn time_out_one(&mut self, id: usize, attempt: u8, end: Nanos) {
        let state = &mut self.states[id];
        if state.phase != Phase::Waiting || state.attempt != attempt {
            return;
        }
        if attempt == self.retrying.max {
            state.phase = Phase::GivenUp;
            self.over += 1;
            self.lost += 1;
        } else {
            self.back_off(id, Phase::TimedOut, end);
        }
    }

    /// Schedules the next attempt of request `id` after a pause from `from` on, for the reason
    /// `why`.
    fn back_off(&mut self, id: usize, why: Phase, from: Nanos) {
        let state = &mut self.states[id];
        state.phase = why;
        let due = from.plus(self.retrying.pause(self.seed, id, state.attempt));
        // A schedule has at most 50 million requests.
        self.backing_off.push(Reverse((due, id as u32)));
    }
}

impl AttemptCounts {
    /// The retries that were sent.
    pub fn retries(&self) -> u64 {
        self.after_shed + self.after_timeout
    }

    /// The counts of both together.
    pub(crate) fn plus(self, other: AttemptCounts) -> AttemptCounts {
        AttemptCounts {
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            shed: self.shed + other.shed,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            unanswered: self.unanswered + other.unanswered,
            after_shed: self.after_shed + other.after_shed,
            after_timeout: self.after_timeout + other.after_timeout,
            late: self.late + other.late,
        }
    }

    /// The mean number of attempts of a request.
    pub(crate) fn per_request(&self) -> f64 {
        self.sent as f64 / (self.sent - self.retries()).max(1) as f64
    }

    fn of(&mut self, ending: Ending) -> &mut u64 {
        match ending {
            Ending::Answered => &mut self.answered,
            Ending::Refused => &mut self.refused,
            Ending::Shed => &mut self.shed,
            Ending::Failed => &mut self.failed,
        }
    }
}

#[cfg(test)]
mod tests;
