//! Searches that take many simulations: the load that a policy sustains, and the sizes of its pools.

use super::judge::{Judged, Verdict};
use super::policy_spec::PolicySpec;
use super::scenario::Scenario;
use crate::lab::study::goal::Goal;
use crate::sched::Sizes;

/// The highest load at which a goal holds.
#[derive(Clone, Debug)]
pub(crate) struct Sustained {
    pub(crate) spec: PolicySpec,
    /// The load in hundredths of the capacity; 0 = not even 0.01 is known to be sustained.
    pub(crate) max_load: f64,
    /// The simulation at that load; `None` if no load is sustained.
    pub(crate) at: Option<Judged>,
    /// The next load above it, which fails or does not tell.
    pub(crate) beyond: f64,
    /// The simulation there; `None` at the end of the scale, which no policy sustains.
    pub(crate) not_at: Option<Judged>,
}

/// The upper end of the search in hundredths of the capacity, a load that no policy sustains.
const HUNDREDTHS: u32 = 100;
/// The number of simulations in one search.
pub(crate) const SIMULATIONS: u64 = HUNDREDTHS.ilog2() as u64 + 1;

/// The highest load at which `spec` reaches `goal`, by bisection: each load until it is known, or for the scenario's
/// requests. A load that is not decided counts as not sustained. If the highest load is not above `floor` hundredths, there
/// is none, after one simulation.
pub(crate) fn max_load(scenario: &Scenario<'_>, spec: PolicySpec, goal: &Goal, floor: u32) -> Sustained {
    let share = |hundredths: u32| f64::from(hundredths) / f64::from(HUNDREDTHS);
    let (mut holds, mut open) = (floor, HUNDREDTHS);
    let (mut at, mut not_at) = (None, None);
    // The first simulation decides whether the search is worthwhile.
    let mut hundredths = if floor > 0 { floor + 1 } else { HUNDREDTHS / 2 };
    while open - holds > 1 && hundredths < open {
        let judged = scenario.judge(spec, share(hundredths), goal, scenario.requests);
        if judged.verdict == Verdict::Holds {
            (holds, at) = (hundredths, Some(judged));
        } else {
            (open, not_at) = (hundredths, Some(judged));
        }
        hundredths = holds.midpoint(open);
    }
    let max_load = if at.is_some() { share(holds) } else { 0.0 };
    Sustained { spec, max_load, at, beyond: share(open), not_at }
}

/// The highest load of `spec` with the sizes that sustain most.
pub(crate) fn max_load_of_best(scenario: &Scenario<'_>, spec: PolicySpec, goal: &Goal) -> Sustained {
    let sizes = scenario.default_sizes(spec, 1.0).unwrap_or_default();
    let &[begin, rest] = sizes.as_slice() else { return max_load(scenario, spec, goal, 0) };
    let of = |sizes: [usize; 2], floor| {
        max_load(&Scenario { sizes: Some(sizes.into()), ..scenario.clone() }, spec, goal, floor)
    };
    let mut best = of([begin, rest], 0);
    // The first group may have all workers where the others are not a group of their own.
    let most = scenario.workers - usize::from(spec.sizes() != Sizes::Reserved);
    climb(scenario.workers, most, begin, |sizes| {
        let floor = (best.max_load * f64::from(HUNDREDTHS)).round() as u32;
        let found = of(sizes, floor);
        let better = found.max_load > best.max_load;
        if better {
            best = found;
        }
        better
    });
    best
}

/// The number of sizes without improvement after which a direction is abandoned.
const PATIENCE: usize = 2;

/// Tries other sizes of two groups, away from `begin` in both directions, while they improve according to `improves`.
fn climb(workers: usize, most: usize, begin: usize, mut improves: impl FnMut([usize; 2]) -> bool) {
    let up = begin + 1..=most;
    let down = (1..begin).rev();
    for fronts in [&mut { up } as &mut dyn Iterator<Item = usize>, &mut { down }] {
        let mut in_vain = 0;
        while in_vain < PATIENCE {
            let Some(front) = fronts.next() else { break };
            in_vain = if improves([front, workers - front]) { 0 } else { in_vain + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbing_finds_the_top_on_either_side() {
        for (begin, top) in [(3, 9), (9, 3), (5, 5), (1, 13), (13, 1)] {
            let mut best = begin;
            climb(14, 13, begin, |sizes| {
                assert_eq!(sizes.iter().sum::<usize>(), 14);
                let better = sizes[0].abs_diff(top) < best.abs_diff(top);
                if better {
                    best = sizes[0];
                }
                better
            });
            assert_eq!(best, top, "from {begin}");
        }
    }
}
