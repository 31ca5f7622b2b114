//! `auto`: chooses levels by attained service (the CPU time that a request has used). It decides
//! from the measured service times and the measured cost of a yield. Hysteresis keeps decisions
//! stable, and each has a reason in words. If levels would not help, requests are served in order
//! of arrival.

pub mod gittins;
mod mixes;
mod predict;
mod tail;

use super::ladder::{Ladder, Ladders};
use super::tuning::{Measured, Objective, Tuning};
use crate::time::Nanos;
use mixes::Mixes;

/// A decision of `auto`, made once a second, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The levels of requests by CPU time. With a single level, no request yields.
    pub ladders: Ladders,
    /// Whether one queue serves requests of level 0 in order of arrival.
    pub in_order: bool,
    /// The reason of the decision, for people.
    pub reason: String,
    /// Whether too little is measured yet. Then requests yield after the configured slice.
    pub is_start: bool,
}

/// The state of `auto`: the current decision and the candidate to replace it.
#[derive(Clone, Debug)]
pub struct Auto {
    /// The settings and costs, without measurements.
    tuning: Tuning,
    /// The current decision.
    pub current: Decision,
    /// The last decision if it differs from the current one, and how many in a row agreed with it.
    other: Option<(Decision, u32)>,
    /// How many decisions in a row must agree before they replace the current one.
    in_a_row: u32,
    /// Decisions since the last change, or since `in_a_row` was last halved.
    unchanged: u32,
    /// Whether the current decision rests on a mix of requests that has since shifted.
    is_outdated: bool,
    /// The mixes of the last minutes.
    mixes: Mixes,
}

/// Least number of recent requests for a decision. To recognise a gap between light and heavy
/// requests, `estimate` also requires a least number on each side.
const REQUESTS_MIN: u64 = 500;

/// Hysteresis: how many decisions in a row must agree to replace the current one. If two choices
/// are almost equally good, chance decides each time. A margin would not help, because one request
/// may take a twentieth of the sampled time. So each change doubles the number, up to
/// [`DECISIONS_IN_A_ROW_MAX`], and an hour without a change halves it.
///
/// After a shift of the mix, [`DECISIONS_AFTER_SHIFT`] are enough for a decision that lets requests
/// yield. If the mix has come back ([`Mixes`]), one is enough. A decision for first come, first
/// served always takes the full number. Otherwise heavy requests that come for a second now and
/// then would cause it, and light ones would wait behind them.
const DECISIONS_IN_A_ROW: u32 = 3;
const DECISIONS_AFTER_SHIFT: u32 = 2;
const DECISIONS_IN_A_ROW_MAX: u32 = 48;
const DECISIONS_UNCHANGED: u32 = 3_600;

impl Auto {
    /// The state before any measurement. `tuning` gives the cost of a yield, the time scale and the
    /// objective.
    pub fn new(tuning: &Tuning) -> Auto {
        Auto {
            tuning: Tuning { measured: None, ..tuning.clone() },
            current: Decision::too_few(0, tuning.budget),
            other: None,
            in_a_row: DECISIONS_IN_A_ROW,
            unchanged: 0,
            is_outdated: false,
            mixes: Mixes::default(),
        }
    }

    /// The state as if the measurements in `tuning` had lasted long enough to be decisive.
    pub fn settled(tuning: &Tuning) -> Auto {
        let mut auto = Auto::new(tuning);
        for _ in 0..DECISIONS_IN_A_ROW {
            let _ = tuning.measured.as_ref().and_then(|measured| auto.decide(measured));
        }
        auto
    }

