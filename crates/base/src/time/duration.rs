//! Parses durations as flags, files and workloads write them: `20us`, `0.5us`, `2ms`, `1s`.

use super::Nanos;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The form of a duration, for help and errors.
pub const DURATION_FORM: &str = "a number and a unit (ns, us, ms, s, min, h), like 0.5us or 20ms";

/// The longest accepted duration: 1,000 hours. Longer ones are typing errors, and the sum of a few
/// thousand of these still fits a [`Nanos`].
const DURATION_MAX: Nanos = Nanos::from_secs(3_600_000);

/// Why a text is not a duration.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is not a number with a unit.
    #[error("`{0}` is not a duration: write {DURATION_FORM}")]
    Form(String),
    /// The duration is longer than 1,000 hours.
    #[error("`{0}` is too long: a duration is at most 1000h")]
    TooLong(String),
}

crate::time::show_as_text!(DurationError);

/// Parses a decimal number, at least zero, with the unit `ns`, `us`, `ms`, `s`, `min` or `h`.
/// Rounds to a nanosecond.
///
/// Any other text is an error, and so is a duration longer than 1,000 hours. A bare number is an
/// error, because its unit would be a guess. So is `5m`, which some read as milliseconds.
impl FromStr for Nanos {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Nanos, DurationError> {
        let error = || DurationError::Form(text.to_owned());
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| error())?;
        let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(error)?;
        // The cast saturates, so a number that is far too large still counts as too long.
        let duration = Nanos::new((number * unit_ns).round() as u64);
        if duration > DURATION_MAX { Err(DurationError::TooLong(text.to_owned())) } else { Ok(duration) }
    }
}

/// Parses a duration with its unit, within `bounds`.
///
/// # Errors
/// In words, for a text that is no duration, or one out of `bounds`.
pub fn duration_within(text: &str, bounds: RangeInclusive<Nanos>) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(duration) if bounds.contains(&duration) => Ok(duration),
        Ok(_) | Err(DurationError::TooLong(_)) => Err("out of range".to_owned()),
        Err(DurationError::Form(_)) => Err(format!("not a duration; write {DURATION_FORM}")),
    }
}

/// Units and their nanoseconds. [`std::time::Duration`] prints `µs`.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3_600e9)];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ns) in
            [("500ns", 500), ("0.5us", 500), ("20 us", 20_000), ("2ms", 2_000_000), ("1.5s", 1_500_000_000), ("0s", 0)]
        {
            assert_eq!(text.parse(), Ok(Nanos::new(ns)), "{text}");
        }
        assert_eq!("2min".parse(), Ok(Nanos::from_secs(120)));
        assert_eq!("1h".parse(), Ok(Nanos::from_secs(3_600)));
        assert_eq!("1000h".parse(), Ok(DURATION_MAX));
    }

    #[test]
    fn refuses_what_could_be_misread_or_is_too_long() {
        for text in ["", "5", "us", "-1us", "1.2.3us", "5m", "1d", "1e3us", "20us ", "1h 30min", ".", ".s", "1µ"] {
            let error = text.parse::<Nanos>().expect_err(text).to_string();
            assert!(error.contains(DURATION_FORM), "{error}");
        }
        for text in ["1000.1h", "99999999999999h", "1000000000000000000000h", &format!("{}us", "9".repeat(400))] {
            let error = text.parse::<Nanos>().expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("at most 1000h"), "{error}");
        }
    }

    // Does a duration need its unit? Are both bounds inclusive?
    #[test]
    fn durations_have_units_and_bounds() {
        let bounds = || Nanos::from_micros(1)..=Nanos::from_secs(1);
        for (text, nanos) in [("1us", 1_000), ("50us", 50_000), ("0.5ms", 500_000), ("1s", 1_000_000_000)] {
            assert_eq!(duration_within(text, bounds()), Ok(Nanos::new(nanos)), "{text}");
        }
        for text in ["0s", "999ns", "1001ms", "2h"] {
            assert_eq!(duration_within(text, bounds()), Err("out of range".to_owned()), "{text}");
        }
        for text in ["", "50", "us", "50 parsecs", "-1s"] {
            assert!(duration_within(text, bounds()).unwrap_err().starts_with("not a duration"), "{text:?}");
        }
    }

    proptest! {
        /// Does every time up to a month read back exactly as it is shown?
        #[test]
        fn what_is_shown_is_read_back(ns in prop_oneof![0_u64..10_000_000, 0_u64..2_600_000_000_000_000]) {
            let time = Nanos::new(ns);
            prop_assert_eq!(time.to_string().parse(), Ok(time), "{}", time);
            prop_assert!(time.to_string().is_ascii());
        }
    }
}
