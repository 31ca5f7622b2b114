//! `auto`: the levels of attained service that suit the measured service times and the measured cost of a yield. It has
//! hysteresis, and a reason to publish. Where they call for none, first come, first served.

pub mod estimate;
pub mod gittins;
mod objective;
pub mod stability;
mod tail;

pub use objective::Objective;

use super::ladder::{Ladder, Ladders};
use super::{Entry, Made, Measured, PolicyName, Tuning};
use crate::time::{Nanos, Steady};
use estimate::{Gap, ServiceTimes};
use std::fmt;

/// Why `auto` chose as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too few requests were measured.
    TooFew {
        /// Number of requests in the last seconds.
        requests: u64,
    },
    /// What has taken long ends as soon as what begins.
    Alike,
    /// No percentile of the latency gains by another order.
    InOrder,
    /// Requests pass no checkpoints, where they could give way.
    RunToCompletion,
    /// What has taken long should give way, but a yield costs more than that brings.
    YieldTooDear {
        /// The measured cost of a yield.
        yield_cost: Nanos,
        /// The CPU time that requests take before they would give way, in the mean.
        light: Nanos,
    },
    /// What has taken long is to give way.
    Levels {
        /// The measured cost of a yield.
        yield_cost: Nanos,
    },
    /// Requests take little of the time that go first, or much of it that no percentile counts.
    InOrderBut,
    /// A gap divides light from heavy requests, and yields are too dear for one at each arrival.
    Divided {
        /// The gap.
        gap: Gap,
        /// The measured cost of a yield.
        yield_cost: Nanos,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::TooFew { requests } => {
                write!(f, "{requests} requests in the last seconds are too few to judge by ({REQUESTS_MIN} are enough)")
            }
            Reason::Alike => {
                f.write_str("by the measured service times, what has taken long ends as soon as what begins")
            }
            Reason::InOrder => {
                f.write_str("for p99.9 of the latency, by the measured service times, first come is to go first")
            }
            Reason::InOrderBut => f.write_str(
                "for p99.9 of the latency, by the measured service times, first come is to go first, but for what takes little of the time and the longest of 2,000",
            ),
            Reason::RunToCompletion => f.write_str("requests pass no checkpoints, where they could give way"),
            Reason::YieldTooDear { yield_cost, light } => {
                write!(f, "a yield costs {yield_cost}, and light requests take {light}")
            }
            Reason::Levels { yield_cost } => {
                write!(
                    f,
                    "by the measured service times, what has taken long ends later, and a yield costs {yield_cost}"
                )
            }
            Reason::Divided { gap, yield_cost } => {
                write!(f, "service times divide at {} to {}, and a yield costs {yield_cost}", gap.below, gap.above)
            }
        }
    }
}

/// A choice of `auto`, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The policy to follow.
    pub policy: PolicyName,
    /// The levels of requests, where the measured service times call for some. A policy with none is first come, first
    /// served.
    pub ladders: Option<Ladders>,
    /// The reason for the choice.
    pub reason: Reason,
}

/// The state of `auto`: the decision in force, and the one that may replace it.
#[derive(Clone, Debug)]
pub struct Auto {
    objective: Objective,
    yield_cost: Nanos,
    /// What one queue for all costs a request.
    queue_cost: Nanos,
    current: Steady<Decision>,
    /// A different choice comes into force once it is the outcome of this many decisions in a row.
    in_a_row: u32,
    /// Decisions since the last change, or since `in_a_row` was last halved.
    unchanged: u32,
    /// Whether the decision in force rests on requests that are no more.
    is_outdated: bool,
}

/// Requests in the last seconds that are enough to judge by. A gap with one thin side needs more than this
/// (`estimate`); this is for the judgement that there is none.
const REQUESTS_MIN: u64 = 500;

/// What one queue for all costs a request at most, unscaled. The queue is a part of a yield, so it costs no more than a
/// yield. Yields may be dear for other reasons.
const QUEUE_COST_MAX: Nanos = Nanos::new(100);

