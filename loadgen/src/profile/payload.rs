//! Payloads of `--payload`, and the place in a reply that repeats their counter (`--match`).

use super::{Chosen, Common, Profile, Told};
use crate::lab::workload::{Arrival, Workload};
use forebay::fate::{CLASSES, DATAGRAM_MAX_BYTES};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::fs::File;
use std::io::Read;
use std::str::FromStr;

/// The longest payload that one datagram holds over IPv4.
const PAYLOAD_MAX_BYTES: usize = 65_507;
/// The largest file: a payload as text with a comment for each byte.
const FILE_MAX_BYTES: u64 = 4 << 20;
const ALLOWED: &str = "hex digits and fields {counter:1..8}, {random:1..1024}, {class:1..8}, like 00ff{counter:4}";

/// One `--payload`: a class of requests.
#[derive(Clone, Debug)]
pub struct Payload {
    name: Option<String>,
    weight: f64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Counter(usize),
    Random(usize),
    Class(usize),
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Payload, String> {
        let (name, rest) = match text.split_once('=').filter(|(name, _)| !name.contains([':', '@'])) {
            Some((name, rest)) => (Some(named(name)?), rest),
            None => (None, text),
        };
        let (weight, rest) = match rest.split_once('@').filter(|(weight, _)| !weight.contains(':')) {
            Some((weight, rest)) => (weigh(weight)?, rest),
            None => (1.0, rest),
        };
        let pieces = match rest.strip_prefix("file:") {
            Some(path) => {
                read(path).and_then(|text| pieces(&text)).map_err(|problem| format!("file {path}: {problem}"))?
            }
            None => pieces(rest)?,
        };
        Ok(Payload { name, weight, pieces })
    }
}

fn named(name: &str) -> Result<String, String> {
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-_".contains(char);
    let is_name = name.starts_with(|char: char| char.is_ascii_lowercase()) && name.chars().all(fits) && name != "all";
    let allowed = "write a letter, then letters, digits, - and _ in lower case, and not `all`";
    if is_name { Ok(name.to_owned()) } else { Err(format!("`{name}` is no name of a class: {allowed}")) }
}

fn weigh(text: &str) -> Result<f64, String> {
    let weight = text.parse().ok().filter(|weight: &f64| (1e-6..=1e6).contains(weight));
    weight.ok_or_else(|| format!("`{text}` is no weight: write a number from 0.000001 to 1000000, like 0.9"))
}

/// The text of the file at `path`, without white space and comments.
fn read(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text));
    file.map_err(|error| format!("it cannot be read: {error}"))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20));
    }
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    Ok(lines.flat_map(str::split_whitespace).collect())
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (piece, after) = match rest.strip_prefix('{') {
            Some(field) => field.split_once('}').and_then(|(field, after)| Some((self::field(field)?, after))),
            None => {
                let (digits, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
                bytes(digits).map(|bytes| (Piece::Bytes(bytes), after))
            }
        }
        .ok_or_else(|| {
            format!("`{}` is no part of a payload: write {ALLOWED}", rest.chars().take(24).collect::<String>())
        })?;
        pieces.push(piece);
        rest = after;
    }
    match pieces.iter().map(Piece::length).sum() {
        1..=PAYLOAD_MAX_BYTES => Ok(pieces),
        length => Err(format!("it has {length} bytes: write 1 to {PAYLOAD_MAX_BYTES} bytes, as {ALLOWED}")),
    }
}

fn field(text: &str) -> Option<Piece> {
    let (kind, length) = text.split_once(':')?;
    match (kind, length.parse().ok()?) {
        ("counter", length @ 1..=8) => Some(Piece::Counter(length)),
        ("random", length @ 1..=1024) => Some(Piece::Random(length)),
        ("class", length @ 1..=8) => Some(Piece::Class(length)),
        _ => None,
    }
}

/// The bytes that an even number of hex digits stands for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Counter(length) | Piece::Random(length) | Piece::Class(length) => *length,
        }
    }
}

impl Payload {
    /// Offset and length of the counter.
    fn counter(&self) -> Option<(usize, usize)> {
        let at = self.pieces.iter().position(|piece| matches!(piece, Piece::Counter(_)))?;
        Some((self.pieces[..at].iter().map(Piece::length).sum(), self.pieces[at].length()))
    }
}

/// Where a reply repeats the counter of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// `length` bytes at `offset` are the last bytes of the counter.
    At {
        /// Bytes before it.
        offset: usize,
        /// Its length in bytes.
        length: usize,
    },
    /// Nowhere: any datagram of a flow answers.
    None,
}

impl FromStr for Match {
    type Err = String;

