//! Data of the record types that NSD and Knot read by name and `domain` does not: a row a type, a field kind a format.

use domain::base::iana::{Rtype, SecurityAlgorithm};
use domain::base::name::Name;
use domain::utils::{base16, base64};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How a part of the data is written in text, and what it is on the wire.
#[derive(Clone, Copy)]
enum Field {
    U8,
    U16,
    U32,
    Name,
    Ip4,
    /// Four groups of hexadecimal digits with colons: 64 bits.
    Groups,
    /// So many bytes in hexadecimal digits, with dashes.
    Dashes(usize),
    /// Number or mnemonic of a DNSSEC algorithm.
    Algorithm,
    /// Number or mnemonic of a certificate's type (RFC 4398, 2.1).
    Certificate,
    /// Text without a length.
    Text,
    // What follows takes all words that are left.
    Texts,
    Base64,
    Hex,
    Types,
    Prefixes,
    Location,
}

use Field::{
    Algorithm, Base64, Certificate, Dashes, Groups, Hex, Ip4, Location, Prefixes, Text, Texts, Types, U8, U16, U32,
};

const TYPES: [(Rtype, &[Field]); 22] = [
    (Rtype::AFSDB, &[U16, Field::Name]),
    (Rtype::RT, &[U16, Field::Name]),
    (Rtype::KX, &[U16, Field::Name]),
    (Rtype::LP, &[U16, Field::Name]),
    (Rtype::KEY, &[U16, U8, Algorithm, Base64]),
    // domain reads these four, but for names of algorithms.
    (Rtype::DS, &[U16, Algorithm, U8, Hex]),
    (Rtype::CDS, &[U16, Algorithm, U8, Hex]),
    (Rtype::DNSKEY, &[U16, U8, Algorithm, Base64]),
    (Rtype::CDNSKEY, &[U16, U8, Algorithm, Base64]),
    (Rtype::LOC, &[Location]),
    (Rtype::CERT, &[Certificate, U16, Algorithm, Base64]),
    (Rtype::APL, &[Prefixes]),
    (Rtype::DHCID, &[Base64]),
    (Rtype::SMIMEA, &[U8, U8, U8, Hex]),
    (Rtype::CSYNC, &[U32, U16, Types]),
    (Rtype::SPF, &[Texts]),
    (Rtype::URI, &[U16, U16, Text]),
    (Rtype::NID, &[U16, Groups]),
    (Rtype::L64, &[U16, Groups]),
    (Rtype::L32, &[U16, Ip4]),
    (Rtype::EUI48, &[Dashes(6)]),
    (Rtype::EUI64, &[Dashes(8)]),
];

/// Numbers of certificates' types.
const CERTIFICATES: [(&str, u16); 10] = [
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// The data of a record of `rtype` that `words` describe; `None` if the type is not one of these.
///
/// # Errors
/// The word that is wrong, or what is missing.
pub(super) fn data(rtype: u16, words: &[String], origin: &str) -> Result<Option<Vec<u8>>, String> {
    let Some((_, fields)) = TYPES.iter().find(|(number, _)| number.to_int() == rtype) else { return Ok(None) };
    let (mut out, mut words) = (Vec::new(), words);
    for field in *fields {
        write(*field, &mut words, origin, &mut out)?;
    }
    match words.first() {
        Some(word) => Err(format!("{word:?} is one too many")),
        None => Ok(Some(out)),
    }
}

fn write(field: Field, words: &mut &[String], origin: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if matches!(field, Texts | Base64 | Hex | Types | Prefixes | Location) {
        return write_all(field, std::mem::take(words), out);
    }
    let (word, rest) = words.split_first().ok_or("the data ends too early")?;
    *words = rest;
    let wrong = || format!("{word:?} is no {}", expected(field));
    match field {
        U8 => out.push(word.parse().map_err(|_| wrong())?),
        U32 => out.extend(word.parse::<u32>().map_err(|_| wrong())?.to_be_bytes()),
        Field::Name => out.extend(name(word, origin).ok_or_else(wrong)?),
        Ip4 => out.extend(word.parse::<Ipv4Addr>().map_err(|_| wrong())?.octets()),
        Groups => {
            let address: Ipv6Addr = format!("{word}::").parse().map_err(|_| wrong())?;
            if word.split(':').count() != 4 || word.contains("::") {
                return Err(wrong());
            }
            out.extend(&address.octets()[..8]);
        }
        Dashes(count) => {
            let bytes: Result<Vec<u8>, _> = word.split('-').map(|byte| u8::from_str_radix(byte, 16)).collect();
            out.extend(
                bytes.ok().filter(|bytes| bytes.len() == count && word.len() == 3 * count - 1).ok_or_else(wrong)?,
            );
        }
        Algorithm => {
            let known = || SecurityAlgorithm::from_mnemonic(word.to_ascii_uppercase().as_bytes());
            let number = word.parse().ok().or_else(|| known().map(|known| known.to_int()));
            out.push(number.ok_or_else(wrong)?);
        }
        Text => out.extend(unquoted(word).ok_or_else(wrong)?),
        _ => {
            let known =
                CERTIFICATES.iter().find(|(name, _)| matches!(field, Certificate) && name.eq_ignore_ascii_case(word));
            let number = known.map(|known| known.1).or_else(|| word.parse().ok());
            out.extend(number.ok_or_else(wrong)?.to_be_bytes());
        }
    }
    Ok(())
}

/// What a word that is wrong should have been.
fn expected(field: Field) -> &'static str {
    match field {
        U8 => "number up to 255",
        U16 => "number up to 65535",
        U32 => "number up to 4294967295",
        Field::Name => "name",
        Ip4 => "IPv4 address",
        Groups => "four groups of hexadecimal digits",
        Dashes(_) => "address of bytes with dashes",
        Algorithm => "algorithm",
        Certificate => "type of certificate",
        Text | Texts => "text",
        Base64 => "base64",
        Hex => "hexadecimal digits",
        Types => "record type",
        Prefixes => "address prefix",
        Location => "location",
    }
}