/// The better order is worth that where a request takes this many times as long.
const QUEUES_PER_REQUEST: u64 = 20;

/// A different choice comes into force once it is the outcome of this many decisions in a row. Each change doubles the
/// number, up to the fourth, and an hour without one halves it. Near the bound between two choices, chance decides each
/// time. No margin is wide enough for a sample of which one request has a twentieth of the time. A shift of the mix is no
/// chance: after it the second decision that lets requests give way comes into force. A decision for first come, first
/// served gets no such credit. Heavy requests that come for a second now and then are a shift each time, and light ones must
/// stay ahead of them.
const DECISIONS_IN_A_ROW: u32 = 3;
const DECISIONS_AFTER_SHIFT: u32 = 2;
const DECISIONS_IN_A_ROW_MAX: u32 = 48;
const DECISIONS_UNCHANGED: u32 = 3_600;

impl Auto {
    /// The state of `auto` when nothing is known but what `tuning` says of the cost of a yield, the time scale and the
    /// objective.
    pub fn new(tuning: &Tuning) -> Auto {
        let Tuning { objective, yield_cost, .. } = *tuning;
        let queue_cost = yield_cost.min(tuning.scaled(QUEUE_COST_MAX));
        let current = Steady::new(Decision::of("levels", Reason::TooFew { requests: 0 }));
        Auto {
            objective,
            yield_cost,
            queue_cost,
            current,
            in_a_row: DECISIONS_IN_A_ROW,
            unchanged: 0,
            is_outdated: false,
        }
    }

    /// The decision in force.
    pub fn current(&self) -> &Decision {
        self.current.get()
    }

    /// Judges anew; returns the decision if it changes what is in force. To be called every second with what was measured
    /// in the last seconds.
    pub fn decide(&mut self, measured: &Measured) -> Option<&Decision> {
        self.unchanged += 1;
        if self.unchanged >= DECISIONS_UNCHANGED {
            (self.in_a_row, self.unchanged) = ((self.in_a_row / 2).max(DECISIONS_IN_A_ROW), 0);
        }
        self.is_outdated |= measured.has_shifted;
        let decision = self.judge(measured);
        let current = self.current.get();
        let (begins, too_few) = (current.is_start(), decision.is_start());
        // Too little to judge by is no reason to leave what was chosen on better grounds. Nor is that light requests alone
        // end while heavy ones are left: first come, first served would let them wait for these.
        let gave_way = begins || current.ladders.is_some();
        let would_wait = measured.are_left && decision.ladders.is_none() && gave_way;
        if decision.is_like(current) || too_few || would_wait {
            self.current.confirm();
            if begins {
                self.current.get_mut().reason = decision.reason;
            }
            self.is_outdated &= measured.has_shifted || too_few;
            return None;
        }
        let is_urgent = self.is_outdated && decision.ladders.is_some();
        let in_a_row = if is_urgent { DECISIONS_AFTER_SHIFT } else { self.in_a_row };
        // That older requests speak against it counts as one, where one more is not enough.
        let first = 1 + u32::from(measured.has_shifted && !is_urgent);
        // Any decision from measurements is better than one without any, or from those of other requests.
        let agree = |one: &Decision, other: &Decision| begins || is_urgent || one.is_like(other);
        if !self.current.differ(decision, first, in_a_row, agree) {
            return None;
        }
        // The first choice rests on a few seconds: to correct it is no change of mind.
        if !begins {
            self.in_a_row = (self.in_a_row * 2).min(DECISIONS_IN_A_ROW_MAX);
        }
        (self.unchanged, self.is_outdated) = (0, false);
        Some(self.current.get())
    }

