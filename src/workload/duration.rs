//! Durations as people write them on a command line: `20us`, `0.5us`, `2ms`, `1s`.

use crate::time::Nanos;

const UNITS: [(&str, f64); 6] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write a number and a unit (ns, us, ms, s, min), like 0.5us or 20ms")]
pub struct DurationError(String);

/// Reads a decimal number, at least zero, followed by `ns`, `us`, `ms`, `s` or `min`; rounds to a nanosecond.
///
/// # Errors
/// Anything else, a bare number included: a missing unit is a guess nobody should make.
pub fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    let error = || DurationError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| error())?;
    let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(error)?;
    Ok(Nanos::new((number * unit_ns).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ns) in
            [("500ns", 500), ("0.5us", 500), ("20 us", 20_000), ("2ms", 2_000_000), ("1.5s", 1_500_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Nanos::new(ns)), "{text}");
        }
        assert_eq!(parse_duration("0s"), Ok(Nanos::ZERO));
        assert_eq!(parse_duration("2min"), Ok(Nanos::from_secs(120)));
    }

    #[test]
    fn refuses_what_could_be_misread() {
        for text in ["", "5", "us", "-1us", "1.2.3us", "1h", "1e3us", "20us "] {
            assert!(parse_duration(text).is_err(), "{text:?} was read");
        }
    }
}
