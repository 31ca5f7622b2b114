//! The search for the highest rate at which an SLO holds, without a clock or a socket.

use crate::report::slo::{Held, UNHELD};
use crate::report::validity::Validity;
use crate::text::{rate, wrapped};
use serde::Serialize;

/// What is known at a rate, and why.
pub(super) type Seen = (Held, String);

/// The answer is known if the lowest rate that does not hold is at most this many times the highest
/// that does.
const NEAR: f64 = 1.05;
/// The most rates that a search tries: 16 doublings, and the bisection from a factor of 2 to
/// [`NEAR`].
const RATES_MAX: usize = 20;

/// At which rates an SLO holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// The highest rate below `beyond_rps` at which it holds; `None` if there is none.
    pub(crate) holds_rps: Option<f64>,
    /// The lowest rate at which it is not known to hold.
    pub(crate) beyond_rps: Option<f64>,
    /// What is known there.
    beyond: Option<Held>,
    /// The figures there.
    why: Option<String>,
    /// Why the search ended before both rates were near one another.
    ended: Option<&'static str>,
}

impl Answer {
    /// The answer of these rates and what is known at each.
    pub(super) fn of(tried: &[(f64, Seen)], ended: Option<&'static str>) -> Answer {
        let not_held = tried.iter().filter(|(_, (held, _))| *held != Held::Holds);
        let beyond = not_held.min_by(|one, other| one.0.total_cmp(&other.0));
        let is_below = |rate: f64| beyond.is_none_or(|beyond| rate < beyond.0);
        let held = tried.iter().filter(|(rate, (held, _))| *held == Held::Holds && is_below(*rate));
        Answer {
            holds_rps: held.map(|(rate, _)| *rate).max_by(f64::total_cmp),
            beyond_rps: beyond.map(|(rate, _)| *rate),
            beyond: beyond.map(|(_, (held, _))| *held),
            why: beyond.map(|(_, (_, why))| why.clone()),
            ended,
        }
    }

    /// The rate to try next; `None` if the answer is known.
    fn next(&self) -> Option<f64> {
        match (self.holds_rps, self.beyond_rps) {
            (Some(holds), Some(beyond)) => (beyond > holds * NEAR).then(|| (holds * beyond).sqrt()),
            (Some(holds), None) => Some(holds * 2.0),
            (None, beyond) => beyond.map(|beyond| beyond / 2.0),
        }
    }

    /// 0 if the rate is found, 4 if the SLO fails at each rate, 3 if it is not known.
    pub(super) fn exit_code(&self) -> u8 {
        match (self.holds_rps, self.beyond) {
            (Some(_), Some(Held::Fails)) if self.ended.is_none() => Validity::Valid.exit_code(),
            (None, Some(Held::Fails)) => UNHELD,
            _ => Validity::Invalid.exit_code(),
        }
    }

    /// One sentence.
    pub(super) fn said(&self) -> String {
        let at = |rps: Option<f64>| rps.map_or_else(String::new, |rps| format!(" at {}/s", rate(rps)));
        let holds = if self.holds_rps.is_some() { "holds" } else { "holds at no rate that was tried" };
        let mut text = format!("{holds}{}", at(self.holds_rps));
        if let Some(beyond) = self.beyond {
            let word = if beyond == Held::Fails { "fails" } else { "undecided" };
            let why = self.why.as_deref().unwrap_or_default();
            text += &format!(", {word}{}: {why}", at(self.beyond_rps));
        }
        match (self.ended, self.exit_code()) {
            (Some(ended), _) => text += &format!(" (inconclusive: {ended})"),
            (None, 3) => text.insert_str(0, "inconclusive: "),
            _ => {}
        }
        wrapped("", &text, "  ")
    }
}

/// Doubles or halves the rate from `start` on until one holds and one does not, and then bisects.
/// `look` says what is known at a rate of at least `least`, or `None` if no time is left.
pub(super) fn search<E>(
    start: f64,
    least: f64,
    mut look: impl FnMut(f64) -> Result<Option<Seen>, E>,
) -> Result<Answer, E> {
    let (mut tried, mut rate) = (Vec::new(), start);
    while tried.len() < RATES_MAX {
        let Some(seen) = look(rate)? else { return Ok(Answer::of(&tried, Some("no time was left (--max-time)"))) };
        tried.push((rate, seen));
        let answer = Answer::of(&tried, None);
        let Some(next) = answer.next().filter(|next| *next >= least) else { return Ok(answer) };
        rate = next;
    }
    Ok(Answer::of(&tried, Some("too many rates were tried, begin nearer (--rate)")))
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
            Ok::<_, ()>((looks <= most).then(|| (held, format!("p99 at {rate}"))))
        };
        (search(start, 0.01, look).expect("no error"), looks)
    }

    // Is the rate found within 5 %, from below and from above, in few looks?
    #[test]
    fn the_highest_rate_is_found_within_5_percent() {
        for (start, capacity) in [(1_000.0, 8_765.0), (64_000.0, 1_000.0), (1.0, 30_000.0), (8_000.0, 8_000.1)] {
            let (answer, looks) = found(start, capacity, 0.0, RATES_MAX);
            let (holds, beyond) = (answer.holds_rps.expect("one holds"), answer.beyond_rps.expect("one fails"));
            assert!(holds < capacity && capacity <= beyond && beyond <= 1.05 * holds, "{answer:?}");
            assert!(looks <= RATES_MAX && answer.exit_code() == 0, "{looks} looks: {answer:?}");
            assert!(
                answer.said().starts_with("holds at ") && answer.said().contains("/s: p99 at"),
                "{}",
                answer.said()
            );
        }
    }

    // Is what was not found said to be so, with what is known?
    #[test]
    fn what_is_not_known_is_inconclusive() {
        let (blurred, _) = found(1_000.0, 8_765.0, 0.1, RATES_MAX);
        assert_eq!((blurred.exit_code(), blurred.beyond), (3, Some(Held::Undecided)));
        assert!(blurred.holds_rps < Some(8_765.0) && blurred.said().starts_with("inconclusive: holds at"));
        let (late, _) = found(1_000.0, 8_765.0, 0.0, 3);
        assert_eq!((late.exit_code(), late.holds_rps, late.beyond), (3, Some(4_000.0), None));
        assert!(late.said().contains("inconclusive: no time was left"), "{}", late.said());
        let (endless, looks) = found(1.0, f64::MAX, 0.0, 1_000);
        assert_eq!((endless.exit_code(), looks), (3, RATES_MAX));
        let (never, looks) = found(1.0, 0.0, 0.0, 1_000);
        assert_eq!((never.exit_code(), never.holds_rps, looks), (UNHELD, None, 7), "a rate has a lower end");
        assert!(never.said().contains("holds at no rate that was tried, fails at"), "{}", never.said());
    }

    // Does a sweep in which a rate in between fails hold only below that rate?
    #[test]
    fn the_lowest_rate_that_fails_counts() {
        let seen = |held| (held, String::new());
        let tried = [(1.0, Held::Holds), (2.0, Held::Fails), (3.0, Held::Holds), (4.0, Held::Undecided)];
        let answer = Answer::of(&tried.map(|(rate, held)| (rate, seen(held))), None);
        assert_eq!((answer.holds_rps, answer.beyond_rps, answer.beyond), (Some(1.0), Some(2.0), Some(Held::Fails)));
    }
}
