//! Workloads with a larger share of long requests.

use super::{Class, Cost, Workload};
use crate::time::Nanos;

/// A workload with a larger share of long requests.
#[derive(Clone, Debug, PartialEq)]
pub struct MoreLong {
    /// The workload with the larger share.
    pub workload: Workload,
    /// The factor on the share of long requests: 2, or less where too few other requests would be left.
    pub factor: f64,
}

/// The reason why a workload cannot have more long requests.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMoreLong {
    /// There is one class, without a gap between its costs.
    #[error("nothing divides the costs into short and long")]
    Undivided,
    /// Too few other requests would be left.
    #[error("nearly all requests are long already")]
    NearlyAll,
}

show_as_text!(NoMoreLong);

/// The largest share of long requests after doubling.
pub(super) const LONG_SHARE_MAX: f64 = 0.95;
/// The smallest factor that makes a noticeably different workload.
const LONG_FACTOR_MIN: f64 = 1.01;

impl Workload {
    /// This workload with twice the share of long requests, or less where the other requests would be under a
    /// twentieth. Long are all classes but the one with the smallest mean cost or, of costs recorded without classes,
    /// costs of `long_from` and more.
    ///
    /// # Errors
    /// If nothing separates long requests from others, or the others are hardly more than a twentieth already.
    pub fn with_more_long(&self, long_from: Option<Nanos>) -> Result<MoreLong, NoMoreLong> {
        let name = self.name.clone();
        if let [Class { share, cost: Cost::Recorded(recorded) }] = self.classes.as_slice() {
            let (recorded, factor) = recorded.with_more_long(long_from.ok_or(NoMoreLong::Undivided)?)?;
            let classes = vec![Class { share: *share, cost: Cost::Recorded(recorded) }];
            return Ok(MoreLong { workload: Workload { name, classes, beside: self.beside }, factor });
        }
        if self.classes.len() == 1 {
            return Err(NoMoreLong::Undivided);
        }
        let mean = |class: &usize| self.classes[*class].cost.mean();
        let cheapest = (0..self.classes.len()).min_by_key(mean).expect("a workload has a class");
        let long = 1.0 - self.classes[cheapest].share;
        let factor = worthwhile(2.0_f64.min(LONG_SHARE_MAX / long))?;
        let mut classes = self.classes.clone();
        for (number, class) in classes.iter_mut().enumerate() {
            class.share = if number == cheapest { 1.0 - long * factor } else { class.share * factor };
        }
        Ok(MoreLong { workload: Workload { name, classes, beside: self.beside }, factor })
    }
}

/// `factor`, if it makes a noticeably larger share of long requests.
pub(super) fn worthwhile(factor: f64) -> Result<f64, NoMoreLong> {
    if factor < LONG_FACTOR_MIN { Err(NoMoreLong::NearlyAll) } else { Ok(factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the share of long requests twice as large, or as many times as `factor` says, and never smaller?
    #[test]
    fn long_requests_can_be_more() {
        let shares = |text: &str| {
            let more = text.parse::<Workload>().expect("a form").with_more_long(None)?;
            let classes = more.workload.classes().iter();
            Ok((more.factor, classes.map(|class| (class.share * 1e4).round() as u64).collect::<Vec<_>>()))
        };
        assert_eq!(shares("extreme-bimodal"), Ok((2.0, vec![9_900, 100])));
        assert_eq!(shares("high-bimodal"), Ok((1.9, vec![500, 9_500])));
        assert_eq!(shares("bimodal:0.1:2ms:1us"), Ok((2.0, vec![2_000, 8_000])));
        assert_eq!(shares("bimodal:0.05:1us:2ms"), Err(NoMoreLong::NearlyAll));
        assert_eq!(shares("bimodal:0.04:1us:2ms"), Err(NoMoreLong::NearlyAll));
        assert_eq!(shares("fixed:1us"), Err(NoMoreLong::Undivided));
    }

    // Are long requests of a recording without classes those from a given cost on?
    #[test]
    fn recorded_costs_are_long_from_a_limit_on() {
        let us = Nanos::from_micros;
        let costs = |long: usize| (0..100).map(|n| if n < long { us(500) } else { us(1) }).collect::<Vec<_>>();
        let more = |long, from| {
            let workload = Workload::measured("m", vec![(100, costs(long))]).expect("whole");
            let more = workload.with_more_long(from)?;
            let Cost::Recorded(recorded) = &more.workload.classes()[0].cost else { panic!("{more:?}") };
            let now = recorded.costs().iter().filter(|cost| **cost == us(500)).count();
            assert_eq!((recorded.costs().len(), more.factor), (100, now as f64 / long as f64));
            Ok(now)
        };
        assert_eq!(more(5, Some(us(10))), Ok(10));
        assert_eq!(more(30, Some(us(500))), Ok(60));
        assert_eq!(more(60, Some(us(10))), Ok(95));
        for long in [95, 96, 99] {
            assert_eq!(more(long, Some(us(10))), Err(NoMoreLong::NearlyAll), "{long} of 100");
        }
        for (long, from) in [(5, None), (0, Some(us(10))), (5, Some(us(1)))] {
            assert_eq!(more(long, from), Err(NoMoreLong::Undivided), "{long} of 100");
        }
    }
}