    fn judge(&self, measured: &Measured) -> Decision {
        let Auto { objective, yield_cost, queue_cost, .. } = *self;
        let times = &measured.times;
        let requests = times.count();
        if requests < REQUESTS_MIN {
            return Decision::of("levels", Reason::TooFew { requests });
        }
        let alike = if times.mean() >= queue_cost.times(QUEUES_PER_REQUEST) { "global" } else { "steal" };
        if times.are_run_to_completion() {
            return Decision::of(alike, Reason::RunToCompletion);
        }
        let (one_level, levels) = match objective {
            Objective::Slowdown => (Reason::Alike, Reason::Levels { yield_cost }),
            Objective::Latency => (Reason::InOrder, Reason::InOrderBut),
        };
        let ladders = objective.ladders(measured, yield_cost);
        let Some(budget) = ladders.first_limit() else { return Decision::of(alike, one_level) };
        // Giving way at each arrival may cost 0.6 of a light request's time in its handler. Soft reservation may cost all
        // that a light request takes of its worker. (Simulated, with and without the kernel's part.)
        let light = mean_within(times, budget);
        if yield_cost.times(10) <= light.times(6) {
            return Decision { ladders: Some(ladders), ..Decision::of("levels", levels) };
        }
        let gap = times.widest_gap().filter(|gap| {
            let is_worth_it = budget.times(2) <= gap.above && yield_cost <= gap.below.plus(times.beside());
            is_worth_it && objective == Objective::Slowdown
        });
        match gap {
            Some(gap) => {
                let ladders = Some(Ladders::blind(Ladder::from_iter([budget])));
                Decision { ladders, ..Decision::of("hybrid", Reason::Divided { gap, yield_cost }) }
            }
            None => Decision::of(alike, Reason::YieldTooDear { yield_cost, light }),
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "auto",
    help: "levels, or first come first served, by what it measures",
    not_for: "experiments that compare policies: it changes",
    shares_sockets: true,
    adapts: true,
    settings: &["slice", "optimise", "reserved", "classify", "notices"],
    // As many decisions as it takes for a choice to come into force.
    constructor: |tuning| {
        let mut auto = Auto::new(tuning);
        if let Some(measured) = &tuning.measured {
            for _ in 0..DECISIONS_IN_A_ROW {
                auto.decide(measured);
            }
        }
        auto.current().make(tuning)
    },
    ..Entry::PLAIN
};

impl Decision {
    /// The policy of that name, without levels.
    fn of(policy: &str, reason: Reason) -> Decision {
        Decision { policy: PolicyName::named(policy), ladders: None, reason }
    }

    /// Whether nothing is known yet: requests give way once they have taken the budget that is set.
    fn is_start(&self) -> bool {
        matches!(self.reason, Reason::TooFew { .. })
    }

    /// The policy that was decided for, made from `tuning`.
    pub fn make(&self, tuning: &Tuning) -> Made {
        let measured = if self.is_start() { None } else { tuning.measured.clone() };
        let made = self.policy.entry().make(&Tuning { measured, ladders: self.ladders.clone(), ..tuning.clone() });
        let settings = if made.chosen.is_empty() { String::new() } else { format!(", {}", made.chosen) };
        let classes = self.ladders.as_ref().map(Ladders::classes_text).unwrap_or_default();
        let reason = format!("{}{classes}", self.reason);
        Made { chosen: format!("{}{settings}: {reason}", made.name), reason, ..made }
    }

    /// The budget of the policy that was decided for, if it has one that was measured: the end of the first level.
    pub fn budget(&self) -> Option<Nanos> {
        self.ladders.as_ref().and_then(Ladders::first_limit)
    }

    /// Whether `other` is the same policy, with limits that differ by no more than noise.
    fn is_like(&self, other: &Decision) -> bool {
        let ladders = match (&self.ladders, &other.ladders) {
            (Some(one), Some(other)) => one.are_like(other),
            (one, other) => one == other,
        };
        ladders && self.policy == other.policy && self.is_start() == other.is_start()
    }
}

/// The mean time that requests spend in their handlers within their first `budget` of CPU time.
fn mean_within(times: &ServiceTimes, budget: Nanos) -> Nanos {
    let within: f64 = times.bins().iter().map(|(took, count)| (*took).min(budget).get() as f64 * *count as f64).sum();
    Nanos::new((within / times.count().max(1) as f64) as u64)
}

#[cfg(test)]
mod tests;
