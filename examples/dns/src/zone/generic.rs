//! Record types that `domain` knows only as digits after `\#` (RFC 3597): their text forms, and the
//! names in their data. One table has the parts of each type.

use super::{bitmap, location};
use crate::name::Name;
use domain::base::iana::{Rtype, SecurityAlgorithm};
use domain::base::name::{ToName, UncertainName};
use domain::base::scan::{IterScanner, Scan, Scanner, ScannerError, StrError};
use domain::rdata::dnssec::Timestamp;
use domain::utils::{base16, base64};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::slice;

/// The types with a text form, in the order of their numbers, and the parts of their data.
///
/// Knot and NSD read all of them, except for X25, ISDN, NSAP, SIG, PX, NXT, AVC and DLV, which only
/// NSD reads.
const FORMS: &[(Rtype, &[Part])] = &[
    (Rtype::AFSDB, &[Part::U16, Part::LowerName]),
    (Rtype::X25, &[Part::Text]),
    (Rtype::ISDN, &[Part::Texts]),
    (Rtype::RT, &[Part::U16, Part::LowerName]),
    (Rtype::NSAP, &[Part::Nsap]),
    (Rtype::SIG, SIG),
    (Rtype::KEY, &[Part::U16, Part::U8, Part::Algorithm, Part::Base64]),
    (Rtype::PX, &[Part::U16, Part::LowerName, Part::LowerName]),
    (Rtype::LOC, &[Part::Location]),
    (Rtype::NXT, &[Part::LowerName, Part::Bits]),
    (Rtype::KX, &[Part::U16, Part::LowerName]),
    (Rtype::CERT, &[Part::Certificate, Part::U16, Part::Algorithm, Part::Base64]),
    (Rtype::APL, &[Part::Prefixes]),
    (Rtype::DHCID, &[Part::Base64]),
    (Rtype::SMIMEA, &[Part::U8, Part::U8, Part::U8, Part::Hex]),
    (Rtype::CSYNC, &[Part::U32, Part::U16, Part::Types]),
    (Rtype::SPF, &[Part::Texts]),
    (Rtype::NID, &[Part::U16, Part::Groups { count: 4, digits: 4, between: ':' }]),
    (Rtype::L32, &[Part::U16, Part::Ip4]),
    (Rtype::L64, &[Part::U16, Part::Groups { count: 4, digits: 4, between: ':' }]),
    (Rtype::LP, &[Part::U16, Part::Name]),
    (Rtype::EUI48, &[Part::Groups { count: 6, digits: 2, between: '-' }]),
    (Rtype::EUI64, &[Part::Groups { count: 8, digits: 2, between: '-' }]),
    (Rtype::URI, &[Part::U16, Part::U16, Part::LongText]),
    (Rtype::AVC, &[Part::Texts]),
    (Rtype::DLV, &[Part::U16, Part::Algorithm, Part::U8, Part::Hex]),
];

/// The parts of SIG (RFC 2535, 4.1).
const SIG: &[Part] = &[
    Part::Type,
    Part::Algorithm,
    Part::U8,
    Part::U32,
    Part::Time,
    Part::Time,
    Part::U16,
    Part::LowerName,
    Part::Base64,
];

/// The certificate types of CERT that have names (RFC 4398, 2.1).
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

/// The words of an entry that have not been read yet, without quotes.
pub(super) type Words<'a> = slice::Iter<'a, &'a str>;

/// A part of a record's data: how it is written, and its bytes.
#[derive(Clone, Copy)]
enum Part {
    U8,
    U16,
    U32,
    /// A record type, in two bytes.
    Type,
    /// An algorithm of DNSSEC, by number or name, in one byte.
    Algorithm,
    /// A certificate type, by number or name, in two bytes.
    Certificate,
    /// A time as `YYYYMMDDHHmmSS`, in four bytes.
    Time,
    Ip4,
    /// A name. Signatures cover it as it is.
    Name,
    /// A name that is in lower case where signatures cover it (RFC 4034, 6.2).
    LowerName,
    /// Numbers of `digits` hexadecimal digits.
    Groups {
        count: usize,
        digits: usize,
        between: char,
    },
    /// A text of at most 255 bytes, after its length.
    Text,
    // The parts below take all words that are left, and all bytes.
    /// One or more texts.
    Texts,
    /// One text of any length, without its length.
    LongText,
    Hex,
    Base64,
    /// Hexadecimal digits after `0x`, with dots anywhere (RFC 1706, 7).
    Nsap,
    /// Types as in NSEC records.
    Types,
    /// Types as in NXT records: a bit for each number below 128 (RFC 2535, 5.2).
    Bits,
    /// Ranges of addresses (RFC 3123).
    Prefixes,
    /// A place on the earth (RFC 1876).
    Location,
}

