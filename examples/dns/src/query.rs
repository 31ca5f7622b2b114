//! Reads and checks a question once: header, question, EDNS (RFC 1035, 6891, 9619).

use crate::name::{NAME_MAX_BYTES, Name};
use arrayvec::ArrayVec;
use domain::base::iana::Rtype;
use domain::base::opt::cookie::Cookie;
use octets::{Reader, u16_at};

/// Length of a message's header, after which the question begins.
pub const HEADER_BYTES: usize = 12;
/// Length of the longest header and question together.
const HEAD_MAX_BYTES: usize = HEADER_BYTES + NAME_MAX_BYTES + 4;

/// The class of the Internet, the only one with zones.
pub const CLASS_IN: u16 = 1;
/// The class in which servers are asked for their version.
pub const CLASS_CH: u16 = 3;

/// Response codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs, reason = "the names of RFC 6895")]
pub enum Rcode {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    BadVers = 16,
}

/// Why a message gets an error instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not a question: too short, or an answer. It must get no answer at all.
    Silent,
    /// Answered with a header and this code.
    Answered(Rcode),
}

/// A well-formed question.
#[derive(Clone, Debug)]
pub struct Query {
    /// The first bytes of the message: header and question, as they came.
    pub head: ArrayVec<u8, HEAD_MAX_BYTES>,
    /// The name asked for, in lower case.
    pub name: Name,
    /// The type asked for.
    pub rtype: Rtype,
    /// The class asked for.
    pub class: u16,
    /// The OPT record, if there is one.
    pub edns: Option<Edns>,
}

/// An OPT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The most bytes that the client accepts over UDP; at least 512.
    pub payload: u16,
    /// Only version 0 exists.
    pub version: u8,
    /// Whether signatures are wanted (DO).
    pub dnssec_ok: bool,
    /// Whether the code may be NXDOMAIN, although the proof has the form of one for an existing
    /// name (CO, RFC 9824).
    pub compact_ok: bool,
    /// The client's cookie.
    pub cookie: Option<Cookie>,
    /// Whether the client asks which server it is (RFC 5001).
    pub nsid: bool,
    /// Whether the client has padded its question (RFC 7830).
    pub padded: bool,
    /// Whether the client asks how long its TCP connection stays (RFC 7828).
    pub keepalive: bool,
}

/// Bits of an OPT record's flags.
pub(crate) const DNSSEC_OK: u16 = 0x8000;
pub(crate) const COMPACT_OK: u16 = 0x4000;

const QR: u8 = 0x80;
const OPCODE: u8 = 0x78;
const NSID: u16 = 3;
const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;
pub(crate) const PADDING: u16 = 12;

/// Whether `message` may be answered at all: it has a header, and is not itself an answer.
pub fn is_question(message: &[u8]) -> bool {
    message.len() >= HEADER_BYTES && message[2] & QR == 0
}

impl Query {
    /// Reads a message.
    ///
    /// # Errors
    /// What to do with a message that is no question for a server of zones.
    pub fn parse(message: &[u8]) -> Result<Query, Fault> {
        if !is_question(message) {
            return Err(Fault::Silent);
        }
        if message[2] & OPCODE != 0 {
            return Err(Fault::Answered(Rcode::NotImp));
        }
        Query::sections(message).ok_or(Fault::Answered(Rcode::FormErr))
    }

    fn sections(message: &[u8]) -> Option<Query> {
        let [questions, answers, authorities, additional] = [4, 6, 8, 10].map(|at| u16_at(message, at));
        if questions != 1 || answers != 0 {
            return None;
        }
        let name = Name::parse(&message[HEADER_BYTES..])?;
        let mut reader = Reader::new(message, HEADER_BYTES + name.as_bytes().len());
        let (rtype, class) = (reader.u16()?.into(), reader.u16()?);
        let head = message[..reader.at()].try_into().ok()?;
        // An IXFR says there which version its client has; it is refused later.
        if authorities > u16::from(rtype == Rtype::IXFR) {
            return None;
        }
        (0..authorities).try_for_each(|_| reader.record().map(drop))?;
        let mut edns: Option<Edns> = None;
        for _ in 0..additional {
            let record = reader.record()?;
            match record.rtype {
                // A second OPT record, or one whose owner is not the root, is an error (RFC 6891,
                // 6.1.1).
                Rtype::OPT => {
                    edns = Some(Edns::parse(&record).filter(|_| edns.is_none() && record.owner == [0])?);
                }
                // This server knows no TSIG keys, so it cannot check or sign such a message.
                Rtype::TSIG => return None,
                _ => {}
            }
        }
        let complete = reader.at() == message.len() && rtype != Rtype::OPT && rtype != Rtype::NXNAME;
        complete.then_some(Query { head, name, rtype, class, edns })
    }

