//! A 95 % interval.

/// A 95 % interval of a positive figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end; 0 where the run is too short to tell.
    pub low: f64,
    /// The upper end; infinite where the run is too short to tell, or where the figure itself is infinite.
    pub high: f64,
}

impl Interval {
    /// The interval of a run that is too short to tell anything.
    pub const UNKNOWN: Interval = Interval { low: 0.0, high: f64::INFINITY };

    /// Whether the upper end is at most `precision` times the lower one, or both are infinite.
    pub fn is_within(self, precision: f64) -> bool {
        self.low == self.high || self.low > 0.0 && self.high <= precision * self.low
    }

    /// Whether `value` is in the interval.
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}
