//! Distributions measured over some time, for readers.

use super::Stage;
use super::distribution::Distribution;
use super::histograms::Histograms;
use crate::fate::CLASSES;
use hdrhistogram::Counter;

/// All distributions measured over some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Distributions of each class, by class number.
    pub(crate) classes: [ClassMeasured; CLASSES],
    /// Overshoot of sleeps, in nanoseconds.
    pub(crate) overshoot: Distribution,
}

/// The distributions of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassMeasured {
    /// Times in nanoseconds, indexed by `Stage as usize`.
    pub(crate) stages: [Distribution; Stage::ALL.len()],
    /// Slowdowns in thousandths.
    pub(crate) slowdown: Distribution,
}

impl<C: Counter> From<&Histograms<C>> for Measured {
    fn from(histograms: &Histograms<C>) -> Measured {
        let classes = std::array::from_fn(|class| {
            histograms.class(class).map_or_else(ClassMeasured::default, |class| ClassMeasured {
                stages: std::array::from_fn(|stage| Distribution::from(&class.stages[stage])),
                slowdown: Distribution::from(&class.slowdown),
            })
        });
        Measured { classes, overshoot: histograms.overshoot().map_or_else(Distribution::default, Distribution::from) }
    }
}
