//! Writes answers in wire format, as far as they fit.

use crate::find::{Found, Item, Set};
use crate::name::{is_within, successor};
use crate::query::{COMPACT_OK, DNSSEC_OK, HEADER_BYTES, PADDING, Query, Rcode};
use crate::sign::Signature;
use crate::zone::{RECORD_HEAD_BYTES, RrSet, Zone};
use domain::base::iana::Rtype;
use domain::base::opt::cookie::Cookie;
use std::sync::Arc;

const QR: u8 = 0x80;
const AA: u8 = 0x04;
const TC: u8 = 0x02;
/// The opcode and RD. An answer repeats these bits of its question.
const REPEATED: u8 = 0x79;

/// Lengths of an OPT record without options, and of a cookie with the server's part.
const OPT_BYTES: usize = 11;
const COOKIE_BYTES: usize = 4 + 8 + 16;

/// Padded answers are a multiple of this long.
const PADDED: usize = 468;

/// A pointer has 14 bits, so it can only point to a name that begins before this.
const POINTED: usize = 1 << 14;

/// The OPT record of an answer, without the response code.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that this server accepts over UDP.
    pub payload: u16,
    /// The cookie to give to the client.
    pub cookie: Option<Cookie>,
    /// The name of this server, if the client asks for it.
    pub nsid: Option<Arc<str>>,
    /// Whether the answer's length is padded to a multiple of 468 bytes, so that it tells little
    /// (RFC 8467, section 4.1).
    pub padded: bool,
}

impl Options {
    /// Lengths of the options for the cookie and for the name.
    fn bytes(&self) -> (usize, usize) {
        (self.cookie.as_ref().map_or(0, |_| COOKIE_BYTES), self.nsid.as_ref().map_or(0, |nsid| 4 + nsid.len()))
    }
}

/// Writes an answer to `query` into `out`, and returns its length; `None` if not even the question
/// fits. If the records do not fit, all are left out, and TC tells the client to ask again over
/// TCP.
pub fn write(
    query: &Query,
    found: &Found<'_>,
    signatures: &[Option<Arc<Signature>>],
    zone: Option<&Zone>,
    options: &Options,
    out: &mut [u8],
) -> Option<usize> {
    let mut writer = Writer::new(query, found, zone, options, out)?;
    let complete = writer.sections(found, signatures);
    if complete.is_none() || found.truncated {
        writer.truncate();
    }
    writer.finish(query, found, options)
}

/// Writes the answer to a message that could not be parsed; returns its length.
pub fn write_error(message: &[u8], rcode: Rcode, out: &mut [u8]) -> Option<usize> {
    let header = out.get_mut(..HEADER_BYTES)?;
    header.fill(0);
    header[..2].copy_from_slice(&message[..2]);
    header[2] = QR | message[2] & REPEATED;
    header[3] = rcode as u8;
    Some(HEADER_BYTES)
}

/// Bytes of the OPT record that ends an answer.
pub(crate) fn reserved(query: &Query, options: &Options) -> usize {
    let (cookie, nsid) = options.bytes();
    query.edns.as_ref().map_or(0, |_| OPT_BYTES + cookie + nsid)
}

struct Writer<'a, 'o> {
    out: &'o mut [u8],
    at: usize,
    /// Where the question ends.
    start: usize,
    /// Bytes kept free for the OPT record.
    reserved: usize,
    counts: [u16; 3],
    truncated: bool,
    class: u16,
    zone: Option<&'a Zone>,
    /// Where the zone's own name begins in the question.
    apex: usize,
    /// Where the target of the last alias begins.
    target: usize,
}

