//! `auto`: chooses among `steal`, `global`, `hybrid` and `ondemand`, and their budget, from measured service times and
//! the measured cost of a yield; with hysteresis, and with a reason to publish.

use super::estimate::{Gap, ServiceTimes};
use super::{Entry, Made, Sizes, Tuning, global, hybrid, ondemand, steal};
use crate::time::Nanos;
use std::fmt;

/// A policy that `auto` may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nothing is known yet, or requests cost too little for one queue for all: each worker serves its own socket and
    /// helps the stuck.
    Steal,
    /// All requests are much alike, and long enough for one queue for all: first come, first served.
    Global,
    /// Heavy requests give way after slices, sooner on reserved workers.
    Hybrid {
        /// CPU time after which a request counts as heavy.
        budget: Nanos,
    },
    /// Heavy requests give way when a fresh one waits that finds no free worker.
    OnDemand {
        /// CPU time after which a request counts as heavy.
        budget: Nanos,
    },
}

/// Why `auto` chose as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too few requests were measured.
    TooFew {
        /// Number of requests in the last seconds.
        requests: u64,
    },
    /// No gap divides the service times.
    NoGap,
    /// There is a gap, but looking out for it would cost more than it brings.
    YieldTooDear {
        /// The measured cost of a yield.
        yield_cost: Nanos,
        /// The gap.
        gap: Gap,
    },
    /// A gap divides light from heavy requests.
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
            Reason::NoGap => f.write_str("no gap divides the measured service times"),
            Reason::YieldTooDear { yield_cost, gap } => {
                write!(f, "service times divide at {} to {}, but a yield costs {yield_cost}", gap.below, gap.above)
            }
            Reason::Divided { gap, yield_cost } => {
                write!(f, "service times divide at {} to {}, and a yield costs {yield_cost}", gap.below, gap.above)
            }
        }
    }
}

/// A choice of `auto`, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The policy to follow.
    pub choice: Choice,
    /// The reason for the choice.
    pub reason: Reason,
}

/// The state of `auto`: the decision in force, and the one that may replace it.
#[derive(Clone, Debug)]
pub struct Auto {
    yield_cost: Nanos,
    current: Decision,
    candidate: Option<(Choice, u32)>,
}

/// Requests in the last seconds that are enough to judge by. A gap with one thin side needs more than this
/// (`estimate`); this is for the judgement that there is none.
const REQUESTS_MIN: u64 = 500;

/// A budget is at least this many times the cost of a yield: with less, time sharing is worse than none.
const YIELDS_PER_BUDGET: u64 = 20;

/// A budget need be no more than this many times what light requests take: a light one that outruns it by accident
/// loses a yield, and every heavy request holds up the waiting ones for the length of the budget.
const LIGHTS_PER_BUDGET: u64 = 2;

/// A different choice comes into force once it is the outcome of this many decisions in a row.
const DECISIONS_IN_A_ROW: u32 = 3;

impl Auto {
    /// The state of `auto` when nothing is known but the cost of a yield.
    pub fn new(yield_cost: Nanos) -> Auto {
        let current = Decision { choice: Choice::Steal, reason: Reason::TooFew { requests: 0 } };
        Auto { yield_cost, current, candidate: None }
    }

    /// The decision in force.
    pub fn current(&self) -> Decision {
        self.current
    }