/// The bytes of `words`, which are the data of a record of `rtype` in text form. Names without a
/// dot at their end are relative to `origin`. `None` if the type is not in the table.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn read(rtype: Rtype, words: &[String], origin: &str) -> Option<Result<Vec<u8>, StrError>> {
    let parts = parts(rtype)?;
    let words: Vec<&str> = words.iter().map(|word| unquoted(word)).collect();
    let (mut words, mut bytes) = (words.iter(), Vec::new());
    let read = parts.iter().try_for_each(|part| {
        bytes.extend(part.read(&mut words, origin)?);
        Ok(())
    });
    let complete = read.and_then(|()| if words.len() == 0 { Ok(bytes) } else { Err(StrError::trailing_tokens()) });
    Some(complete)
}

/// Checks the data of a record, and puts the names into lower case that signatures cover so
/// (RFC 4034, 6.2). `None` if the data is not that of the type. All data is good for a type that is
/// not in the table.
pub(super) fn canonicalize(rtype: Rtype, data: &mut [u8]) -> Option<()> {
    let Some(parts) = parts(rtype) else { return Some(()) };
    let mut rest = data;
    for part in parts {
        let length = part.length(rest)?;
        let (bytes, after) = rest.split_at_mut_checked(length)?;
        if matches!(part, Part::LowerName) {
            // Lengths are below the code of `A`, so they do not change.
            bytes.make_ascii_lowercase();
        }
        rest = after;
    }
    rest.is_empty().then_some(())
}

/// The algorithm with this name.
pub(super) fn algorithm(name: &str) -> Option<SecurityAlgorithm> {
    SecurityAlgorithm::from_mnemonic(name.to_ascii_uppercase().as_bytes())
}

fn parts(rtype: Rtype) -> Option<&'static [Part]> {
    FORMS.iter().find(|form| form.0 == rtype).map(|form| form.1)
}

fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word)
}

pub(super) fn wrong(what: &'static str) -> StrError {
    StrError::custom(what)
}

impl Part {
    fn read(self, words: &mut Words<'_>, origin: &str) -> Result<Vec<u8>, StrError> {
        if matches!(self, Part::Hex | Part::Base64 | Part::Texts) && words.len() == 0 {
            return Err(StrError::end_of_entry());
        }
        Ok(match self {
            Part::Texts => scanner(words).scan_charstr_entry()?,
            Part::Hex => scanner(words).convert_entry(base16::SymbolConverter::new())?,
            Part::Base64 => scanner(words).convert_entry(base64::SymbolConverter::new())?,
            Part::Types => bitmap(types(words)?).into(),
            Part::Bits => bits(&types(words)?).ok_or_else(|| wrong("expected types below 128"))?,
            Part::Prefixes => {
                let items = words.map(|word| prefix(word)).collect::<Option<Vec<_>>>();
                items.ok_or_else(|| wrong("expected 1:IPv4/length or 2:IPv6/length"))?.concat()
            }
            Part::Location => location::read(words)?,
            one => one.read_word(words.next().ok_or_else(StrError::end_of_entry)?, origin)?,
        })
    }

    fn read_word(self, word: &str, origin: &str) -> Result<Vec<u8>, StrError> {
        let scanner = &mut scanner([word]);
        Ok(match self {
            Part::U8 => vec![u8::scan(scanner)?],
            Part::U16 => u16::scan(scanner)?.to_be_bytes().into(),
            Part::U32 => u32::scan(scanner)?.to_be_bytes().into(),
            Part::Type => Rtype::scan(scanner)?.to_int().to_be_bytes().into(),
            Part::Algorithm => vec![algorithm(word).map_or_else(|| u8::scan(scanner), |named| Ok(named.to_int()))?],
            Part::Certificate => {
                let named = CERTIFICATES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
                named.map_or_else(|| u16::scan(scanner), |(_, number)| Ok(*number))?.to_be_bytes().into()
            }
            Part::Time => Timestamp::scan(scanner)?.into_int().to_be_bytes().into(),
            Part::Ip4 => word.parse::<Ipv4Addr>().map_err(|_| wrong("expected IPv4 address"))?.octets().into(),
            Part::Name | Part::LowerName => name(word, origin).ok_or_else(|| wrong("expected domain name"))?,
            Part::Groups { count, digits, between } => {
                groups(word, count, digits, between).ok_or_else(|| wrong("expected groups of hexadecimal digits"))?
            }
            Part::Nsap => {
                let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
                let digits = digits.ok_or_else(|| wrong("expected 0x and hexadecimal digits"))?.replace('.', "");
                base16::decode(&digits).map_err(|_| wrong("expected hexadecimal digits"))?
            }
            Part::Text => scanner.scan_charstr_entry()?,
            // Only texts are left.
            _ => scanner.scan_octets()?,
        })
    }

