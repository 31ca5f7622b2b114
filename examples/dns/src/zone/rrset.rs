//! Record sets in the form of answers. They are built when the zone is loaded, so an answer only
//! copies them and sets a few pointers.

use crate::name::{Name, is_within, suffixes};
use crate::query::CLASS_IN;
use arrayvec::ArrayVec;
use domain::base::iana::Rtype;
use ring::digest::{SHA256, digest};

/// Length of what precedes a record's data: a pointer to the owner, type, class, TTL and length.
pub(crate) const RECORD_HEAD_BYTES: usize = 12;

/// Largest set. A message over TCP also needs room for its signature (541 bytes at most), the
/// question (271) and an OPT record.
pub(crate) const SET_MAX_BYTES: usize = 64_600;

/// The records of one name and type.
#[derive(Clone, Debug)]
pub struct RrSet {
    /// The type.
    pub rtype: Rtype,
    /// Time to live, in seconds, as answers give it.
    pub ttl: u32,
    /// Time to live in the zone, which signatures cover.
    pub original_ttl: u32,
    /// Number of records.
    pub count: u16,
    /// The records with their heads. Pointers to owners, and to the apex within names, are not set
    /// yet.
    wire: Box<[u8]>,
    /// Positions of the pointers to the owner in `wire`, at the start of each record.
    owners: Box<[u16]>,
    /// Positions of the pointers to the apex in `wire`.
    apexes: Box<[u16]>,
    /// The names that NS and CNAME records have as data.
    pub targets: Box<[Target]>,
    /// The data in canonical form and order (RFC 4034, 6).
    pub canonical: Box<[Box<[u8]>]>,
    /// Only equal sets have equal digests; a key of the cache of signatures.
    pub digest: [u8; 16],
}

/// The name in the data of an NS or CNAME record.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name in lower case.
    pub name: Name,
    /// Where it begins in `wire`.
    pub at: u16,
    /// Whether it belongs to the zone.
    pub in_zone: bool,
}

/// A record's data: as the file has it, and in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) plain: Vec<u8>,
    pub(crate) canonical: Vec<u8>,
}

impl RrSet {
    /// The set of these records in the zone of `apex`; `None` if it is too large.
    pub(crate) fn build(apex: &[u8], rtype: Rtype, ttl: u32, mut data: Vec<Data>) -> Option<RrSet> {
        data.sort_by(|a, b| a.canonical.cmp(&b.canonical));
        data.dedup_by(|a, b| a.canonical == b.canonical);
        let (mut wire, mut owners, mut apexes, mut targets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Data { plain, canonical } in &data {
            // This limit also keeps later positions within 16 bits.
            if wire.len() + RECORD_HEAD_BYTES + plain.len() > SET_MAX_BYTES {
                return None;
            }
            let start = wire.len();
            owners.push(start as u16);
            wire.extend([0, 0]);
            wire.extend(rtype.to_int().to_be_bytes());
            wire.extend(CLASS_IN.to_be_bytes());
            wire.extend(ttl.to_be_bytes());
            wire.extend([0, 0]);
            compress(apex, rtype, plain, &mut wire, &mut apexes);
            let length = (wire.len() - start - RECORD_HEAD_BYTES) as u16;
            wire[start + RECORD_HEAD_BYTES - 2..start + RECORD_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
            if matches!(rtype, Rtype::NS | Rtype::CNAME) {
                let name = Name::parse(canonical)?;
                let in_zone = is_within(name.as_bytes(), apex);
                targets.push(Target { name, at: (start + RECORD_HEAD_BYTES) as u16, in_zone });
            }
        }
        let canonical: Box<[_]> = data.into_iter().map(|data| data.canonical.into_boxed_slice()).collect();
        Some(RrSet {
            rtype,
            ttl,
            original_ttl: ttl,
            count: canonical.len() as u16,
            wire: wire.into(),
            owners: owners.into(),
            apexes: apexes.into(),
            targets: targets.into(),
            digest: digest_of(rtype, ttl, &canonical),
            canonical,
        })
    }

    /// Bytes of the set in an answer.
    pub fn len(&self) -> usize {
        self.wire.len()
    }

    /// Whether there is no record; no set of a zone is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes the records to `out`, which must have [`RrSet::len`] bytes. In the message, the owner
    /// begins at `owner` and the apex at `apex`.
    pub(crate) fn write(&self, owner: u16, apex: u16, out: &mut [u8]) {
        out.copy_from_slice(&self.wire);
        for (places, target) in [(&self.owners, owner), (&self.apexes, apex)] {
            let pointer = (0xc000 | target).to_be_bytes();
            for at in places {
                let at = usize::from(*at);
                out[at..at + 2].copy_from_slice(&pointer);
            }
        }
    }

    /// The records without their owners, of a set whose data has no names.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.owners.iter().skip(1).map(|end| usize::from(*end)).chain([self.wire.len()]);
        self.owners.iter().zip(ends).map(|(start, end)| &self.wire[usize::from(*start) + 2..end])
    }

    /// The same set with a TTL of at most `ttl`, because negative answers may have a shorter one
    /// (RFC 2308, 5).
    pub(crate) fn with_ttl_at_most(mut self, ttl: u32) -> RrSet {
        self.ttl = self.ttl.min(ttl);
        for at in &self.owners {
            let at = usize::from(*at) + 6;
            self.wire[at..at + 4].copy_from_slice(&self.ttl.to_be_bytes());
        }
        self
    }
}

/// Appends `data`. A name in the zone ends with a pointer to the apex, and its position is added to
/// `apexes`. In types younger than RFC 1035 names may not be compressed (RFC 3597, 4).
fn compress(apex: &[u8], rtype: Rtype, data: &[u8], wire: &mut Vec<u8>, apexes: &mut Vec<u16>) {
    if matches!(rtype, Rtype::DNAME | Rtype::SRV) {
        wire.extend(data);
        return;
    }
    let (before, names, after) = split(rtype, data);
    wire.extend(before);
    for name in names {
        let in_zone = suffixes(name).find(|suffix| suffix.eq_ignore_ascii_case(apex));
        wire.extend(&name[..name.len() - in_zone.map_or(0, <[u8]>::len)]);
        if in_zone.is_some() {
            apexes.push(wire.len() as u16);
            wire.extend([0, 0]);
        }
    }
    wire.extend(after);
}

/// Splits `data` into its names and the bytes before and after them, for types whose names are
/// often in the same zone.
fn split(rtype: Rtype, data: &[u8]) -> (&[u8], ArrayVec<&[u8], 2>, &[u8]) {
    let (before, count) = match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => (0, 1),
        Rtype::MX => (2, 1),
        Rtype::SRV => (6, 1),
        Rtype::SOA => (0, 2),
        _ => (data.len(), 0),
    };
    let (before, mut rest) = data.split_at(before);
    let mut names = ArrayVec::new();
    for _ in 0..count {
        let length = suffixes(rest).find(|suffix| suffix[0] == 0).map_or(0, |root| rest.len() - root.len() + 1);
        let (name, after) = rest.split_at(length);
        names.push(name);
        rest = after;
    }
    (before, names, rest)
}

fn digest_of(rtype: Rtype, ttl: u32, canonical: &[Box<[u8]>]) -> [u8; 16] {
    let mut bytes = [&rtype.to_int().to_be_bytes()[..], &ttl.to_be_bytes()].concat();
    for data in canonical {
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data.iter());
    }
    digest(&SHA256, &bytes).as_ref()[..16].try_into().expect("SHA-256 has 32 bytes")
}
