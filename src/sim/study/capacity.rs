//! Searches that take many simulations: the load that a policy sustains, and the sizes of its pools.

use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::scenario::{Scenario, Simulation};
use crate::sched::Sizes;
use crate::sim::study::goal::Goal;

/// The highest load at which a goal is reached.
#[derive(Clone, Debug)]
pub(crate) struct Sustained {
    pub(crate) spec: PolicySpec,
    /// The load as a share of the capacity, in steps of a hundredth; 0 = not even 0.01.
    pub(crate) max_load: f64,
    /// The simulation at `max_load`, if that is not 0.
    pub(crate) at: Option<Simulation>,
}

/// Loads are searched in hundredths up to this one, which no policy sustains.
const HUNDREDTHS: u32 = 100;
/// Simulations that one search takes.
pub(crate) const SIMULATIONS: u64 = HUNDREDTHS.ilog2() as u64 + 1;

/// The highest load at which `spec` reaches `goal`, by bisection.
pub(crate) fn max_load(
    scenario: &Scenario<'_>,
    spec: PolicySpec,
    goal: &Goal,
    sizes: Option<&[usize]>,
    progress: &dyn Progress,
) -> Sustained {
    above(scenario, spec, goal, sizes, 0, progress)
}

/// The highest load at which `spec` reaches `goal` if it is above `floor` hundredths; else 0, after one simulation.
fn above(
    scenario: &Scenario<'_>,
    spec: PolicySpec,
    goal: &Goal,
    sizes: Option<&[usize]>,
    floor: u32,
    progress: &dyn Progress,
) -> Sustained {
    let (mut holds, mut fails, mut at) = (floor, HUNDREDTHS, None);
    // The first simulation shows whether the load is above the floor.
    let mut hundredths = if floor > 0 { floor + 1 } else { HUNDREDTHS / 2 };
    while fails - holds > 1 && hundredths < fails {
        let simulation = scenario.run(spec, f64::from(hundredths) / f64::from(HUNDREDTHS), sizes, progress);
        if goal.holds(&simulation.tally) {
            (holds, at) = (hundredths, Some(simulation));
        } else {
            fails = hundredths;
        }
        hundredths = holds.midpoint(fails);
    }
    let max_load = if at.is_some() { f64::from(holds) / f64::from(HUNDREDTHS) } else { 0.0 };
    Sustained { spec, max_load, at }
}

/// The highest load at which `spec` reaches `goal`, with the sizes that sustain most.
pub(crate) fn max_load_of_best(
    scenario: &Scenario<'_>,
    spec: PolicySpec,
    goal: &Goal,
    progress: &dyn Progress,
) -> Sustained {
    let begin = scenario.default_sizes(spec, 1.0);
    let Some(begin) = begin.filter(|sizes| sizes.len() == 2) else {
        return max_load(scenario, spec, goal, None, progress);
    };
    let mut best = max_load(scenario, spec, goal, Some(&begin), progress);
    climb(scenario.workers, first_most(scenario, spec), begin[0], |sizes| {
        let floor = (best.max_load * f64::from(HUNDREDTHS)).round() as u32;
        let found = above(scenario, spec, goal, Some(sizes), floor, progress);
        let better = found.max_load > best.max_load;
        if better {
            best = found;
        }
        better
    });
    best
}

/// `spec` at `load` with the sizes for which the figure of `goal` is lowest.
pub(crate) fn best_sizes(
    scenario: &Scenario<'_>,
    spec: PolicySpec,
    load: f64,
    goal: &Goal,
    progress: &dyn Progress,
) -> Simulation {
    let begin = scenario.default_sizes(spec, load);
    let Some(begin) = begin.filter(|sizes| sizes.len() == 2) else {
        return scenario.run(spec, load, None, progress);
    };
    let mut best = scenario.run(spec, load, Some(&begin), progress);
    climb(scenario.workers, scenario.workers - 1, begin[0], |sizes| {
        let found = scenario.run(spec, load, Some(sizes), progress);
        let better = goal.figure(&found.tally) < goal.figure(&best.tally);
        if better {
            best = found;
        }
        better
    });
    best
}

/// Sizes that do not improve before a direction is given up.
const PATIENCE: usize = 2;

/// The most workers of the first group: all of them where the others are no group of their own.
fn first_most(scenario: &Scenario<'_>, spec: PolicySpec) -> usize {
    if spec.sizes() == Sizes::Reserved { scenario.workers } else { scenario.workers - 1 }
}

/// Tries other sizes of two groups, away from `begin` in both directions, as long as that `improves`.
fn climb(workers: usize, most: usize, begin: usize, mut improves: impl FnMut(&[usize]) -> bool) {
    let up = begin + 1..=most;
    let down = (1..begin).rev();
    for fronts in [&mut { up } as &mut dyn Iterator<Item = usize>, &mut { down }] {
        let mut in_vain = 0;
        while in_vain < PATIENCE {
            let Some(front) = fronts.next() else { break };
            in_vain = if improves(&[front, workers - front]) { 0 } else { in_vain + 1 };
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
