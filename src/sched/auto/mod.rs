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

/// A choice of `auto`, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The policy to follow.
    pub policy: PolicyName,
    /// The levels of requests, where the policy has levels.
    pub ladders: Option<Ladders>,
    /// The reason for the choice.
    pub reason: String,
    /// Whether nothing is known yet: requests give way once they have taken the budget that is set.
    is_start: bool,
}

/// The state of `auto`: the decision in force, and the one that may replace it.
#[derive(Clone, Debug)]
pub struct Auto {
    /// What is not measured.
    tuning: Tuning,
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
        let current = Steady::new(Decision::too_few(0));
        Auto {
            tuning: Tuning { measured: None, ..tuning.clone() },
            current,
            in_a_row: DECISIONS_IN_A_ROW,
            unchanged: 0,
            is_outdated: false,
        }
    }

    /// The same, where what `tuning` has measured has been so for as many decisions as it takes to come into force.
    pub fn settled(tuning: &Tuning) -> Auto {
        let mut auto = Auto::new(tuning);
        for _ in 0..DECISIONS_IN_A_ROW {
            let _ = tuning.measured.as_ref().and_then(|measured| auto.decide(measured));
        }
        auto
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
        let (begins, too_few) = (current.is_start, decision.is_start);
        // Too little to judge by is no reason to leave what was chosen on better grounds. Nor is that light requests alone
        // end while heavy ones are left: first come, first served would let them wait for these.
        let would_wait = measured.are_left && !decision.gives_way() && (begins || current.gives_way());
        if decision.is_like(current) || too_few || would_wait {
            self.current.confirm();
            if begins {
                self.current.get_mut().reason = decision.reason;
            }
            self.is_outdated &= measured.has_shifted || too_few;
            return None;
        }
        let is_urgent = self.is_outdated && decision.gives_way();
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

    /// What serves requests of which none is to give way. One queue keeps the order of arrival; where there is no time to pass
    /// each request on, it is one level.
    fn in_order_of_arrival(&self, measured: &Measured, reason: impl Into<String>) -> Decision {
        if self.tuning.has_time_to_pass_on(measured) {
            return Decision::of("global", reason);
        }
        let one = Ladders::blind(Ladder::new(0));
        Decision { ladders: Some(one), ..Decision::of("levels", reason) }
    }

    fn judge(&self, measured: &Measured) -> Decision {
        let Tuning { objective, yield_cost, .. } = self.tuning;
        let times = &measured.times;
        let requests = times.count();
        if requests < REQUESTS_MIN {
            return Decision::too_few(requests);
        }
        if times.are_run_to_completion() {
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
        // Giving way at each arrival may cost 0.6 of a light request's time in its handler. Soft reservation may cost all
        // that a light request takes of its worker. (Simulated, with and without the kernel's part.)
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
            return Decision { ladders: Some(ladders), ..Decision::of("levels", reason) };
        }
        let gap = times.widest_gap().filter(|gap| {
            let is_worth_it = budget.times(2) <= gap.above && yield_cost <= gap.below.plus(times.beside());
            is_worth_it && objective == Objective::Slowdown
        });
        let Some(Gap { below, above }) = gap else {
            let reason = format!("a yield costs {yield_cost}, and light requests take {light}");
            return self.in_order_of_arrival(measured, reason);
        };
        let reason = format!("service times divide at {below} to {above}, and a yield costs {yield_cost}");
        let ladders = Some(Ladders::blind(Ladder::from_iter([budget])));
        Decision { ladders, ..Decision::of("hybrid", reason) }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "auto",
    help: "levels, or first come first served, by what it measures",
    not_for: "experiments that compare policies: it changes",
    shares_sockets: true,
    adapts: true,
    settings: &["slice", "optimise", "reserved", "classify", "notices"],
    constructor: |tuning| Auto::settled(tuning).current().make(tuning),
    ..Entry::PLAIN
};

impl Decision {
    /// The policy of that name, without levels.
    fn of(policy: &str, reason: impl Into<String>) -> Decision {
        Decision { policy: PolicyName::named(policy), ladders: None, reason: reason.into(), is_start: false }
    }

    /// What is decided of too few requests.
    fn too_few(requests: u64) -> Decision {
        let reason =
            format!("{requests} requests in the last seconds are too few to judge by ({REQUESTS_MIN} are enough)");
        Decision { is_start: true, ..Decision::of("levels", reason) }
    }

    /// The policy that was decided for, made from `tuning`.
    pub fn make(&self, tuning: &Tuning) -> Made {
        let measured = if self.is_start { None } else { tuning.measured.clone() };
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

    /// Whether requests give way to others.
    fn gives_way(&self) -> bool {
        self.budget().is_some()
    }

    /// Whether `other` is the same policy, with limits that differ by no more than noise.
    fn is_like(&self, other: &Decision) -> bool {
        let ladders = match (&self.ladders, &other.ladders) {
            (Some(one), Some(other)) => one.are_like(other),
            (one, other) => one == other,
        };
        ladders && self.policy == other.policy && self.is_start == other.is_start
    }
}

/// The mean time that requests spend in their handlers within their first `budget` of CPU time.
fn mean_within(times: &ServiceTimes, budget: Nanos) -> Nanos {
    let within: f64 = times.bins().iter().map(|(took, count)| (*took).min(budget).get() as f64 * *count as f64).sum();
    Nanos::new((within / times.count().max(1) as f64) as u64)
}

#[cfg(test)]
mod tests;
