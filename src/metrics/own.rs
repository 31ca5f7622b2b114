//! What a handler gives to the pages: names of its classes and of its reasons to reject, metrics of its own.

use crate::fate::{CLASS_NAMES, CLASSES};

/// The names of the classes, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassNames(pub [&'static str; CLASSES]);

impl Default for ClassNames {
    fn default() -> ClassNames {
        ClassNames(CLASS_NAMES)
    }
}

/// The kind of a metric of the handler's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnKind {
    /// It only grows.
    Counter,
    /// It may fall.
    Gauge,
}

/// The value of a metric of the handler's own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnValue {
    /// The name, without the suffix of a counter.
    pub name: String,
    /// What it counts, in a line.
    pub help: String,
    /// What it may do.
    pub kind: OwnKind,
    /// The present value.
    pub value: f64,
}
