//! Places on the earth, the data of LOC records (RFC 1876).

use super::generic::{Words, wrong};
use domain::base::scan::StrError;

/// Size and precisions if they are not given: 1 m, 10 km and 10 m, in centimetres as [`power`]
/// writes them.
const SIZES: [u8; 3] = [0x12, 0x16, 0x13];

/// Reads latitude, longitude, altitude, and optionally size and two precisions.
///
/// # Errors
/// Which of them is wrong.
pub(super) fn read(words: &mut Words<'_>) -> Result<Vec<u8>, StrError> {
    let latitude = angle(words, 90, ["N", "S"]).ok_or_else(|| wrong("expected latitude"))?;
    let longitude = angle(words, 180, ["E", "W"]).ok_or_else(|| wrong("expected longitude"))?;
    let altitude = words.next().and_then(|word| altitude(word)).ok_or_else(|| wrong("expected altitude in metres"))?;
    let mut sizes = SIZES;
    for (size, word) in sizes.iter_mut().zip(words) {
        *size = power(word).ok_or_else(|| wrong("expected size or precision in metres"))?;
    }
    Ok([&[0][..], &sizes, [latitude, longitude, altitude].map(u32::to_be_bytes).as_flattened()].concat())
}

/// An angle with its direction, in thousandths of a second of arc, counted from 2^31. Minutes and
/// seconds are optional.
fn angle(words: &mut Words<'_>, degrees_max: i64, [plus, minus]: [&str; 2]) -> Option<u32> {
    let mut thousandths = number(words.next()?, 0, 0..=degrees_max)? * 3_600_000;
    let mut word = words.next()?;
    for (unit, places, most) in [(60_000, 0, 59), (1, 3, 59_999)] {
        if !word.starts_with(|first: char| first.is_ascii_digit()) {
            break;
        }
        thousandths += number(word, places, 0..=most)? * unit;
        word = words.next()?;
    }
    let sign = match word {
        _ if word.eq_ignore_ascii_case(plus) => 1,
        _ if word.eq_ignore_ascii_case(minus) => -1,
        _ => return None,
    };
    u32::try_from((1 << 31) + sign * thousandths).ok()
}

/// An altitude in centimetres, counted from 100 km below sea level.
fn altitude(word: &str) -> Option<u32> {
    let lowest = 10_000_000;
    number(metres(word), 2, -lowest..=i64::from(u32::MAX) - lowest).map(|height| (height + lowest) as u32)
}

/// A length: a digit of centimetres, and the power of ten that it is multiplied by. Further digits
/// are left out.
fn power(word: &str) -> Option<u8> {
    let (mut digit, mut power) = (number(metres(word), 2, 0..=9_000_000_000)? as u64, 0);
    while digit > 9 {
        (digit, power) = (digit / 10, power + 1);
    }
    Some((digit as u8) << 4 | power)
}

fn metres(word: &str) -> &str {
    word.strip_suffix('m').unwrap_or(word)
}

/// A number with at most `places` decimal places, in units of the last of them.
fn number(text: &str, places: usize, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let number = format!("{whole}{part:0<places$}").parse().ok()?;
    (!whole.is_empty() && part.len() <= places && range.contains(&number)).then_some(number)
}