    fn from_str(text: &str) -> Result<Match, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        let found = match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => return Ok(Match::None),
            ["prefix", length] => Some(0).zip(number(length)),
            ["offset", offset, length] => number(offset).zip(number(length)),
            _ => None,
        };
        // Of a longer reply the rest is not read.
        let found = found.filter(|(offset, length)| (1..=8).contains(length) && *offset <= DATAGRAM_MAX_BYTES - length);
        found.map(|(offset, length)| Match::At { offset, length }).ok_or_else(|| {
            format!(
                "write none, prefix:LEN or offset:N:LEN, LEN from 1 to 8 bytes, all in the first {DATAGRAM_MAX_BYTES}"
            )
        })
    }
}

/// The requests of a run with `--payload`.
#[derive(Debug)]
struct Payloads {
    payloads: Vec<Payload>,
    repeats: Match,
    names: Vec<&'static str>,
}

impl Chosen {
    /// Requests of these payloads, at least one, each a class. `repeats` is by default the place of
    /// the counter in the payloads.
    ///
    /// # Errors
    /// If there are too many, or a reply cannot be matched.
    pub(crate) fn of_payloads(payloads: Vec<Payload>, repeats: Option<Match>) -> Result<Chosen, String> {
        if payloads.len() > CLASSES {
            return Err(format!("--payload is given {} times: at most {CLASSES}", payloads.len()));
        }
        let counters: Option<Vec<_>> = payloads.iter().map(Payload::counter).collect();
        let repeats = match (repeats, counters.as_deref()) {
            (Some(Match::None), _) => Match::None,
            (_, None) => return Err("--payload has no {counter:N}: add one to each, or say --match none".to_owned()),
            (Some(Match::At { length, .. }), Some(counters)) if counters.iter().any(|(_, has)| *has < length) => {
                return Err(format!("--match names {length} bytes, but {{counter:N}} of a --payload has fewer"));
            }
            (Some(at), Some(_)) => at,
            (None, Some([first, others @ ..])) if others.iter().all(|other| other == first) => {
                let (offset, length) = *first;
                Match::At { offset, length }
            }
            (None, Some(_)) => {
                return Err(
                    "each --payload has its {counter:N} elsewhere: say where replies repeat it, with --match".into()
                );
            }
        };
        let name =
            |(number, payload): (usize, &Payload)| payload.name.clone().unwrap_or_else(|| format!("payload{number}"));
        let names: Vec<String> = (1..).zip(&payloads).map(name).collect();
        if let Some(twice) = names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name))
        {
            return Err(format!("--payload has the name {twice} twice: give each a name of its own"));
        }
        let sum: f64 = payloads.iter().map(|payload| payload.weight).sum();
        let shares: Vec<f64> = payloads.iter().map(|payload| payload.weight / sum).collect();
        let told: Vec<String> = names.iter().zip(&shares).map(|(name, share)| format!("{share:.3} {name}")).collect();
        let requests = Workload::without_costs(told.join(" + "), &shares);
        // Reports hold them as long as the program runs: at most eight, once.
        let names = names.into_iter().map(|name| &*name.leak()).collect();
        Ok(Chosen::new(Payloads { payloads, repeats, names }, requests))
    }
}