    /// How many bytes of `data`, at its beginning, are this part. The number may be larger than the
    /// length of `data`, which is then wrong, as it is if there is no number.
    fn length(self, data: &[u8]) -> Option<usize> {
        Some(match self {
            Part::U8 | Part::Algorithm => 1,
            Part::U16 | Part::Type | Part::Certificate => 2,
            Part::U32 | Part::Time | Part::Ip4 => 4,
            Part::Name | Part::LowerName => Name::parse(data)?.as_bytes().len(),
            Part::Groups { count, digits, .. } => count * digits / 2,
            Part::Text => 1 + usize::from(*data.first()?),
            Part::Texts => items(data, 0, |length| length)?,
            Part::Prefixes => items(data, 3, |length| length & 0x7f)?,
            Part::LongText | Part::Hex | Part::Base64 | Part::Nsap | Part::Types | Part::Bits | Part::Location => {
                data.len()
            }
        })
    }
}

fn scanner<I: IntoIterator<Item: AsRef<str>>>(words: I) -> IterScanner<I::IntoIter, Vec<u8>> {
    IterScanner::new(words)
}

fn types(words: &mut Words<'_>) -> Result<Vec<Rtype>, StrError> {
    words.map(|word| Rtype::scan(&mut scanner([word]))).collect()
}

fn bits(types: &[Rtype]) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for rtype in types.iter().map(|rtype| usize::from(rtype.to_int())) {
        bits.resize(bits.len().max(rtype / 8 + 1), 0);
        bits[rtype / 8] |= 0x80 >> (rtype % 8);
    }
    (bits.len() <= 16).then_some(bits)
}

/// An item of APL: `1:192.0.2.0/24`, or `!` before it.
fn prefix(item: &str) -> Option<Vec<u8>> {
    let (negated, item) = item.strip_prefix('!').map_or((0, item), |item| (0x80, item));
    let (family, rest) = item.split_once(':')?;
    let (address, length) = rest.split_once('/')?;
    let (address, longest) = match family {
        "1" => (address.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
        "2" => (address.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
        _ => return None,
    };
    let length = length.parse::<u8>().ok().filter(|length| *length <= longest)?;
    // Zero bytes at the end are left out.
    let kept = address.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Some([&[0, family.parse().ok()?, length, negated | kept as u8], &address[..kept]].concat())
}

/// Exactly `count` groups of at most `digits` hexadecimal digits.
fn groups(text: &str, count: usize, digits: usize, between: char) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for group in text.split(between) {
        let written = group.len() <= digits && group.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u16::from_str_radix(group, 16).ok().filter(|_| written)?;
        bytes.extend(&number.to_be_bytes()[2 - digits / 2..]);
    }
    (bytes.len() == count * digits / 2).then_some(bytes)
}

fn name(text: &str, origin: &str) -> Option<Vec<u8>> {
    let origin: domain::base::Name<Vec<u8>> = origin.parse().ok()?;
    match text {
        "@" => return Some(origin.into_octets()),
        "." => return Some(vec![0]),
        _ => {}
    }
    let name: UncertainName<Vec<u8>> = text.parse().ok()?;
    Some(name.chain(origin).ok()?.to_name::<Vec<u8>>().into_octets())
}

/// The length of all items in `data`. Each has `head` bytes and a byte that says how many more.
fn items(data: &[u8], head: usize, more: fn(u8) -> u8) -> Option<usize> {
    let mut end = 0;
    while end < data.len() {
        end += head + 1 + usize::from(more(*data.get(end + head)?));
    }
    Some(end)
}
