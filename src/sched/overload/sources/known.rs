//! What is known of the requests of one source.

use super::SHARE_MIN;
use std::mem;

/// Decisions whose mean tells what a prefix uses: two seconds hold some requests of each that is
/// limited.
pub(super) const MEAN_OF: f64 = 8.0;
/// For this many decisions a prefix counts as validated after its last validated sample: a minute,
/// in which one that asks for little is sampled.
pub(super) const VALIDATED_FOR: u8 = 240;
/// Standard deviations by which a source offers more than its level before it is cut. With none,
/// one honest source in twelve is cut at any time if each sends a heavy request in five seconds.
/// With three, some of a hundred that flood with heavy requests are not cut for ten seconds.
const SURE: f64 = 2.5;
/// Requests of one prefix that say as much of what was shed of it as those of all do.
const TELL: f64 = 4.0;
/// The least part of the time that a source asks for which counts as that before its requests step
/// aside.
const LIGHT_MIN: f64 = 0.05;

/// The part of a request that a sample is from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Before it first steps aside.
    First {
        /// So many requests began in that time.
        begun: f32,
        /// So many ended.
        ended: f32,
    },
    /// From then on.
    Later,
    /// What it would have taken: it was refused as a heavy one.
    Refused,
    /// It was shed before it began.
    Unbegun {
        /// It stands for so many.
        requests: f32,
    },
}

/// Samples, and the requests that they stand for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// What came in, and what would have if nothing had been refused.
    pub used: f64,
    pub refused: f64,
    /// Of what came in, that before requests first stepped aside; how many began and ended in it.
    pub first: f64,
    begun: f64,
    ended: f64,
    /// How many were shed before they began.
    unbegun: f64,
}

/// What is known of one prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Since the last decision.
    now: Counts,
    /// Its samples in a period, with those refused, and the share of it that came in: means over
    /// [`MEAN_OF`] decisions.
    used: f64,
    share: f64,
    /// As [`Counts`].
    first: f64,
    begun: f64,
    ended: f64,
    /// The variance of its samples in a period.
    variance: f64,
    /// Decisions until it no longer counts as validated.
    pub validated: u8,
}

impl Known {
    /// A prefix of which nothing has come for a period.
    pub(super) fn unseen() -> Known {
        Known { share: 1.0 / MEAN_OF, ..Known::default() }
    }

    /// Forgets all but whether the prefix was validated of late. Returns that.
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

    /// What this prefix asked for, over what it got; `asked` is that ratio of all prefixes. If each
    /// socket holds some of every source, all sources lose the same part. A flood may be one flow,
    /// and fill one socket.
    pub(super) fn asked(&self, asked: f64) -> f64 {
        let Counts { unbegun, begun, .. } = self.now;
        1.0 + (unbegun + (asked - 1.0) * TELL) / (begun + TELL)
    }

    /// Ends `periods` periods with this `share`. If `begins`, replaces what was known. Returns what
    /// was counted in them.
    pub(super) fn advance(&mut self, periods: f64, share: f64, begins: bool) -> Counts {
        let counts = mem::take(&mut self.now);
        let Counts { used, refused, first, begun, ended, .. } = counts;
        let (now, weight) = ((used + refused) / periods, if begins { 1.0 } else { 1.0 / MEAN_OF });
        let off = now - self.used;
        // At first as if it were all of one request.
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

    /// Samples in a period if the gate let all in. This is a ratio of means. Most periods see
    /// nothing of a source with a small share, and one heavy request must not cut a source.
    pub(super) fn offered(&self) -> f64 {
        self.used / self.share.max(SHARE_MIN * SHARE_MIN)
    }

    /// A lower bound of [`Known::offered`]: a source with few requests may send several heavy ones
    /// in the time of one mean.
    pub(super) fn surely_offered(&self) -> f64 {
        // The variance of such a mean (Roberts 1959, of the EWMA chart).
        let deviation = (self.variance / (2.0 * MEAN_OF - 1.0)).sqrt();
        self.offered() * (1.0 - SURE * deviation / self.used.max(1.0)).max(0.0)
    }

    /// Whether the cores end more of this source's requests in a second if they refuse those that
    /// step aside.
    pub(super) fn refuses(&self) -> bool {
        self.ended * self.used > self.begun * self.first
    }

    /// The part of this source's offer that must come in. If heavy requests are refused, it is the
    /// time before requests step aside.
    pub(super) fn light(&self) -> f64 {
        if self.refuses() { (self.first / self.used).max(LIGHT_MIN) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Where few requests are heavy, do light ones need what all take before they step aside? Where
    // to refuse those that step aside ends fewer requests in a second, do they need all? In
    // samples: requests that end, that step aside, and the rest.
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
}
