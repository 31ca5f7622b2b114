//! What was measured over some time, as it is read.

use super::Stage;
use super::distribution::Distribution;
use super::ledger::Ledger;
use crate::fate::CLASSES;
use hdrhistogram::Counter;

/// Everything that ledgers measured over some time, to be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// By class number.
    pub(crate) classes: [ClassMeasured; CLASSES],
    /// Overshoot of sleeps, in nanoseconds.
    pub(crate) overshoot: Distribution,
}

/// What was measured of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassMeasured {
    /// Nanoseconds, indexed by `Stage as usize`.
    pub(crate) stages: [Distribution; Stage::ALL.len()],
    /// Thousandths.
    pub(crate) slowdown: Distribution,
}

impl<C: Counter> From<&Ledger<C>> for Measured {
    fn from(ledger: &Ledger<C>) -> Measured {
        let classes = std::array::from_fn(|class| {
            ledger.class(class).map_or_else(ClassMeasured::default, |class| ClassMeasured {
                stages: std::array::from_fn(|stage| Distribution::from(&class.stages[stage])),
                slowdown: Distribution::from(&class.slowdown),
            })
        });
        Measured { classes, overshoot: ledger.overshoot().map_or_else(Distribution::default, Distribution::from) }
    }
}
