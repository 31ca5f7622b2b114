//! The measurements of one source prefix, and their averages.

use super::SHARE_MIN;
use std::mem;

/// The EWMA of a prefix's use has weight 1/8 for each decision. So it spans about two seconds, in
/// which each limited prefix has some requests.
pub(super) const MEAN_OF: f64 = 8.0;
/// Decisions for which a prefix counts as validated after its last validated sample. That is a
/// minute, in which even a prefix with few requests is sampled.
pub(super) const VALIDATED_FOR: u8 = 240;
/// Standard deviations by which a source's offer must exceed its level to be limited. With 0, one
/// honest source in twelve is limited at any time if each sends a heavy request in five seconds.
/// With 3, some of a hundred that flood with heavy requests are not limited for ten seconds.
const SURE: f64 = 2.5;
/// With this many requests, a prefix's own ratio of shed requests weighs as much as the ratio over
/// all prefixes.
const TELL: f64 = 4.0;
/// The least value of [`Known::light`].
const LIGHT_MIN: f64 = 0.05;

/// The part of a request that a sample is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// The sample is from before the request first yields.
    First {
        /// Number of requests that began in the sampled time.
        begun: f32,
        /// Number of requests that ended in the sampled time.
        ended: f32,
    },
    /// The sample is from after the request first yielded.
    Later,
    /// The estimated time of a request that was refused as heavy.
    Refused,
    /// A request that was shed before it began.
    Unbegun {
        /// Only some shed requests are counted; each stands for this number of requests.
        requests: f32,
    },
}

/// Samples (100 us of CPU time each) of one prefix, and the requests that they belong to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Samples of served requests.
    pub used: f64,
    /// Samples that refused requests would have taken.
    pub refused: f64,
    /// The part of `used` that requests took before they first yielded.
    pub first: f64,
    /// Number of requests that began in `first`.
    begun: f64,
    /// Number of requests that ended in `first`.
    ended: f64,
    /// Number of requests that were shed before they began.
    unbegun: f64,
}

/// The averages of one prefix over its last decisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Counts since the last decision.
    now: Counts,
    /// Samples per period, refused ones included. This and the next four are means (EWMA) over
    /// [`MEAN_OF`] decisions.
    used: f64,
    /// The share of the prefix's datagrams that the gate admitted.
    share: f64,
    /// Mean of [`Counts::first`], per period.
    first: f64,
    /// See `Counts`.
    begun: f64,
    /// See `Counts`.
    ended: f64,
    /// The variance of the samples per period.
    variance: f64,
    /// Decisions until the prefix no longer counts as validated.
    pub validated: u8,
}

impl Known {
    /// A prefix that was not seen before, as if nothing had come from it for a period.
    pub(super) fn unseen() -> Known {
        Known { share: 1.0 / MEAN_OF, ..Known::default() }
    }

    /// Forgets everything except whether the prefix was validated recently. Returns whether it was.
    pub(super) fn forget(&mut self) -> bool {
        *self = Known { validated: self.validated.saturating_sub(1), ..Known::default() };
        self.validated > 0
    }

    pub(super) fn add(&mut self, validated: bool, part: Part, samples: f64) {
        let now = &mut self.now;
        match part {
            Part::Refused => now.refused += samples,
            Part::Unbegun { requests } => now.unbegun += f64::from(requests),
            Part::Later => now.used += samples,
            Part::First { begun, ended } => {
                now.used += samples;
                now.first += samples;
                now.begun += f64::from(begun);
                now.ended += f64::from(ended);
            }
        }
        self.validated = if validated { VALIDATED_FOR } else { self.validated };
    }

    /// The ratio of arrived to begun requests of this prefix; `asked` is the ratio over all
    /// prefixes. The ratios differ if a flood is one flow and fills one socket, where most requests
    /// are shed.
    pub(super) fn asked(&self, asked: f64) -> f64 {
        let Counts { unbegun, begun, .. } = self.now;
        1.0 + (unbegun + (asked - 1.0) * TELL) / (begun + TELL)
    }

