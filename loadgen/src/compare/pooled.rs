//! The runs of one policy over all rounds, as one sample.

use crate::compare::ComparedRun;
use crate::report::by_class::ByClass;
use crate::report::validity::Validity;
use forebay::lab::stats::{Interval, Sample};
use forebay::metrics::{ALL_CLASSES, Block, Bounds};
use serde::Serialize;

/// The slowdowns (latency over cost) under one policy.
#[derive(Debug, Serialize)]
pub(crate) struct Arm {
    /// The name of its runs.
    pub(crate) arm: String,
    /// The number of VALID runs, and of all.
    pub(crate) valid: [usize; 2],
    /// The percentiles over the VALID runs together; where none is VALID, over all of them, and none is known.
    pub(crate) slowdown: ByClass<Block>,
}

impl Arm {
    /// All arms of `runs`, in the order of the flags.
    pub(crate) fn all(runs: &[ComparedRun]) -> Vec<Arm> {
        by_arm(runs).iter().map(|(arm, runs)| Arm::of(arm, runs)).collect()
    }

    fn of(arm: &str, runs: &[&ComparedRun]) -> Arm {
        let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| is_valid(run)).collect();
        let used = if valid.is_empty() { runs } else { &valid[..] };
        let joined = |class: &str| {
            let samples = used.iter().filter_map(|run| run.report.result.slowdowns.of(class)).cloned();
            Sample::joined(&samples.collect::<Vec<_>>())
        };
        let all = joined(ALL_CLASSES).count().max(1) as f64;
        let memory = used[0].report.result.memory;
        let classes = used[0].report.result.slowdowns.0.iter().map(|(class, _)| {
            let sample = joined(class);
            let block = sample.block(memory.of_share(sample.count() as f64 / all));
            let unknown = || Bounds::new(|_| Interval::UNKNOWN);
            (*class, if valid.is_empty() { block.bounded(unknown()) } else { block })
        });
        Arm { arm: arm.to_owned(), valid: [valid.len(), runs.len()], slowdown: ByClass(classes.collect()) }
    }
}

/// The runs of each arm in the order of the rounds, the arms in the order of the flags.
pub(crate) fn by_arm(runs: &[ComparedRun]) -> Vec<(&str, Vec<&ComparedRun>)> {
    let mut arms: Vec<(&str, Vec<&ComparedRun>)> = Vec::new();
    for run in runs {
        match arms.iter_mut().find(|(arm, _)| *arm == run.arm) {
            Some((_, runs)) => runs.push(run),
            None => arms.push((&run.arm, vec![run])),
        }
    }
    arms
}

pub(crate) fn is_valid(run: &ComparedRun) -> bool {
    run.report.verdict == Validity::Valid
}
