//! `auto`: the levels of attained service that suit the measured service times and the measured
//! cost of a yield. It has hysteresis, and a reason to publish. Where they call for none, first
//! come, first served.

pub mod gittins;
mod tail;

use super::estimate::{Gap, ServiceTimes, softly_reserved_workers};
use super::ladder::{Ladder, Ladders};
use super::tuning::{Measured, Objective, Tuning};
use crate::time::Nanos;

/// What is decided once a second from what was measured, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where requests change their level. With one level none gives way.
    pub ladders: Ladders,
    /// Whether requests of level 0 are served in the order in which they came, from one queue.
    pub in_order: bool,
    /// Workers whose heavy requests watch closely for fresh ones (soft reservation); `None` = all.
    pub watchers: Option<usize>,
    /// The reason.
    pub reason: String,
    /// Whether nothing is known yet: requests give way once they have taken the budget that is set.
    pub is_start: bool,
}

/// The state of `auto`: the decision in force, and the one that may replace it.
#[derive(Clone, Debug)]
pub struct Auto {
    /// What is not measured.
    tuning: Tuning,
    /// The decision in force.
    pub current: Decision,
    /// The last decision, where it differs from the one in force, and how many in a row agree with
    /// it.
    other: Option<(Decision, u32)>,
    /// A different choice comes into force once it is the outcome of this many decisions in a row.
    in_a_row: u32,
    /// Decisions since the last change, or since `in_a_row` was last halved.
    unchanged: u32,
    /// Whether the decision in force rests on requests that are no more.
    is_outdated: bool,
}

/// Requests in the last seconds that are enough to judge by. A gap with one thin side needs more
/// than this (`estimate`); this is for the judgement that there is none.
const REQUESTS_MIN: u64 = 500;

/// A different choice comes into force once it is the outcome of this many decisions in a row. Each
/// change doubles the number, up to the fourth, and an hour without one halves it. Near the bound
/// between two choices, chance decides each time. No margin is wide enough for a sample of which
/// one request has a twentieth of the time. A shift of the mix is no chance: after it the second
/// decision that lets requests give way comes into force. A decision for first come, first served
/// gets no such credit. Heavy requests that come for a second now and then are a shift each time,
/// and light ones must stay ahead of them.
const DECISIONS_IN_A_ROW: u32 = 3;
const DECISIONS_AFTER_SHIFT: u32 = 2;
const DECISIONS_IN_A_ROW_MAX: u32 = 48;
const DECISIONS_UNCHANGED: u32 = 3_600;

impl Auto {
    /// The state of `auto` when nothing is known but what `tuning` says of the cost of a yield, the
    /// time scale and the objective.
    pub fn new(tuning: &Tuning) -> Auto {
        Auto {
            tuning: Tuning { measured: None, ..tuning.clone() },
            current: Decision::too_few(0, tuning.budget),
            other: None,
            in_a_row: DECISIONS_IN_A_ROW,
            unchanged: 0,
            is_outdated: false,
        }
    }

    /// The same, where what `tuning` has measured has been so for as many decisions as it takes to
    /// come into force.
    pub fn settled(tuning: &Tuning) -> Auto {
        let mut auto = Auto::new(tuning);
        for _ in 0..DECISIONS_IN_A_ROW {
            let _ = tuning.measured.as_ref().and_then(|measured| auto.decide(measured));
        }
        auto
    }

    /// Judges anew; returns the decision if it changes what is in force. To be called every second
    /// with what was measured in the last seconds.
    pub fn decide(&mut self, measured: &Measured) -> Option<&Decision> {
        self.unchanged += 1;
        if self.unchanged >= DECISIONS_UNCHANGED {
            (self.in_a_row, self.unchanged) = ((self.in_a_row / 2).max(DECISIONS_IN_A_ROW), 0);
        }
        self.is_outdated |= measured.has_shifted;
        let decision = self.judge(measured);
        let current = &self.current;
        let (begins, too_few) = (current.is_start, decision.is_start);
        // Too little to judge by is no reason to leave what was chosen on better grounds. Nor is
        // that light requests alone end while heavy ones are left: first come, first served would
        // let them wait for these.
        let would_wait = measured.are_left && !decision.gives_way() && (begins || current.gives_way());
        let is_like = decision.is_like(current);
        if is_like || too_few || would_wait {
            self.other = None;
            if is_like {
                self.current.watchers = decision.watchers;
            }
            if begins {
                self.current.reason = decision.reason;
            }
            self.is_outdated &= measured.has_shifted || too_few;
            return None;
        }
        let is_urgent = self.is_outdated && decision.gives_way();
        let in_a_row = if is_urgent { DECISIONS_AFTER_SHIFT } else { self.in_a_row };
        // That older requests speak against it counts as one, where one more is not enough.
        let first = 1 + u32::from(measured.has_shifted && !is_urgent);
        // Any decision from measurements is better than one without any, or from those of other
        // requests.
        let agrees = |other: &Decision| begins || is_urgent || other.is_like(&decision);
        let before = self.other.take().filter(|(other, _)| agrees(other));
        let count = before.map_or(first, |(_, count)| count + 1);
        if count < in_a_row {
            self.other = Some((decision, count));
            return None;
        }
        // The first choice rests on a few seconds: to correct it is no change of mind.
        if !begins {
            self.in_a_row = (self.in_a_row * 2).min(DECISIONS_IN_A_ROW_MAX);
        }
        (self.unchanged, self.is_outdated) = (0, false);
        self.current = decision;
        Some(&self.current)
    }