    /// Judges anew; returns the decision if it changes what is in force. To be called at regular intervals with the
    /// service times of the last seconds.
    pub fn decide(&mut self, times: &ServiceTimes) -> Option<Decision> {
        let Decision { choice, reason } = judge(times, self.yield_cost);
        // Too little to judge by is no reason to leave what was chosen on better grounds.
        if choice.is_like(self.current.choice) || matches!(reason, Reason::TooFew { .. }) {
            self.candidate = None;
            return None;
        }
        let times_in_a_row = match self.candidate {
            Some((candidate, times)) if choice.is_like(candidate) => times + 1,
            _ => 1,
        };
        if times_in_a_row < DECISIONS_IN_A_ROW {
            self.candidate = Some((choice, times_in_a_row));
            return None;
        }
        self.candidate = None;
        self.current = Decision { choice, reason };
        Some(self.current)
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "auto",
    literature: None,
    help: "one of steal, global, hybrid and ondemand, with the budget, by what it measures",
    needs_class: false,
    shares_sockets: true,
    has_budget: false,
    sizes: Sizes::None,
    adapts: true,
    // As many decisions as it takes for a choice to come into force.
    make: |tuning| {
        let mut auto = Auto::new(tuning.yield_cost);
        if let Some(measured) = &tuning.measured {
            for _ in 0..DECISIONS_IN_A_ROW {
                auto.decide(&measured.times);
            }
        }
        auto.current().make(tuning)
    },
};

impl Decision {
    /// The policy that was decided for, made from `tuning`.
    pub fn make(&self, tuning: &Tuning) -> Made {
        let (entry, budget) = match self.choice {
            Choice::Steal => (&steal::ENTRY, None),
            Choice::Global => (&global::ENTRY, None),
            Choice::Hybrid { budget } => (&hybrid::ENTRY, Some(budget)),
            Choice::OnDemand { budget } => (&ondemand::ENTRY, Some(budget)),
        };
        let made = (entry.make)(&Tuning { budget: budget.unwrap_or(tuning.budget), ..tuning.clone() });
        let settings = if made.chosen.is_empty() { String::new() } else { format!(", {}", made.chosen) };
        let reason = self.reason.to_string();
        Made { chosen: format!("{}{settings}: {reason}", entry.name), reason, ..made }
    }

    /// The budget of the policy that was decided for, if it has one.
    pub fn budget(&self) -> Option<Nanos> {
        match self.choice {
            Choice::Steal | Choice::Global => None,
            Choice::Hybrid { budget } | Choice::OnDemand { budget } => Some(budget),
        }
    }
}

impl Choice {
    /// Whether `other` is the same policy with a budget within a factor of two: less is noise.
    fn is_like(self, other: Choice) -> bool {
        match (self, other) {
            (Choice::Steal, Choice::Steal) | (Choice::Global, Choice::Global) => true,
            (Choice::Hybrid { budget: a }, Choice::Hybrid { budget: b })
            | (Choice::OnDemand { budget: a }, Choice::OnDemand { budget: b }) => a <= b.times(2) && b <= a.times(2),
            _ => false,
        }
    }
}

fn judge(times: &ServiceTimes, yield_cost: Nanos) -> Decision {
    // One queue for all costs a request as much as a yield. The better order is worth that as a budget is.
    let alike = if times.mean() >= yield_cost.times(YIELDS_PER_BUDGET) { Choice::Global } else { Choice::Steal };
    let undivided = |reason| Decision { choice: alike, reason };
    let requests = times.count();
    if requests < REQUESTS_MIN {
        return Decision { choice: Choice::Steal, reason: Reason::TooFew { requests } };
    }
    let Some(gap) = times.widest_gap() else { return undivided(Reason::NoGap) };
    let middle = Nanos::new(((gap.below.get() as f64) * (gap.above.get() as f64)).sqrt() as u64);
    let budget = middle.min(gap.below.times(LIGHTS_PER_BUDGET)).max(yield_cost.times(YIELDS_PER_BUDGET));
    // `ondemand` tolerates a yield cost of 0.6 of a light request's time in its handler, soft reservation one of all that
    // it takes of its worker (simulated, with and without the kernel's part).
    let light = gap.below.plus(times.beside());
    let choice = if budget.times(2) > gap.above || yield_cost > light {
        return undivided(Reason::YieldTooDear { yield_cost, gap });
    } else if yield_cost.times(10) <= gap.below.times(6) {
        Choice::OnDemand { budget }
    } else {
        Choice::Hybrid { budget }
    };
    Decision { choice, reason: Reason::Divided { gap, yield_cost } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn times(bins: &[(u64, u64)]) -> ServiceTimes {
        ServiceTimes::new(bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count)))
    }

    fn extreme() -> ServiceTimes {
        times(&[(500, 99_500), (500_000, 500)])
    }

    fn judged(times: &ServiceTimes, yield_ns: u64) -> Choice {
        judge(times, Nanos::new(yield_ns)).choice
    }

    #[test]
    fn the_cost_of_a_yield_decides_between_the_three() {
        assert!(matches!(judged(&extreme(), 150), Choice::OnDemand { .. }));
        assert!(matches!(judged(&extreme(), 450), Choice::Hybrid { .. }));
        assert_eq!(judged(&extreme(), 2_000), Choice::Steal);
        // Where a light request takes 3.18 us of its worker, the same yields cost it less.
        let charged = extreme().with_beside(Nanos::new(2_680));
        assert!(matches!(judged(&charged, 450), Choice::Hybrid { .. }));
        assert!(matches!(judged(&charged, 2_000), Choice::Hybrid { .. }));
        assert_eq!(judged(&charged, 4_000), Choice::Steal);
    }

