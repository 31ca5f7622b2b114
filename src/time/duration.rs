//! Durations as people write them in flags, files and workloads: `20us`, `0.5us`, `2ms`, `1s`.

use super::Nanos;

/// How a duration is written, for help and errors.
pub const DURATION_FORM: &str = "a number and a unit (ns, us, ms, s, min, h), like 0.5us or 20ms";

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write {DURATION_FORM}")]
pub struct DurationError(String);

/// Reads a decimal number, at least zero, followed by `ns`, `us`, `ms`, `s`, `min` or `h`; rounds to a nanosecond. What
/// is longer than [`Nanos::MAX`] is that.
///
/// # Errors
/// Anything else. A bare number is too: its unit would be a guess. So is `5m`, which half of its readers take for
/// milliseconds.
pub fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    let error = || DurationError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| error())?;
    let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(error)?;
    Ok(Nanos::new((number * unit_ns).round() as u64))
}

/// `µs` is what [`std::time::Duration`] prints.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3_600e9)];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ns) in
            [("500ns", 500), ("0.5us", 500), ("20 us", 20_000), ("2ms", 2_000_000), ("1.5s", 1_500_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Nanos::new(ns)), "{text}");
        }
        assert_eq!(parse_duration("0s"), Ok(Nanos::ZERO));
        assert_eq!(parse_duration("2min"), Ok(Nanos::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Nanos::from_secs(3_600)));
        assert_eq!(parse_duration("1000000000000000000000h"), Ok(Nanos::MAX));
    }

    #[test]
    fn refuses_what_could_be_misread() {
        for text in ["", "5", "us", "-1us", "1.2.3us", "5m", "1d", "1e3us", "20us ", "1h 30min", ".", ".s", "1µ"] {
            let error = parse_duration(text).expect_err(text).to_string();
            assert!(error.contains(DURATION_FORM), "{error}");
        }
    }

    proptest! {
        /// Does every time up to a month read back exactly as it is shown?
        #[test]
        fn what_is_shown_is_read_back(ns in prop_oneof![0_u64..10_000_000, 0_u64..2_600_000_000_000_000]) {
            let time = Nanos::new(ns);
            prop_assert_eq!(parse_duration(&time.to_string()), Ok(time), "{}", time);
            prop_assert!(time.to_string().is_ascii());
        }
    }
}
