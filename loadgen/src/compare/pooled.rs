//! The runs of one policy, or of one running server, over all rounds as one sample.

use crate::compare::ComparedRun;
use crate::lab::stats::{Block, Bounds, Interval, Sample};
use crate::report::by_class::ByClass;
use crate::report::run_result::RunResult;
use forebay::metrics::{ALL_CLASSES, Percentile};
use serde::Serialize;

/// The combined figures of one arm, which is a policy or a server. Slowdowns (latency over cost)
/// are compared; if costs are not known, latencies are.
#[derive(Debug, Serialize)]
pub(crate) struct Arm {
    /// The policy's name, numbered if it was named twice.
    pub(crate) arm: String,
    /// The number of runs that count, and the number of all runs.
    pub(crate) valid: [usize; 2],
    /// The percentiles of the slowdown over all runs that count. If none counts, over all runs;
    /// then no percentile is known.
    #[serde(skip_serializing_if = "ByClass::is_empty")]
    pub(crate) slowdown: ByClass<Block>,
    /// The same of the latency in microseconds.
    pub(crate) latency_us: ByClass<Block>,
    /// The percentiles of the same requests in virtual time, if they were simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<ByClass<Block>>,
    /// The percentiles that a late host may have raised: they are upper bounds.
    pub(crate) at_most: ByClass<Vec<&'static str>>,
}

impl Arm {
    /// All arms of `runs`, in the order of the flags.
    pub(crate) fn all(runs: &[ComparedRun]) -> Vec<Arm> {
        by_arm(runs).iter().map(|(arm, runs)| Arm::of(arm, runs)).collect()
    }

    fn of(arm: &str, runs: &[&ComparedRun]) -> Arm {
        let valid: Vec<&ComparedRun> = runs.iter().copied().filter(|run| counts(run)).collect();
        let used = if valid.is_empty() { runs } else { &valid[..] };
        let memory = used[0].report.result.memory;
        let pooled = |of: &dyn Fn(&ComparedRun) -> Option<ByClass<Sample>>| {
            let samples: Vec<_> = used.iter().filter_map(|run| of(run)).collect();
            let joined = |class: &str| {
                Sample::joined(&samples.iter().filter_map(|all| all.of(class)).cloned().collect::<Vec<_>>())
            };
            let all = joined(ALL_CLASSES).count().max(1) as f64;
            let block = |class| {
                let sample = joined(class);
                (class, sample.block(memory.of_share(sample.count() as f64 / all)))
            };
            let classes = samples.first()?.0.iter().map(|(class, _)| *class);
            Some(ByClass(classes.map(block).collect()))
        };
        let unknown = |block: &Block| block.bounded(Bounds::new(|_| Interval::UNKNOWN));
        let measured = |of: fn(&RunResult) -> &ByClass<Sample>| {
            let blocks = pooled(&|run| Some(of(&run.report.result).clone())).expect("there is a run");
            if valid.is_empty() { blocks.map(unknown) } else { blocks }
        };
        let (slowdown, latency_us) = (measured(|result| &result.slowdowns), measured(|result| &result.latencies));
        let simulated = pooled(&|run| Some(run.simulated.as_ref()?.slowdowns.clone()));
        let at_most = latency_us.0.iter().map(|(class, _)| {
            let is_raised = |percentile: &Percentile| {
                used.iter().map(|run| run.report.compared_within(class, *percentile)).any(|seen| seen.low < seen.high)
            };
            (*class, Percentile::ALL.into_iter().filter(is_raised).map(Percentile::name).collect())
        });
        let at_most = ByClass(at_most.collect());
        Arm { arm: arm.to_owned(), valid: [valid.len(), runs.len()], slowdown, latency_us, simulated, at_most }
    }

    /// The figure to compare: the slowdown, or the latency if costs are not known.
    pub(crate) fn compared(&self) -> &ByClass<Block> {
        if self.slowdown.is_empty() { &self.latency_us } else { &self.slowdown }
    }

    /// The name and unit of that figure, for text.
    pub(crate) fn figure(&self) -> &'static str {
        if self.slowdown.is_empty() { "latency, us" } else { "slowdown" }
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

/// Whether the figures of `run` are right, or at least upper bounds.
pub(crate) fn counts(run: &ComparedRun) -> bool {
    run.report.verdict.is_usable()
}
