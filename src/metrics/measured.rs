//! Distributions measured over some time, for readers.

use super::Stage;
use super::distribution::Distribution;
use crate::fate::CLASSES;

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
