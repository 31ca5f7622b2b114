//! Data of types that `domain` cannot read in text form. It is converted to bytes, as RFC 3597
//! writes after `\#`.

use super::bitmap;
use domain::base::Name;
use domain::base::iana::Rtype;
use domain::utils::{base16, base64};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The bytes of `words`, the data of a record of `rtype` in text form. `None` if this is another
/// type, or the data is wrong.
pub(super) fn data(rtype: Rtype, words: &[String], origin: &str) -> Option<Vec<u8>> {
    let word = |place: usize| words.get(place).map(String::as_str);
    let short = |place| Some(word(place)?.parse::<u16>().ok()?.to_be_bytes());
    let (count, bytes) = match rtype {
        Rtype::APL => (words.len(), words.iter().map(|item| prefix(item)).collect::<Option<Vec<_>>>()?.concat()),
        Rtype::DHCID => (words.len(), base64::decode(&words.concat()).ok()?),
        Rtype::SMIMEA => {
            let numbers: Vec<u8> = words.get(..3)?.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
            (words.len(), [numbers, base16::decode(&words[3..].concat()).ok()?].concat())
        }
        Rtype::CERT => {
            let name = CERTIFICATES.iter().position(|name| Some(*name) == word(0));
            let kind = name.map_or_else(|| short(0), |place| Some((place as u16 + 1).to_be_bytes()))?;
            let algorithm = word(2)?.parse::<u8>().ok()?;
            let certificate: Vec<u8> = base64::decode(&words[3..].concat()).ok()?;
            (words.len(), [&kind[..], &short(1)?, &[algorithm], &certificate].concat())
        }
        Rtype::LOC => (words.len(), place(words)?),
        Rtype::CSYNC => {
            let types = words.get(2..)?.iter().map(|word| word.parse::<Rtype>().ok().map(Rtype::to_int));
            let serial = word(0)?.parse::<u32>().ok()?.to_be_bytes();
            let types = bitmap(types.collect::<Option<Vec<_>>>()?);
            (words.len(), [&serial[..], &short(1)?, &types].concat())
        }
        Rtype::NID | Rtype::L64 => (2, [&short(0)?[..], &groups(word(1)?, ':', 4, 4)?].concat()),
        Rtype::L32 => (2, [&short(0)?[..], &word(1)?.parse::<Ipv4Addr>().ok()?.octets()].concat()),
        Rtype::LP => (2, [&short(0)?[..], &name(word(1)?, origin)?].concat()),
        Rtype::EUI48 => (1, groups(word(0)?, '-', 6, 2)?),
        Rtype::EUI64 => (1, groups(word(0)?, '-', 8, 2)?),
        Rtype::URI => (3, [&short(0)?[..], &short(1)?, &text(word(2)?)?].concat()),
        _ => return None,
    };
    (words.len() == count).then_some(bytes)
}

/// The certificate types of CERT that have names, numbered from 1 (RFC 4398).
const CERTIFICATES: [&str; 8] = ["PKIX", "SPKI", "PGP", "IPKIX", "ISPKI", "IPGP", "ACPKIX", "IACPKIX"];

/// The data of LOC (RFC 1876): latitude, longitude, altitude, and optionally size and two
/// precisions.
fn place(words: &[String]) -> Option<Vec<u8>> {
    let mut words = words.iter().map(String::as_str);
    let latitude = angle(&mut words, 90, ["N", "S"])?;
    let longitude = angle(&mut words, 180, ["E", "W"])?;
    let centimetres = |word: &str| {
        let metres = word.strip_suffix('m').unwrap_or(word).parse::<f64>().ok()?;
        Some((metres * 100.0).round())
    };
    // Altitude counts from 100 km below sea level.
    let altitude = centimetres(words.next()?)? + 1e7;
    let altitude = (0.0..=f64::from(u32::MAX)).contains(&altitude).then_some(altitude as u32)?;
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        let Some(word) = words.next() else { break };
        let (mut digit, mut power) = (centimetres(word).filter(|size| (0.0..=9e9).contains(size))? as u64, 0);
        while digit > 9 {
            (digit, power) = (digit / 10, power + 1);
        }
        *size = (digit as u8) << 4 | power;
    }
    let numbers = [latitude, longitude, altitude].map(u32::to_be_bytes);
    words.next().is_none().then(|| [&[0][..], &sizes, numbers.as_flattened()].concat())
}

/// An angle with its direction, in thousandths of a second of arc, counted from 2^31. Minutes and
/// seconds are optional.
fn angle<'a>(words: &mut impl Iterator<Item = &'a str>, most: u32, [plus, minus]: [&str; 2]) -> Option<u32> {
    let mut thousandths = 0;
    for unit in [3_600_000.0, 60_000.0, 1_000.0, 0.0] {
        let word = words.next()?;
        if word.eq_ignore_ascii_case(plus) || word.eq_ignore_ascii_case(minus) {
            let within = thousandths <= most * 3_600_000;
            let sign = if word.eq_ignore_ascii_case(plus) { 1 } else { -1 };
            return within.then(|| (1_u32 << 31).wrapping_add_signed(sign * thousandths as i32));
        }
        let number = word.parse::<f64>().ok().filter(|number| (0.0..=180.0).contains(number) && unit > 0.0)?;
        thousandths += (number * unit).round() as u32;
    }
    None
}

/// An item of APL (RFC 3123): `1:192.0.2.0/24`, or `!` before it.
fn prefix(item: &str) -> Option<Vec<u8>> {
    let (negated, item) = item.strip_prefix('!').map_or((0, item), |item| (0x80, item));
    let (family, rest) = item.split_once(':')?;
    let (address, length) = rest.split_once('/')?;
    let (address, most) = match family {
        "1" => (address.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
        "2" => (address.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
        _ => return None,
    };
    let length = length.parse::<u8>().ok().filter(|length| *length <= most)?;
    // Zero bytes at the end are left out.
    let kept = address.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Some([&[0, family.parse().ok()?, length, negated | kept as u8], &address[..kept]].concat())
}

/// Exactly `count` groups of at most `digits` hexadecimal digits, with `between` between them.
fn groups(text: &str, between: char, count: usize, digits: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for group in text.split(between) {
        let number = u16::from_str_radix(group, 16).ok().filter(|_| group.len() <= digits)?;
        bytes.extend(&number.to_be_bytes()[2 - digits / 2..]);
    }
    (bytes.len() == count * digits / 2).then_some(bytes)
}

/// A name, which may be relative to the origin.
fn name(text: &str, origin: &str) -> Option<Vec<u8>> {
    let absolute = text.ends_with('.') && !text.ends_with("\\.");
    let full = if text == "@" { origin.to_owned() } else { format!("{text}.{}", origin.trim_start_matches('.')) };
    let name: Name<Vec<u8>> = if absolute { text } else { &full }.parse().ok()?;
    Some(name.as_slice().to_vec())
}

/// A text, with or without quotes, whose bytes may be written as `\DDD`.
fn text(word: &str) -> Option<Vec<u8>> {
    let inner = word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word);
    let (mut bytes, mut rest) = (Vec::new(), inner.as_bytes());
    while let [first, after @ ..] = rest {
        let byte;
        (byte, rest) = match (first, after) {
            (b'\\', [b'0'..=b'9', _, _, after @ ..]) => (str::from_utf8(&rest[1..4]).ok()?.parse().ok()?, after),
            (b'\\', [escaped, after @ ..]) => (*escaped, after),
            _ => (*first, after),
        };
        bytes.push(byte);
    }
    Some(bytes)
}