    /// Ends `periods` periods in which this `share` was admitted, and returns their counts. If
    /// `begins`, the counts replace the means instead of entering them with weight 1/8.
    pub(super) fn advance(&mut self, periods: f64, share: f64, begins: bool) -> Counts {
        let counts = mem::take(&mut self.now);
        let Counts { used, refused, first, begun, ended, .. } = counts;
        let (now, weight) = ((used + refused) / periods, if begins { 1.0 } else { 1.0 / MEAN_OF });
        let off = now - self.used;
        // The first estimate of the variance is the square: as if all samples belonged to one
        // request.
        let squares = if begins { now * now } else { off * off * (1.0 - weight) };
        for (mean, now) in [
            (&mut self.used, now),
            (&mut self.share, share),
            (&mut self.variance, squares),
            (&mut self.first, first / periods),
            (&mut self.begun, begun),
            (&mut self.ended, ended),
        ] {
            *mean += (now - *mean) * weight;
        }
        self.validated = self.validated.saturating_sub(1);
        counts
    }

    /// Samples per period if the gate admitted all. It is a ratio of means over several decisions.
    /// In most periods a source with a small share has no sample, and a single heavy request must
    /// not limit a source.
    pub(super) fn offered(&self) -> f64 {
        self.used / self.share.max(SHARE_MIN * SHARE_MIN)
    }

    /// A lower bound of [`Known::offered`], because an honest source may by chance send several
    /// heavy requests within two seconds.
    pub(super) fn surely_offered(&self) -> f64 {
        // The variance of an EWMA (Roberts 1959, EWMA chart).
        let deviation = (self.variance / (2.0 * MEAN_OF - 1.0)).sqrt();
        self.offered() * (1.0 - SURE * deviation / self.used.max(1.0)).max(0.0)
    }

    /// Whether the cores complete more of this source's requests per second if those that yield are
    /// refused.
    pub(super) fn refuses(&self) -> bool {
        self.ended * self.used > self.begun * self.first
    }

    /// The part of this source's offer that must be admitted: all of it, or, if heavy requests are
    /// refused, only the time before requests yield.
    pub(super) fn light(&self) -> f64 {
        if self.refuses() { (self.first / self.used).max(LIGHT_MIN) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // If few requests are heavy, does the source need only the time before requests yield? Does it
    // need all of its offer if refusing heavy requests would complete fewer requests per second?
    #[test]
    fn light_requests_need_little_where_few_are_heavy() {
        for ((many, light), (few, first), rest, needs) in [
            ((990.0, 0.23), (10.0, 2.03), 18.0, 0.579..0.580),
            ((500.0, 0.1), (500.0, 0.1), 9.9, LIGHT_MIN..LIGHT_MIN),
            ((900.0, 0.13), (100.0, 0.11), 0.02, 1.0..1.0),
            ((0.0, 0.0), (1_000.0, 0.11), 0.02, 1.0..1.0),
            ((1_000.0, 0.13), (0.0, 0.0), 0.0, 1.0..1.0),
        ] {
            let mut known = Known::unseen();
            known.add(false, Part::First { begun: many, ended: many }, (many * light).into());
            known.add(false, Part::First { begun: few, ended: 0.0 }, (few * first).into());
            known.add(false, Part::Later, (few * rest / 2.0).into());
            known.add(false, Part::Refused, (few * rest / 2.0).into());
            known.advance(1.0, 1.0, true);
            let light = known.light();
            assert!(needs.contains(&light) || light == needs.end, "{light} of {many} and {few}");
        }
    }

    // Are mean and variance those of an EWMA over 8 decisions? Is the lower bound of the offer 2.5
    // deviations below it?
    #[test]
    fn a_source_is_known_by_its_mean_and_its_variance() {
        let mut known = Known::default();
        known.add(true, Part::Later, 80.0);
        known.advance(1.0, 1.0, true);
        assert_eq!((known.used, known.variance, known.offered()), (80.0, 6_400.0, 80.0));
        known.add(false, Part::Later, 160.0);
        known.add(false, Part::Refused, 160.0);
        known.add(false, Part::First { begun: 2.0, ended: 1.0 }, 0.0);
        known.add(false, Part::Unbegun { requests: 6.0 }, 0.0);
        assert_eq!(known.asked(1.5), 1.0 + (6.0 + 0.5 * TELL) / (2.0 + TELL));
        known.advance(2.0, 0.5, false);
        assert_eq!((known.used, known.variance, known.offered()), (90.0, 6_300.0, 96.0));
        assert!((known.surely_offered() - 41.3496).abs() < 1e-3, "{}", known.surely_offered());
        assert_eq!(known.validated, VALIDATED_FOR - 2);
        known.validated = 2;
        assert_eq!([known.forget(), known.forget(), known.forget()], [true, false, false]);
    }
}