    #[test]
    fn the_budget_lies_in_the_gap() {
        let Choice::OnDemand { budget } = judged(&extreme(), 100) else { panic!("on demand") };
        assert!(budget >= Nanos::new(1_000) && budget < Nanos::new(10_000), "{budget}");
        let Choice::OnDemand { budget } = judged(&times(&[(10_000, 900), (500_000, 1_100)]), 100) else {
            panic!("on demand")
        };
        assert!(budget > Nanos::new(10_000) && budget < Nanos::new(250_000), "{budget}");
    }

    #[test]
    fn alike_requests_and_narrow_gaps_are_first_come_first_served() {
        assert_eq!(judged(&times(&[(10_000, 50_000)]), 100), Choice::Global);
        assert_eq!(judged(&times(&[(1_000, 50_000)]), 100), Choice::Steal, "one queue costs too much");
        let charged = times(&[(1_000, 50_000)]).with_beside(Nanos::new(2_680));
        assert_eq!(judged(&charged, 100), Choice::Global, "not beside 2.68 us more");
        assert_eq!(
            judged(&times(&[(500, 9_000), (5_500, 1_000)]), 150),
            Choice::Steal,
            "20 yields outlast half the heavy"
        );
        assert_eq!(judged(&times(&[(500, 300), (500_000, 100)]), 100), Choice::Steal, "too few");
    }

    // Emulated cores measure service times exactly: would a real core's noise change what is chosen, and how far the budget?
    // Method: a spread of 1 %, and interruptions of 2.3 us or 46 us at 1,200 a second, as measured on a busy virtual machine.
    #[test]
    fn the_noise_of_a_real_clock_changes_no_choice() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        // Extreme and high bimodal, micropools, and two mixes for real cores: heavy requests in 10,000, and both costs.
        for (heavies, light, heavy) in [
            (50, 500, 500_000),
            (5_000, 1_000, 100_000),
            (1, 1_000, 2_000_000),
            (100, 10_000, 1_000_000),
            (50, 20_000, 10_000_000),
        ] {
            let mut budget = |interruption: u64| {
                let noisy = (0..400_000).map(|request| {
                    let exact = f64::from(if request % 10_000 < heavies { heavy } else { light });
                    let expected = exact * 1_200e-9;
                    let hits = expected.floor() + f64::from(u8::from(random.random::<f64>() < expected.fract()));
                    let took = exact * random.random_range(0.99..1.01) + hits * interruption as f64;
                    (Nanos::new(took as u64), 1)
                });
                match judged(&ServiceTimes::new(noisy.collect::<Vec<_>>()), 100) {
                    Choice::OnDemand { budget } => budget.get(),
                    other => panic!("{light} and {heavy} ns, interrupted for {interruption} ns: {other:?}"),
                }
            };
            let (exact, brief, long) = (budget(0), budget(2_300), budget(46_000));
            // Twice what light requests take, in half octaves, and some that were interrupted count among them.
            for (noisy, interruption) in [(brief, 2_300), (long, 46_000)] {
                let most = (exact + 2 * interruption) * 3 / 2;
                assert!(noisy >= exact && noisy <= most, "{light} and {heavy} ns: {noisy}, {exact} to {most}");
            }
        }
    }

    #[test]
    fn a_change_of_mind_takes_three_in_a_row() {
        let mut auto = Auto::new(Nanos::new(100));
        let alike = times(&[(10_000, 50_000)]);
        assert_eq!(auto.decide(&extreme()), None);
        assert_eq!(auto.decide(&extreme()), None);
        assert_eq!(auto.decide(&alike), None, "begins anew");
        assert_eq!(auto.decide(&extreme()), None);
        assert_eq!(auto.decide(&extreme()), None);
        let decision = auto.decide(&extreme()).expect("the third in a row");
        assert!(matches!(decision.choice, Choice::OnDemand { .. }));
        assert_eq!(auto.current(), decision);
        for _ in 0..5 {
            assert_eq!(auto.decide(&extreme()), None, "nothing new");
            assert_eq!(auto.decide(&ServiceTimes::default()), None, "silence changes nothing");
        }
        assert_eq!((auto.decide(&alike), auto.decide(&alike)), (None, None));
        assert_eq!(auto.decide(&alike).map(|decision| decision.choice), Some(Choice::Global));
    }
}
