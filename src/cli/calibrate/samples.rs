//! What was measured of one step: many samples, of which the median counts.

use crate::time::Nanos;
use std::io;

/// The samples of one step, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    /// `count` samples, each the mean of `each` runs of what `take` takes the time of.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn take(count: usize, each: u64, mut take: impl FnMut() -> Nanos) -> Samples {
        Samples::of((0..count).map(|_| take().get() as f64 / each as f64))
    }

    /// As [`Samples::take`], of what may fail.
    ///
    /// # Errors
    /// The first error of `take`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn try_take(
        count: usize,
        each: usize,
        mut take: impl FnMut() -> io::Result<Nanos>,
    ) -> io::Result<Samples> {
        let samples: io::Result<Vec<f64>> = (0..count).map(|_| Ok(take()?.get() as f64 / each as f64)).collect();
        Ok(Samples::of(samples?))
    }

    /// These samples.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn of(samples: impl IntoIterator<Item = f64>) -> Samples {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        assert!(!sorted.is_empty(), "something was measured");
        sorted.sort_unstable_by(f64::total_cmp);
        Samples(sorted)
    }

    /// The sample that half of all samples do not exceed.
    pub(super) fn median(&self) -> Nanos {
        self.at(0.5)
    }

    /// The samples that a quarter and three quarters of all samples do not exceed.
    pub(super) fn quartiles(&self) -> [Nanos; 2] {
        [self.at(0.25), self.at(0.75)]
    }

    fn at(&self, share: f64) -> Nanos {
        let place = (share * (self.0.len() - 1) as f64).round() as usize;
        Nanos::new(self.0[place].round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_quartiles_around_it() {
        let samples = Samples::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((samples.median(), samples.quartiles()), (Nanos::new(3), [2, 4].map(Nanos::new)));
        assert_eq!(Samples::take(3, 10, || Nanos::new(70)).median(), Nanos::new(7));
    }
}