impl Profile for Payloads {
    fn protocol(&self) -> &'static str {
        "payload's"
    }

    fn classes(&self) -> &[&'static str] {
        &self.names
    }

    fn write(&self, run: Common, id: u64, _: u8, request: &Arrival, into: &mut Vec<u8>) {
        let mut random = SplitMix64::seed_from_u64(run.session ^ id);
        let number = |number: u64, length: usize| number.to_be_bytes().into_iter().skip(8 - length);
        for piece in &self.payloads[usize::from(request.class)].pieces {
            match piece {
                Piece::Bytes(bytes) => into.extend(bytes),
                Piece::Counter(length) => into.extend(number(id, *length)),
                Piece::Class(length) => into.extend(number(request.class.into(), *length)),
                Piece::Random(length) => {
                    let from = into.len();
                    into.resize(from + length, 0);
                    random.fill_bytes(&mut into[from..]);
                }
            }
        }
    }

    fn read(&self, _: Common, reply: &[u8]) -> Option<Told> {
        let Match::At { offset, length } = self.repeats else { return Some(Told::answer(0, 0)) };
        let bytes = reply.get(offset..offset + length)?;
        let id = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some(Told::answer(id, self.id_bits()))
    }

    fn id_bits(&self) -> u32 {
        match self.repeats {
            Match::At { length, .. } => 8 * length as u32,
            Match::None => 0,
        }
    }

    fn more_bits(&self) -> Option<&'static str> {
        Some(match self.repeats {
            Match::At { .. } => "a longer {counter:N}",
            Match::None => "a {counter:N} and a --match that is not none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::time::Nanos;

    const RUN: Common = Common { session: 5, deadline_us: 0, may_repeat: false, kept: 0 };

    fn chosen(payloads: &[&str], repeats: Option<&str>) -> Result<Chosen, String> {
        let payloads = payloads.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Chosen::of_payloads(payloads, repeats.map(str::parse).transpose()?)
    }

    fn written(chosen: &Chosen, id: u64, class: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = Arrival { at: Nanos::ZERO, cost: Nanos::ZERO, flow: 0, class };
        chosen.profile.write(RUN, id, 0, &request, &mut bytes);
        bytes
    }

    // Are fields filled as they should be, for each class, and is a reply read at the same place?
    #[test]
    fn fields_are_written_and_the_counter_is_read_back() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "ff # a mark\n{counter:4}\n 00 01\n").expect("written");
        let file = format!("long=3@file:{}", file.path().display());
        let chosen = chosen(&["aA{counter:4}{random:5}{class:2}", &file], None).expect("two payloads");
        assert_eq!(chosen.profile.classes(), ["payload1", "long"]);
        let shares: Vec<f64> =
            chosen.requests.as_ref().expect("no costs").classes().iter().map(|class| class.share).collect();
        assert_eq!(shares, [0.25, 0.75]);
        let [first, second] = [written(&chosen, 0x0001_0203, 0), written(&chosen, 0x0001_0204, 0)];
        assert_eq!((&first[..5], &first[10..], first.len()), (&[0xaa, 0, 1, 2, 3][..], &[0, 0][..], 12));
        assert_ne!(first[5..10], second[5..10], "random bytes");
        assert_eq!(written(&chosen, 7, 1), [0xff, 0, 0, 0, 7, 0, 1]);
        let told = chosen.profile.read(RUN, &first).expect("it repeats the counter");
        assert_eq!((told.id, told.id_bits), (0x0001_0203, 32));
        assert!(chosen.profile.read(RUN, &first[..4]).is_none());
    }

    #[test]
    fn a_reply_is_read_where_match_says() {
        let read = |repeats, reply: &[u8]| {
            let chosen = chosen(&["{counter:4}", "00{counter:8}"], Some(repeats)).expect("payloads");
            chosen.profile.read(RUN, reply).map(|told| (told.id, told.id_bits))
        };
        assert_eq!(read("prefix:2", b"\x01\x02\x03"), Some((0x102, 16)));
        assert_eq!(read("offset:1:2", b"\x01\x02\x03"), Some((0x203, 16)));
        assert_eq!(read("offset:2:2", b"\x01\x02\x03"), None);
        assert_eq!(read("none", b""), Some((0, 0)));
    }

    #[test]
    fn what_cannot_be_sent_or_matched_is_refused() {
        for (payloads, repeats, expected) in [
            (&["0"][..], None, "`0` is no part of a payload: write hex digits and fields"),
            (&["00{counter}"], None, "`{counter}` is no part"),
            (&["00{counter:9}"], None, "is no part"),
            (&["00{count:1}"], None, "is no part"),
            (&["00{counter:4"], None, "is no part"),
            (&["ü"], None, "is no part"),
            (&[""], None, "it has 0 bytes: write 1 to 65507"),
            (&["0@00"], None, "`0` is no weight"),
            (&["all=00"], None, "`all` is no name of a class"),
            (&["a=00{counter:1}", "a=00{counter:1}"], None, "the name a twice"),
            (&["file:/nowhere"], None, "file /nowhere: it cannot be read: No such file"),
            (&["file:/dev/zero"], None, "file /dev/zero: it is larger than 4 MiB"),
            (&["00"], None, "has no {counter:N}: add one to each, or say --match none"),
            (&["00"], Some("prefix:1"), "has no {counter:N}"),
            (&["{counter:2}"], Some("prefix:3"), "--match names 3 bytes"),
            (&["{counter:2}", "00{counter:2}"], None, "say where replies repeat it, with --match"),
            (&["{counter:2}"], Some("prefix:9"), "write none, prefix:LEN or offset:N:LEN"),
            (&["{counter:2}"], Some("offset:2047:2"), "LEN from 1 to 8 bytes, all in the first 2048"),
            (&["{counter:1}"; 9], None, "given 9 times: at most 8"),
        ] {
            let error = chosen(payloads, repeats).expect_err(expected);
            assert!(error.contains(expected), "{payloads:?} {repeats:?}: {error}");
        }
    }
}
