//! The search for the highest rate at which an SLO holds, without a clock or a socket.

use crate::report::slo::{Held, UNHELD, UNKNOWN};
use crate::text::{rate, wrapped};
use forebay::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// The answer is known if the lowest rate that does not hold is at most this many times the highest
/// that does.
const NEAR: f64 = 1.05;
/// The most rates that a search tries: 16 doublings, and the bisection from a factor of 2 to
/// [`NEAR`].
const RATES_MAX: usize = 20;

/// A run that does not decide is repeated with twice its length, up to this many times the length
/// of the first.
const LONGER: u64 = 8;

/// A run at a rate, of several if the first does not decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Its length.
    pub(super) duration: Nanos,
    /// The length of the first.
    first: Nanos,
    /// Whether it repeats a run that was INVALID.
    is_repeated: bool,
}

impl Look {
    /// The first run, of this length.
    pub(super) fn first(duration: Nanos) -> Look {
        Look { duration, first: duration, is_repeated: false }
    }

    /// The next run at the rate, if this one has this verdict and may be used; `None` to end with
    /// this verdict.
    pub(super) fn next(self, verdict: Held, is_usable: bool) -> Option<Look> {
        match verdict {
            Held::Undecided if is_usable => {
                let duration = self.duration.times(2);
                (duration <= self.first.times(LONGER)).then_some(Look { duration, ..self })
            }
            Held::Undecided => (!self.is_repeated).then_some(Look { is_repeated: true, ..self }),
            Held::Holds | Held::Fails => None,
        }
    }
}

/// What is known of an SLO at a rate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct SloFigures {
    pub(super) rps: f64,
    pub(super) verdict: Held,
    pub(super) why: String,
}

/// At which rates an SLO holds.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct Answer {
    /// The highest rate below that of `beyond` at which it holds; `None` if there is none.
    pub(super) holds_rps: Option<f64>,
    /// The lowest rate at which it is not known to hold.
    beyond: Option<SloFigures>,
    /// The lowest rate at which it fails; `None` if there is none.
    fails_rps: Option<f64>,
    /// The middle of `holds_rps` and `fails_rps`, if both are within 5 % of it. Rates between them
    /// may be undecided.
    about_rps: Option<f64>,
    /// The lowest rate that fails, and the highest one below it that was tried.
    #[serde(skip)]
    doubt: Option<(f64, f64)>,
    /// At most this many times `holds_rps` may be the lowest rate that does not hold.
    #[serde(skip)]
    near: f64,
}

impl Answer {
    pub(super) fn of(tried: &[SloFigures], near: f64) -> Answer {
        let not_held = tried.iter().filter(|seen| seen.verdict != Held::Holds);
        let beyond = not_held.min_by(|one, other| one.rps.total_cmp(&other.rps));
        let is_below = |seen: &&SloFigures| beyond.is_none_or(|beyond| seen.rps < beyond.rps);
        let holds_rps = tried.iter().filter(is_below).map(|seen| seen.rps).max_by(f64::total_cmp);
        let fails = tried.iter().filter(|seen| seen.verdict == Held::Fails);
        let fails_rps = fails.map(|seen| seen.rps).min_by(f64::total_cmp);
        let known = holds_rps.zip(fails_rps).filter(|(holds, fails)| *fails <= NEAR * NEAR * holds);
        let below = |fails: f64| tried.iter().map(|seen| seen.rps).filter(|rps| *rps < fails).max_by(f64::total_cmp);
        let doubt = fails_rps.and_then(|fails| Some((fails, below(fails)?)));
        let about_rps = known.map(|(holds, fails)| (holds * fails).sqrt());
        Answer { holds_rps, beyond: beyond.cloned(), fails_rps, about_rps, doubt, near }
    }

    /// The rate to try next; `None` if both rates are near one another, and where it fails is known
    /// as well.
    fn next(&self) -> Option<f64> {
        match (self.holds_rps, self.beyond.as_ref().map(|beyond| beyond.rps)) {
            (Some(holds), Some(beyond)) if beyond > holds * self.near => Some((holds * beyond).sqrt()),
            (Some(_), Some(_)) => {
                let doubt = self.doubt.filter(|(fails, below)| self.about_rps.is_none() && *fails > below * self.near);
                doubt.map(|(fails, below)| (fails * below).sqrt())
            }
            (Some(holds), None) => Some(holds * 2.0),
            (None, beyond) => beyond.map(|beyond| beyond / 2.0),
        }
    }

    /// The exit code: 0 if the rate is found, 4 if the SLO fails at each, else 3.
    pub(super) fn exit_code(&self) -> u8 {
        match (self.holds_rps, self.beyond.as_ref().map(|beyond| beyond.verdict)) {
            (Some(_), Some(Held::Fails)) if self.next().is_none() => 0,
            _ if self.about_rps.is_some() && self.next().is_none() => 0,
            (None, Some(Held::Fails)) => UNHELD,
            _ => UNKNOWN,
        }
    }

