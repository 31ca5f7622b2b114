//! The runs of one policy over all rounds, as one sample.

use crate::compare::ComparedRun;
use crate::report::by_class::ByClass;
use crate::report::json::as_text;
use crate::report::validity::Validity;
use forebay::lab::stats::Sample;
use forebay::metrics::{Block, Bounds, Percentile};
use serde::Serialize;

/// The slowdowns (latency over cost) under one policy.
#[derive(Debug, Serialize)]
pub(crate) struct Arm {
    /// The name of its runs.
    pub(crate) arm: String,
    /// The number of VALID runs, and of all.
    pub(crate) valid: [usize; 2],
    /// The percentiles over the VALID runs together; where none is VALID, over all of them, and none is known.
    pub(crate) slowdown: ByClass<Figures>,
}

/// The percentiles of a class, in the order of [`Percentile::ALL`].
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

/// One percentile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    #[serde(serialize_with = "as_text")]
    pub(crate) percentile: Percentile,
    /// `None` where too many requests were not answered.
    pub(crate) value: Option<f64>,
    /// The lower end of its 95 % interval.
    pub(crate) low: f64,
    /// The upper end; `None` without one.
    pub(crate) high: Option<f64>,
    /// Whether the interval is narrow enough, and the runs are VALID.
    pub(crate) known: bool,
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
        let all = joined(forebay::metrics::ALL_CLASSES).count().max(1) as f64;
        let memory = used[0].report.result.memory;
        let classes = used[0].report.result.slowdowns.0.iter().map(|(class, _)| {
            let sample = joined(class);
            let bounds = sample.bounds(memory.of_share(sample.count() as f64 / all));
            let mut figures = Figures::new(bounds, |percentile| sample.quantile(percentile.quantile()));
            figures.0.iter_mut().for_each(|figure| figure.known &= !valid.is_empty());
            (*class, figures)
        });
        Arm { arm: arm.to_owned(), valid: [valid.len(), runs.len()], slowdown: ByClass(classes.collect()) }
    }
}

impl Figures {
    fn new(bounds: Bounds, value: impl Fn(Percentile) -> f64) -> Figures {
        let figure = |percentile: Percentile| {
            let interval = bounds.interval(percentile);
            Figure {
                percentile,
                value: Some(value(percentile)).filter(|value| value.is_finite()),
                low: interval.low,
                high: Some(interval.high).filter(|high| high.is_finite()),
                known: bounds.supports(percentile),
            }
        };
        Figures(Percentile::ALL.map(figure).to_vec())
    }

    /// The percentiles of `block`, which has bounds.
    pub(crate) fn of_block(block: &Block) -> Figures {
        let bounds = block.bounds.expect("the order of the values was known");
        Figures::new(bounds, |percentile| block.percentile(percentile).unwrap_or(f64::INFINITY))
    }

    pub(crate) fn of(&self, percentile: Percentile) -> &Figure {
        &self.0[percentile as usize]
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
