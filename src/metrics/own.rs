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

#[cfg(test)]
mod tests {
    use crate::fate::Fate;
    use crate::metrics::WorkerMetrics;

    /// Is a rejection for a reason of the handler's own a part of its fate, and of nothing else?
    #[test]
    fn own_reasons_are_a_part_of_their_fate() {
        let metrics = WorkerMetrics::new(2);
        let (mut first, mut second) = (metrics.recorder(0), metrics.recorder(1));
        first.rejected(Fate::Malformed, 2);
        first.ended(Fate::Malformed);
        second.rejected(Fate::Malformed, 2);
        second.rejected(Fate::Ignored, 15);
        second.ended(Fate::Ignored);
        let counts = metrics.counts();
        assert_eq!((counts.ended[Fate::Malformed as usize], counts.ended[Fate::Ignored as usize]), (3, 2));
        assert_eq!(counts.ended.iter().sum::<u64>(), 5);
        assert_eq!(counts.counted.malformed.iter().sum::<u64>(), 1, "the server's reasons");
        assert_eq!((counts.rejected[Fate::Malformed as usize][2], counts.rejected[Fate::Ignored as usize][15]), (2, 1));
        assert_eq!(counts.rejected.as_flattened().iter().sum::<u64>(), 3);
    }
}