    /// One sentence.
    pub(super) fn said(&self) -> String {
        let holds = self.holds_rps.map_or("at no rate that was tried".to_owned(), |rps| format!("at {}/s", rate(rps)));
        let said =
            |SloFigures { rps, verdict, why }: &SloFigures| format!("{} at {}/s: {why}", verdict.name(), rate(*rps));
        let beyond = self.beyond.as_ref().map_or("no higher rate was tried".to_owned(), said);
        let start = match self.about_rps {
            Some(about) => format!("about {}/s: ", rate(about)),
            None if self.exit_code() == UNKNOWN => "inconclusive: ".to_owned(),
            None => String::new(),
        };
        // Beyond an undecided rate the other bound is a third one.
        let fails = self.fails_rps.filter(|fails| self.beyond.as_ref().is_some_and(|beyond| beyond.rps < *fails));
        let fails = fails.map_or_else(String::new, |rps| format!(", fails at {}/s", rate(rps)));
        wrapped(&start, &format!("holds {holds}{fails}, {beyond}"), "  ")
    }
}

/// Doubles or halves the rate from `start` on until one holds and one does not, and then bisects.
/// `look` says what is known at a rate, or `None` to end the search.
pub(super) fn search<E>(start: f64, mut look: impl FnMut(f64) -> Result<Option<SloFigures>, E>) -> Result<Answer, E> {
    let (mut tried, mut next) = (Vec::new(), Some(start));
    while let Some(rate) = next.filter(|_| tried.len() < RATES_MAX) {
        tried.extend(look(rate)?);
        next = Answer::of(&tried, NEAR).next().filter(|_| tried.last().is_some_and(|seen| seen.rps == rate));
    }
    Ok(Answer::of(&tried, NEAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that holds below `capacity`, does not decide within `blurred` of it, and fails
    /// above.
    fn found(start: f64, capacity: f64, blurred: f64, most: usize) -> (Answer, usize) {
        let mut looks = 0;
        let look = |rate: f64| {
            looks += 1;
            let held = match rate / capacity {
                near if (near - 1.0).abs() < blurred => Held::Undecided,
                below if below < 1.0 => Held::Holds,
                _ => Held::Fails,
            };
            let seen = SloFigures { rps: rate, verdict: held, why: format!("p99 at {rate}") };
            Ok::<_, ()>((looks <= most).then_some(seen))
        };
        (search(start, look).expect("no error"), looks)
    }

    // Is a run that does not decide repeated, longer and longer, and an INVALID one once?
    #[test]
    fn what_does_not_decide_is_looked_at_again() {
        let second = Nanos::from_secs(1);
        let lengths = |verdicts: &mut dyn Iterator<Item = (Held, bool)>| {
            let looks = std::iter::successors(Some(Look::first(second)), |look| {
                let (verdict, is_usable) = verdicts.next()?;
                look.next(verdict, is_usable)
            });
            looks.map(|look| look.duration.get() / second.get()).collect::<Vec<_>>()
        };
        let (undecided, invalid) = ((Held::Undecided, true), (Held::Undecided, false));
        assert_eq!(lengths(&mut std::iter::repeat(undecided)), [1, 2, 4, 8]);
        assert_eq!(lengths(&mut std::iter::repeat(invalid)), [1, 1]);
        assert_eq!(lengths(&mut [invalid, undecided, undecided, invalid].into_iter()), [1, 1, 2, 4]);
        for decided in [Held::Holds, Held::Fails] {
            assert_eq!(lengths(&mut std::iter::repeat((decided, true))), [1]);
            assert_eq!(lengths(&mut [undecided, (decided, true)].into_iter()), [1, 2]);
        }
    }

    // Is the rate found within 5 %, from below and from above, in few looks?
    #[test]
    fn the_highest_rate_is_found_within_5_percent() {
        for (start, capacity) in [(1_000.0, 8_765.0), (64_000.0, 1_000.0), (1.0, 30_000.0), (8_000.0, 8_000.1)] {
            let (answer, looks) = found(start, capacity, 0.0, RATES_MAX);
            let (holds, beyond) =
                (answer.holds_rps.expect("one holds"), answer.beyond.as_ref().expect("one fails").rps);
            assert!(holds < capacity && capacity <= beyond && beyond <= 1.05 * holds, "{answer:?}");
            assert!(looks <= RATES_MAX && answer.exit_code() == 0, "{looks} looks: {answer:?}");
            assert!(
                answer.said().starts_with("about ")
                    && answer.said().contains("/s: holds at ")
                    && answer.said().contains("/s: p99 at"),
                "{}",
                answer.said()
            );
        }
    }

    // Is what was not found inconclusive, with what is known?
    #[test]
    fn what_is_not_known_is_inconclusive() {
        let verdict = |answer: &Answer| answer.beyond.as_ref().map(|beyond| beyond.verdict);
        let (blurred, _) = found(1_000.0, 8_765.0, 0.1, RATES_MAX);
        assert_eq!((blurred.exit_code(), verdict(&blurred)), (3, Some(Held::Undecided)));
        assert!(blurred.holds_rps < Some(8_765.0) && blurred.said().contains(", undecided at "), "{}", blurred.said());
        let (late, _) = found(1_000.0, 8_765.0, 0.0, 3);
        assert_eq!((late.exit_code(), late.holds_rps, verdict(&late)), (3, Some(4_000.0), None));
        assert!(late.said().contains("no higher rate was tried"), "{}", late.said());
        assert!(late.said().starts_with("inconclusive: holds at 4,000/s"), "{}", late.said());
        let (early, looks) = found(1_000.0, 8_765.0, 0.0, 6);
        assert_eq!((early.exit_code(), verdict(&early), looks), (3, Some(Held::Fails), 7), "not near enough");
        let (endless, looks) = found(1.0, f64::MAX, 0.0, 1_000);
        assert_eq!((endless.exit_code(), looks), (3, RATES_MAX));
        let (never, looks) = found(1.0, 0.0, 0.0, 7);
        assert_eq!((never.exit_code(), never.holds_rps, looks), (UNHELD, None, 8));
        assert!(never.said().starts_with("holds at no rate that was tried, fails at"), "{}", never.said());
    }

    // Is a capacity known if a rate that holds and one that fails are near it? Method: a rate
    // between them is undecided.
    #[test]
    fn an_undecided_rate_between_two_that_are_near_is_no_doubt() {
        let (answer, _) = found(1_000.0, 8_765.0, 0.015, RATES_MAX);
        assert_eq!(
            (answer.exit_code(), answer.beyond.as_ref().map(|beyond| beyond.verdict)),
            (0, Some(Held::Undecided))
        );
        assert!(answer.about_rps.is_some_and(|about| (about / 8_765.0 - 1.0).abs() < 0.05), "{answer:?}");
        assert!(answer.said().starts_with("about ") && answer.said().contains(", undecided at "), "{}", answer.said());
    }

    // Is a capacity only known whose bounds are near one another, and are both said? Method:
    // servers that do not decide in a range around it, up to bounds 4.4 times apart and more.
    #[test]
    fn a_capacity_is_known_if_both_bounds_are_near() {
        let (mut near, mut far) = (0, 0);
        for percent in 0..90 {
            let (answer, _) = found(1_000.0, 8_765.0, f64::from(percent) / 100.0, RATES_MAX);
            let (holds, fails) = (answer.holds_rps.expect("one holds"), answer.fails_rps);
            let is_near = fails.is_some_and(|fails| fails <= NEAR * NEAR * holds);
            let said = answer.said();
            assert_eq!((answer.exit_code() == 0, answer.about_rps.is_some()), (is_near, is_near), "{said}");
            assert_eq!((said.starts_with("about "), said.starts_with("inconclusive: ")), (is_near, !is_near), "{said}");
            let told = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let bounds = [("holds", Some(holds)), ("fails", fails)];
            for (verdict, bound) in bounds.into_iter().filter_map(|(verdict, rps)| Some((verdict, rate(rps?)))) {
                assert!(told.contains(&format!("{verdict} at {bound}/s")), "{verdict} at {bound}: {told}");
            }
            (near, far) = (near + usize::from(is_near), far + usize::from(!is_near && fails.is_some()));
        }
        assert!(near > 0 && far > 0, "{near} are near, {far} are not");
        let tried = [(1_000.0, Held::Holds), (2_100.0, Held::Undecided), (4_400.0, Held::Fails)];
        let answer = Answer::of(&tried.map(|(rps, verdict)| SloFigures { rps, verdict, why: String::new() }), NEAR);
        assert_eq!((answer.about_rps, answer.exit_code()), (None, UNKNOWN));
    }

    // Does a sweep in which a rate in between fails hold only below that rate?
    #[test]
    fn the_lowest_rate_that_fails_counts() {
        let tried = [(1.0, Held::Holds), (2.0, Held::Fails), (3.0, Held::Holds), (4.0, Held::Undecided)];
        let answer = Answer::of(&tried.map(|(rps, verdict)| SloFigures { rps, verdict, why: String::new() }), f64::MAX);
        assert_eq!((answer.holds_rps, answer.fails_rps), (Some(1.0), Some(2.0)));
        assert_eq!(answer.beyond.map(|beyond| beyond.rps), Some(2.0));
    }
}