impl<'a, 'o> Writer<'a, 'o> {
    fn new(
        query: &Query,
        found: &Found<'_>,
        zone: Option<&'a Zone>,
        options: &Options,
        out: &'o mut [u8],
    ) -> Option<Writer<'a, 'o>> {
        let start = query.head.len();
        let (cookie, nsid) = options.bytes();
        let mut reserved = reserved(query, options);
        // If a reply may be no longer than its question, these options do not fit; over TCP they
        // do.
        for option in [nsid, cookie] {
            if out.len() < start + reserved {
                reserved -= option;
            }
        }
        if out.len() < start + reserved {
            return None;
        }
        out[..start].copy_from_slice(&query.head);
        out[2] = QR | query.head[2] & REPEATED | if found.authoritative { AA } else { 0 };
        // CD is not set, because this server validates nothing (RFC 4035, 3.1.6).
        out[3] = found.rcode as u8 & 0xf;
        let apex = zone.map_or(0, |zone| HEADER_BYTES + query.name.as_bytes().len() - zone.apex.len());
        Some(Writer {
            out,
            at: start,
            start,
            reserved,
            counts: [0; 3],
            truncated: false,
            class: query.class,
            zone,
            apex,
            target: 0,
        })
    }

    /// Writes the three sections; `None` as soon as something does not fit.
    fn sections(&mut self, found: &Found<'_>, signatures: &[Option<Arc<Signature>>]) -> Option<()> {
        let items = found.answer.iter().map(|item| (0, item)).chain(found.authority.iter().map(|item| (1, item)));
        let mut servers_at = 0;
        for ((section, item), signature) in items.zip(signatures) {
            if item.set.rtype() == Rtype::NS {
                servers_at = self.at;
            }
            self.item(section, item, signature.as_deref())?;
        }
        found.delegation().map_or(Some(()), |(cut, servers)| self.glue(cut.name, servers, servers_at))
    }

    /// The next `count` bytes.
    fn room(&mut self, count: usize) -> Option<&mut [u8]> {
        if self.at + count > self.out.len() - self.reserved {
            return None;
        }
        let room = &mut self.out[self.at..self.at + count];
        self.at += count;
        Some(room)
    }

    fn item(&mut self, section: usize, item: &Item<'_>, signature: Option<&Signature>) -> Option<()> {
        let base = if item.owner.in_target { self.target } else { HEADER_BYTES };
        let owner = (base + item.owner.skip) as u16;
        match item.set {
            _ if item.only_signature => {}
            Set::Stored(set) => {
                self.set(section, owner, set)?;
                // The target of an alias is the owner of the next record set.
                if set.rtype == Rtype::CNAME {
                    self.target = self.at - set.len() + usize::from(set.targets[0].at);
                }
            }
            Set::Nsec { bitmap, ttl } => {
                let mut data = Vec::with_capacity(item.owner.name.len() + 2 + bitmap.len());
                successor(item.owner.name, &mut data);
                data.extend_from_slice(bitmap);
                self.record(section, owner, Rtype::NSEC, ttl, &data)?;
            }
            Set::Text(data) => self.record(section, owner, Rtype::TXT, 0, data)?,
        }
        signature
            .map_or(Some(()), |signature| self.record(section, owner, Rtype::RRSIG, item.set.ttl(), &signature.data))
    }

    fn set(&mut self, section: usize, owner: u16, set: &RrSet) -> Option<()> {
        let apex = self.apex as u16;
        set.write(owner, apex, self.room(set.len())?);
        self.counts[section] += set.count;
        Some(())
    }

    /// Adds the addresses of `name` to the additional section. The name is written in full, because
    /// no pointer reaches it.
    fn full(&mut self, name: &[u8], set: &RrSet) -> Option<()> {
        for body in set.bodies() {
            let room = self.room(name.len() + body.len())?;
            room[..name.len()].copy_from_slice(name);
            room[name.len()..].copy_from_slice(body);
            self.counts[2] += 1;
        }
        Some(())
    }

    fn record(&mut self, section: usize, owner: u16, rtype: Rtype, ttl: u32, data: &[u8]) -> Option<()> {
        let class = self.class;
        let room = self.room(RECORD_HEAD_BYTES + data.len())?;
        let (head, body) = room.split_at_mut(RECORD_HEAD_BYTES);
        head[..2].copy_from_slice(&(0xc000 | owner).to_be_bytes());
        head[2..4].copy_from_slice(&rtype.to_int().to_be_bytes());
        head[4..6].copy_from_slice(&class.to_be_bytes());
        head[6..10].copy_from_slice(&ttl.to_be_bytes());
        head[10..].copy_from_slice(&(data.len() as u16).to_be_bytes());
        body.copy_from_slice(data);
        self.counts[section] += 1;
        Some(())
    }