    /// Whether the answer may need a signature.
    pub fn wants_signatures(&self) -> bool {
        self.dnssec_ok() || self.rtype == Rtype::RRSIG
    }

    /// Whether the client wants signatures beside the requested records.
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)
    }

    /// The most bytes that the client accepts over UDP (RFC 1035, 4.2.1; RFC 6891, 6.2.3).
    pub fn payload(&self) -> usize {
        self.edns.as_ref().map_or(512, |edns| usize::from(edns.payload))
    }
}

impl Edns {
    fn parse(record: &octets::Record<'_>) -> Option<Edns> {
        let flags = record.ttl as u16;
        let mut edns = Edns {
            payload: record.class.max(512),
            version: (record.ttl >> 16) as u8,
            dnssec_ok: flags & DNSSEC_OK != 0,
            compact_ok: flags & COMPACT_OK != 0,
            cookie: None,
            nsid: false,
            padded: false,
            keepalive: false,
        };
        let mut options = Reader::new(record.data, 0);
        while options.at() < record.data.len() {
            let (code, length) = (options.u16()?, options.u16()?);
            let data = options.bytes(usize::from(length))?;
            edns.nsid |= code == NSID;
            edns.padded |= code == PADDING;
            edns.keepalive |= code == KEEPALIVE;
            if code == COOKIE && edns.cookie.is_none() {
                // Lengths other than 8 and 16 to 40 are errors (RFC 7873, 5.2.2).
                if data.len() != 8 && !(16..=40).contains(&data.len()) {
                    return None;
                }
                edns.cookie = Some(Cookie::parse(&mut domain::dep::octseq::Parser::from_ref(data)).ok()?);
            }
        }
        Some(edns)
    }
}

/// Reading bytes in order.
mod octets {
    use domain::base::iana::Rtype;

    /// A position in a message.
    pub(super) struct Reader<'a> {
        bytes: &'a [u8],
        at: usize,
    }

    /// A record beside the question.
    pub(super) struct Record<'a> {
        pub(super) owner: &'a [u8],
        pub(super) rtype: Rtype,
        pub(super) class: u16,
        pub(super) ttl: u32,
        pub(super) data: &'a [u8],
    }

    /// The big-endian number at `at`, which must lie within `bytes`.
    pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    impl<'a> Reader<'a> {
        pub(super) fn new(bytes: &'a [u8], at: usize) -> Reader<'a> {
            Reader { bytes, at }
        }

        pub(super) fn at(&self) -> usize {
            self.at
        }

        pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
            let bytes = self.bytes.get(self.at..self.at + count)?;
            self.at += count;
            Some(bytes)
        }

        pub(super) fn u16(&mut self) -> Option<u16> {
            self.bytes(2).map(|bytes| u16_at(bytes, 0))
        }

        /// An owner, which may end in a pointer.
        fn owner(&mut self) -> Option<&'a [u8]> {
            let start = self.at;
            loop {
                match self.bytes(1)?[0] {
                    0 => break,
                    0xc0.. => break self.bytes(1).map(drop)?,
                    length @ 1..=63 => self.bytes(usize::from(length)).map(drop)?,
                    _ => return None,
                }
            }
            Some(&self.bytes[start..self.at])
        }

        pub(super) fn record(&mut self) -> Option<Record<'a>> {
            let owner = self.owner()?;
            let (rtype, class, high, low) = (self.u16()?.into(), self.u16()?, self.u16()?, self.u16()?);
            let length = self.u16()?;
            let data = self.bytes(usize::from(length))?;
            Some(Record { owner, rtype, class, ttl: u32::from(high) << 16 | u32::from(low), data })
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