    /// What serves requests of which none is to give way. One queue keeps the order of arrival;
    /// where there is no time to pass each request on, it is one level.
    fn in_order_of_arrival(&self, measured: &Measured, reason: impl Into<String>) -> Decision {
        let in_order = self.tuning.has_time_to_pass_on(measured);
        Decision { in_order, ..Decision::of(Ladders::blind(Ladder::new(0)), reason) }
    }

    fn judge(&self, measured: &Measured) -> Decision {
        let Tuning { objective, yield_cost, .. } = self.tuning;
        let times = &measured.times;
        let requests = times.count();
        if requests < REQUESTS_MIN {
            return Decision::too_few(requests, self.tuning.budget);
        }
        if times.run_to_completion {
            return self.in_order_of_arrival(measured, "requests pass no checkpoints, where they could give way");
        }
        let ladders = objective.ladders(measured, yield_cost);
        let Some(budget) = ladders.first_limit() else {
            return self.in_order_of_arrival(
                measured,
                match objective {
                    Objective::Slowdown => {
                        "by the measured service times, what has taken long ends as soon as what begins"
                    }
                    Objective::Latency => {
                        "for p99.9 of the latency, by the measured service times, first come is to go first"
                    }
                },
            );
        };
        // Giving way at each arrival may cost 0.6 of a light request's time in its handler. Soft
        // reservation may cost all that a light request takes of its worker. (Simulated, with and
        // without the kernel's part.)
        let light = mean_within(times, budget);
        if yield_cost.times(10) <= light.times(6) {
            let reason = match objective {
                Objective::Slowdown => {
                    format!(
                        "by the measured service times, what has taken long ends later, and a yield costs {yield_cost}"
                    )
                }
                Objective::Latency => {
                    "for p99.9 of the latency, by the measured service times: first come, first served; \
                                       short requests first, the longest of 2,000 last"
                        .to_owned()
                }
            };
            return Decision { in_order: objective == Objective::Latency, ..Decision::of(ladders, reason) };
        }
        let gap = times.widest_gap().filter(|gap| {
            let is_worth_it = budget.times(2) <= gap.above && yield_cost <= gap.below.plus(times.beside);
            is_worth_it && objective == Objective::Slowdown
        });
        let Some(Gap { below, above }) = gap else {
            let reason = format!("a yield costs {yield_cost}, and light requests take {light}");
            return self.in_order_of_arrival(measured, reason);
        };
        let reason = format!("service times divide at {below} to {above}, and a yield costs {yield_cost}");
        let watchers = softly_reserved_workers(times, budget, measured.busy_workers, self.tuning.workers);
        Decision { watchers: Some(watchers), ..Decision::of(Ladders::blind(Ladder::from_iter([budget])), reason) }
    }
}

impl Decision {
    /// That requests go by these levels, and workers ask one another to step aside.
    pub fn of(ladders: Ladders, reason: impl Into<String>) -> Decision {
        Decision { ladders, in_order: false, watchers: None, reason: reason.into(), is_start: false }
    }

    /// That requests give way once they have taken `budget`, whatever is measured.
    pub fn given(budget: Nanos) -> Decision {
        Decision::of(Ladders::blind(Ladder::from_iter([budget])), "the limit is the slice that is set")
    }

    /// What is decided of too few requests.
    fn too_few(requests: u64, budget: Nanos) -> Decision {
        let reason =
            format!("{requests} requests in the last seconds are too few to judge by ({REQUESTS_MIN} are enough)");
        Decision { is_start: true, reason, ..Decision::given(budget) }
    }

    /// Whether requests give way to others.
    pub(super) fn gives_way(&self) -> bool {
        self.ladders.first_limit().is_some()
    }

    /// Whether `other` is the same policy, with limits that differ by no more than noise.
    fn is_like(&self, other: &Decision) -> bool {
        let plain = |decision: &Decision| (decision.in_order, decision.watchers.is_some(), decision.is_start);
        self.ladders.are_like(&other.ladders) && plain(self) == plain(other)
    }
}

impl Objective {
    /// The levels of requests of which this was measured, where a yield costs `yield_cost`.
    pub(crate) fn ladders(self, measured: &Measured, yield_cost: Nanos) -> Ladders {
        let by_index = |of_class| gittins::ladders(&measured.times, of_class, yield_cost);
        match self {
            Objective::Slowdown => by_index(measured.of_class.as_deref()),
            Objective::Latency => {
                Ladders::blind(tail::ladder(&measured.times, by_index(None).all.limits(), yield_cost))
            }
        }
    }
}

/// The mean time that requests spend in their handlers within their first `budget` of CPU time.
fn mean_within(times: &ServiceTimes, budget: Nanos) -> Nanos {
    let within: f64 = times.bins.iter().map(|(took, count)| (*took).min(budget).get() as f64 * *count as f64).sum();
    Nanos::new((within / times.count().max(1) as f64) as u64)
}

#[cfg(test)]
mod tests;