    /// Adds the addresses of the servers. A server below the delegation cannot be found without its
    /// address, so an answer without it is incomplete (RFC 9471). Other addresses are optional.
    fn glue(&mut self, cut: &[u8], servers: &RrSet, servers_at: usize) -> Option<()> {
        let zone = self.zone?;
        for target in servers.targets.iter().filter(|target| target.in_zone) {
            let name = target.name.as_bytes();
            for set in zone.addresses(name) {
                let owner = servers_at + usize::from(target.at);
                let written = if owner < POINTED { self.set(2, owner as u16, set) } else { self.full(name, set) };
                if written.is_none() && is_within(name, cut) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Leaves out all sections.
    fn truncate(&mut self) {
        self.at = self.start;
        self.counts = [0; 3];
        self.truncated = true;
    }

    /// Bytes of the padding beside an OPT record of `opt` bytes, with its head; 0 without room.
    fn padding(&self, opt: usize) -> usize {
        let least = self.at + opt + 4;
        let padded = least.next_multiple_of(PADDED);
        if padded <= self.out.len() { padded - least + 4 } else { 0 }
    }

    fn finish(mut self, query: &Query, found: &Found<'_>, options: &Options) -> Option<usize> {
        if let Some(edns) = &query.edns {
            let room = self.reserved - OPT_BYTES;
            let cookie = options.cookie.as_ref().filter(|_| room >= COOKIE_BYTES);
            let nsid = options.nsid.as_ref().filter(|_| room == options.bytes().0 + options.bytes().1);
            self.reserved = 0;
            let padding = if options.padded { self.padding(OPT_BYTES + room) } else { 0 };
            let flags = if edns.dnssec_ok { DNSSEC_OK } else { 0 } | if edns.compact_ok { COMPACT_OK } else { 0 };
            let (opt, data) = self.room(OPT_BYTES + room + padding)?.split_at_mut(OPT_BYTES);
            opt[0] = 0;
            opt[1..3].copy_from_slice(&Rtype::OPT.to_int().to_be_bytes());
            opt[3..5].copy_from_slice(&options.payload.to_be_bytes());
            opt[5..7].copy_from_slice(&[(found.rcode as u16 >> 4) as u8, 0]);
            opt[7..9].copy_from_slice(&flags.to_be_bytes());
            opt[9..].copy_from_slice(&(data.len() as u16).to_be_bytes());
            let (mut rest, padding) = data.split_at_mut(room);
            if let Some((cookie, server)) = cookie.and_then(|cookie| Some((cookie, cookie.server()?.as_ref()))) {
                rest[..4].copy_from_slice(&[0, 10, 0, (COOKIE_BYTES - 4) as u8]);
                rest[4..12].copy_from_slice(cookie.client().as_ref());
                rest[12..COOKIE_BYTES].copy_from_slice(server);
                rest = &mut rest[COOKIE_BYTES..];
            }
            if let Some(nsid) = nsid {
                rest[..4].copy_from_slice(&[0, 3, 0, nsid.len() as u8]);
                rest[4..].copy_from_slice(nsid.as_bytes());
            }
            if let Some((head, zeros)) = padding.split_at_mut_checked(4) {
                head[..2].copy_from_slice(&PADDING.to_be_bytes());
                head[2..].copy_from_slice(&(zeros.len() as u16).to_be_bytes());
                zeros.fill(0);
            }
            self.counts[2] += 1;
        }
        if self.truncated {
            self.out[2] |= TC;
        }
        // The question stays as it is.
        for (count, at) in self.counts.iter().zip([6, 8, 10]) {
            self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        Some(self.at)
    }
}