/// Writes a field that takes all words that are left.
fn write_all(field: Field, words: &[String], out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || format!("{:?} is no {}", words.join(" "), expected(field));
    if words.is_empty() && !matches!(field, Prefixes | Types) {
        return Err("the data ends too early".to_owned());
    }
    match field {
        Texts => {
            for word in words {
                let text = unquoted(word).filter(|text| text.len() <= 255).ok_or_else(wrong)?;
                out.push(text.len() as u8);
                out.extend(text);
            }
        }
        Base64 => out.extend(base64::decode::<Vec<u8>>(&words.concat()).map_err(|_| wrong())?),
        Hex => out.extend(base16::decode_vec(&words.concat()).map_err(|_| wrong())?),
        Types => {
            let types: Option<Vec<u16>> = words.iter().map(|word| Some(word.parse::<Rtype>().ok()?.to_int())).collect();
            out.extend(super::bitmap(types.ok_or_else(wrong)?));
        }
        Prefixes => words.iter().try_for_each(|word| prefix(word, out)).ok_or_else(wrong)?,
        _ => location(words, out).ok_or_else(wrong)?,
    }
    Ok(())
}

/// A name on the wire.
fn name(word: &str, origin: &str) -> Option<Vec<u8>> {
    let absolute = word.ends_with('.') && !word.ends_with("\\.");
    let text = if absolute { word.to_owned() } else { format!("{word}.{}", origin.trim_start_matches('.')) };
    Some(Name::<Vec<u8>>::vec_from_str(&text).ok()?.as_slice().to_vec())
}

/// The bytes of a text, without quotes and escapes.
fn unquoted(word: &str) -> Option<Vec<u8>> {
    let word = word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word).as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = word.get(at) {
        at += 1;
        if *byte != b'\\' {
            out.push(*byte);
        } else if word.get(at)?.is_ascii_digit() {
            out.push(std::str::from_utf8(word.get(at..at + 3)?).ok()?.parse().ok()?);
            at += 3;
        } else {
            out.push(word[at]);
            at += 1;
        }
    }
    Some(out)
}

/// Appends an address prefix, such as `!1:192.0.2.0/24` (RFC 3123).
fn prefix(word: &str, out: &mut Vec<u8>) -> Option<()> {
    let (negated, word) = word.strip_prefix('!').map_or((0, word), |word| (0x80, word));
    let (family, rest) = word.split_once(':')?;
    let (address, bits) = rest.split_once('/')?;
    let (family, bits): (u16, u8) = (family.parse().ok()?, bits.parse().ok()?);
    let address = match family {
        1 => address.parse::<Ipv4Addr>().ok()?.octets().to_vec(),
        2 => address.parse::<Ipv6Addr>().ok()?.octets().to_vec(),
        _ => return None,
    };
    if usize::from(bits) > address.len() * 8 {
        return None;
    }
    let length = address.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    out.extend(family.to_be_bytes());
    out.extend([bits, negated | length as u8]);
    out.extend(&address[..length]);
    Some(())
}

/// Appends a location, such as `52 22 23 N 4 53 32 E -2.00m 10m` (RFC 1876, 3).
fn location(words: &[String], out: &mut Vec<u8>) -> Option<()> {
    let mut words = words;
    let latitude = angle(&mut words, 90, ["N", "S"])?;
    let longitude = angle(&mut words, 180, ["E", "W"])?;
    let metres = |word: &str| decimal(word.strip_suffix(['m', 'M']).unwrap_or(word), 2);
    let (altitude, sizes) = words.split_first()?;
    let (sign, height) = altitude.strip_prefix('-').map_or((1, altitude.as_str()), |height| (-1, height));
    let altitude = 10_000_000 + sign * metres(height)?;
    let mut bytes = [0x12, 0x16, 0x13];
    for (index, word) in sizes.iter().enumerate() {
        let (mut digit, mut power) = (metres(word)?, 0);
        while digit > 9 {
            (digit, power) = (digit / 10, power + 1);
        }
        *bytes.get_mut(index)? = (digit as u8) << 4 | Some(power).filter(|power| *power <= 9)?;
    }
    out.push(0);
    out.extend(bytes);
    for number in [latitude, longitude, altitude] {
        out.extend(u32::try_from(number).ok()?.to_be_bytes());
    }
    Some(())
}

/// Degrees, minutes and seconds up to a direction, in thousandths of a second from 2^31 on.
fn angle(words: &mut &[String], degrees_max: i64, directions: [&str; 2]) -> Option<i64> {
    let end = words.iter().position(|word| directions.iter().any(|direction| word.eq_ignore_ascii_case(direction)))?;
    let (parts, rest) = words.split_at(end);
    let mut sum = 0;
    for (index, part) in parts.iter().enumerate() {
        let (unit, digits, most) = *[(3_600_000, 0, degrees_max), (60_000, 0, 59), (1, 3, 59_999)].get(index)?;
        sum += unit * decimal(part, digits).filter(|number| *number <= most)?;
    }
    let sign = if rest[0].eq_ignore_ascii_case(directions[0]) { 1 } else { -1 };
    *words = &rest[1..];
    (!parts.is_empty()).then_some((1 << 31) + sign * sum)
}

/// A number with up to `digits` digits after its point, as a multiple of the last of them.
fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > digits || whole.len() > 9 || !all(whole) || !all(part) {
        return None;
    }
    format!("{whole}{part:0<digits$}").parse().ok()
}