    /// Makes a new decision from the measurements of the last seconds. Returns it if it replaces
    /// the current one. Call it every second.
    pub fn decide(&mut self, measured: &Measured) -> Option<&Decision> {
        self.unchanged += 1;
        if self.unchanged >= DECISIONS_UNCHANGED {
            (self.in_a_row, self.unchanged) = ((self.in_a_row / 2).max(DECISIONS_IN_A_ROW), 0);
        }
        self.is_outdated |= measured.has_shifted;
        let decision = Decision::by(&self.tuning, measured);
        let Auto { tuning, mixes, .. } = self;
        // Under overload, what has ended is not representative of a mix.
        let together = match decision.is_start || measured.are_left {
            true => None,
            false => mixes.note(measured, &decision, |all| Decision::by(tuning, all)),
        };
        // The other mixes may add limits, but not take away the one that the current mix needs.
        let own = decision.ladders.first_limit();
        let together = together.filter(|all| {
            own.is_none_or(|own| all.ladders.first_limit().is_some_and(|limit| limit <= own || limit.is_near(own)))
        });
        let is_known = together.is_some();
        let decision = together.cloned().unwrap_or(decision);
        let current = &self.current;
        let (begins, too_few) = (current.is_start, decision.is_start);
        // A measured choice stays in force while too few requests arrive. It also stays if heavy
        // requests are left over, so that only light ones end. In order of arrival, light ones
        // would then wait for the heavy ones.
        let would_wait = measured.are_left && !decision.gives_way() && (begins || current.gives_way());
        let is_like = decision.is_like(current);
        if is_like || too_few || would_wait {
            self.other = None;
            if begins {
                self.current.reason = decision.reason;
            }
            self.is_outdated &= measured.has_shifted || too_few;
            return None;
        }
        let is_urgent = self.is_outdated && decision.gives_way();
        let in_a_row = match is_urgent {
            true if is_known => 1,
            true => DECISIONS_AFTER_SHIFT,
            false => self.in_a_row,
        };
        // In the second in which the mix shifts, a decision that needs the full number in a row
        // counts as two.
        let first = 1 + u32::from(measured.has_shifted && !is_urgent);
        // Decisions in a row must usually be alike. They need not be if the current decision rests
        // on no measurements, or on those of an earlier mix.
        let agrees = |other: &Decision| begins || is_urgent || other.is_like(&decision);
        let before = self.other.take().filter(|(other, _)| agrees(other));
        let count = before.map_or(first, |(_, count)| count + 1);
        if count < in_a_row {
            self.other = Some((decision, count));
            return None;
        }
        // To replace the initial decision, which rests on no measurements, does not count as a
        // change.
        if !begins {
            self.in_a_row = (self.in_a_row * 2).min(DECISIONS_IN_A_ROW_MAX);
        }
        (self.unchanged, self.is_outdated) = (0, false);
        self.current = decision;
        Some(&self.current)
    }
}

impl Decision {
    /// Decides to serve all requests in order of arrival. One queue for all workers keeps that
    /// order exactly. If workers have no time to pass each request on through a queue, one level
    /// keeps it roughly.
    fn in_order_of_arrival(tuning: &Tuning, measured: &Measured, reason: impl Into<String>) -> Decision {
        let in_order = tuning.has_time_to_pass_on(measured);
        Decision { in_order, ..Decision::of(Ladders::blind(Ladder::new(0)), reason) }
    }

    /// The decision from these measurements, whatever was decided before.
    fn by(tuning: &Tuning, measured: &Measured) -> Decision {
        let Tuning { objective, yield_cost, budget, .. } = *tuning;
        let times = &measured.times;
        let requests = times.count();
        if requests < REQUESTS_MIN {
            return Decision::too_few(requests, budget);
        }
        if times.run_to_completion {
            return Decision::in_order_of_arrival(
                tuning,
                measured,
                "requests pass no checkpoints, where they could give way",
            );
        }
        let by_index = objective.ladders(measured, yield_cost);
        let is_for_slowdown = objective == Objective::Slowdown && measured.of_class.is_none();
        let predicted = is_for_slowdown.then(|| predict::better_than(&by_index.all, times, tuning)).flatten();
        let is_predicted = predicted.is_some();
        let ladders = predicted.map_or(by_index, Ladders::blind);
        let Some(budget) = ladders.first_limit() else {
            return Decision::in_order_of_arrival(
                tuning,
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
        // The factor comes from simulations. Yields at each arrival pay if a yield costs at most
        // 0.6 of a light request's time in its handler.
        let light = times.handler_mean_within(budget);
        if yield_cost.times(10) <= light.times(6) {
            let reason = match objective {
                Objective::Slowdown if is_predicted => {
                    "by the measured service times, a limit is predicted to make p99.9 of the slowdown much lower"
                        .to_owned()
                }
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
        let reason = format!("a yield costs {yield_cost}, and light requests take {light}");
        Decision::in_order_of_arrival(tuning, measured, reason)
    }

    /// A decision for these levels, in which workers ask one another to yield.
    pub fn of(ladders: Ladders, reason: impl Into<String>) -> Decision {
        Decision { ladders, in_order: false, reason: reason.into(), is_start: false }
    }

    /// Requests yield after `budget`, whatever is measured.
    pub fn given(budget: Nanos) -> Decision {
        Decision::of(Ladders::blind(Ladder::from_iter([budget])), "the limit is the slice that is set")
    }

    /// The decision while too few requests are measured.
    fn too_few(requests: u64, budget: Nanos) -> Decision {
        let reason =
            format!("{requests} requests in the last seconds are too few to judge by ({REQUESTS_MIN} are enough)");
        Decision { is_start: true, reason, ..Decision::given(budget) }
    }

    /// Whether requests yield to others.
    pub(super) fn gives_way(&self) -> bool {
        self.ladders.first_limit().is_some()
    }

    /// Whether `other` decides the same, with limits that differ by noise only.
    fn is_like(&self, other: &Decision) -> bool {
        let plain = |decision: &Decision| (decision.in_order, decision.is_start);
        self.ladders.are_like(&other.ladders) && plain(self) == plain(other)
    }
}

impl Objective {
    /// The levels for the measured requests, where a yield costs `yield_cost`.
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

#[cfg(test)]
mod tests;
