//! Finds the records of an answer: the search of RFC 1034, 4.3.2, in one zone. It follows aliases,
//! and proves which names and types do not exist.

use crate::name::successor;
use crate::query::{Query, Rcode};
use crate::zone::{Node, Place, RECORD_HEAD_BYTES, RrSet, Zone};
use arrayvec::ArrayVec;
use domain::base::iana::Rtype;

/// The most aliases followed in one answer, because each may need a signature. A client asks again
/// for the target of the last one.
pub const ALIASES_MAX: usize = 8;

/// The most record sets in the answer section: the aliases, and the set at the end.
pub const ANSWERS_MAX: usize = ALIASES_MAX + 1;

/// The most record sets in the authority section: SOA and NSEC, or NS and DS.
pub const AUTHORITIES_MAX: usize = 2;

/// The parts of an answer.
#[derive(Debug)]
pub struct Found<'z> {
    /// The response code; extended codes are not used here.
    pub rcode: Rcode,
    /// Whether the answer is from this zone itself (AA).
    pub authoritative: bool,
    /// Whether the records were left out because they do not fit (TC).
    pub truncated: bool,
    /// The answer section.
    pub answer: ArrayVec<Item<'z>, ANSWERS_MAX>,
    /// The authority section.
    pub authority: ArrayVec<Item<'z>, AUTHORITIES_MAX>,
}

/// A record set with its owner.
#[derive(Clone, Copy, Debug)]
pub struct Item<'z> {
    /// The owner.
    pub owner: Owner<'z>,
    /// The records.
    pub set: Set<'z>,
    /// Whether the zone signs it. It does not sign records that belong to the child of a
    /// delegation.
    pub signed: bool,
    /// Whether the client asks only for the signature. The records then stay out of the answer.
    pub only_signature: bool,
}

/// The owner of a record set. The answer already contains the name, so a pointer to it is enough.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'z> {
    /// The name, in lower case.
    pub name: &'z [u8],
    /// Where the owner begins, counted from the name in the question or from the target of the last
    /// alias.
    pub skip: usize,
    /// Whether `skip` is counted from the target of the last alias.
    pub in_target: bool,
}

/// The records of an item.
#[derive(Clone, Copy, Debug)]
pub enum Set<'z> {
    /// Records of the zone's file.
    Stored(&'z RrSet),
    /// An NSEC record made for the answer. It lists the types of the owner, and proves that no name
    /// comes directly after it (RFC 9824).
    Nsec {
        /// The types.
        bitmap: &'z [u8],
        /// Time to live of negative answers (RFC 9077).
        ttl: u32,
    },
    /// A TXT record with this data, which clients must not cache.
    Text(&'z [u8]),
}

/// The types of a name that does not exist: RRSIG, NSEC and NXNAME (RFC 9824, 3.1).
pub(crate) const NXNAME_BITMAP: [u8; 19] = [0, 17, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

impl Set<'_> {
    /// The type of the records.
    pub fn rtype(&self) -> Rtype {
        match self {
            Set::Stored(set) => set.rtype,
            Set::Nsec { .. } => Rtype::NSEC,
            Set::Text(_) => Rtype::TXT,
        }
    }

    /// Time to live in answers.
    pub fn ttl(&self) -> u32 {
        match self {
            Set::Stored(set) => set.ttl,
            Set::Nsec { ttl, .. } => *ttl,
            Set::Text(_) => 0,
        }
    }
}

impl<'z> Found<'z> {
    /// An error, with nothing found.
    pub fn error(rcode: Rcode) -> Found<'z> {
        Found { rcode, authoritative: false, truncated: false, answer: ArrayVec::new(), authority: ArrayVec::new() }
    }

    /// The answer with the data of one TXT record, which no zone has.
    pub(crate) fn text(query: &'z Query, data: &'z [u8]) -> Found<'z> {
        let mut found = Found { authoritative: true, ..Found::error(Rcode::NoError) };
        found.answer.push(Item { signed: false, ..Item::new(Owner::asked(query), Set::Text(data)) });
        found
    }

    /// Searches `zone` for what `query` asks for; the name asked for must be within the zone.
    pub fn search(zone: &'z Zone, query: &'z Query) -> Found<'z> {
        let mut found = Found { authoritative: true, ..Found::error(Rcode::NoError) };
        let mut owner = Owner::asked(query);
        loop {
            let node = match zone.search(owner.name, query.rtype) {
                Place::Node(node) => node,
                Place::Cut(node, length) => {
                    found.refer(zone, query, node, owner.ending(length));
                    return found;
                }
                Place::Absent => {
                    found.rcode = Rcode::NxDomain;
                    found.deny(zone, query, owner, &NXNAME_BITMAP);
                    return found;
                }
            };
            let alias = node.set(Rtype::CNAME).filter(|_| follows_aliases(query.rtype));
            let Some(alias) = alias else {
                found.conclude(zone, query, node, owner);
                return found;
            };
            found.answer.push(Item::new(owner, Set::Stored(alias)));
            let target = &alias.targets[0];
            // The client itself must ask for names in other zones.
            if !target.in_zone || found.answer.len() >= ALIASES_MAX {
                return found;
            }
            owner = Owner { name: target.name.as_bytes(), skip: 0, in_target: true };
        }
    }

    /// Adds what the name itself has of the type asked for.
    fn conclude(&mut self, zone: &'z Zone, query: &'z Query, node: &'z Node, owner: Owner<'z>) {
        let set = match query.rtype {
            Rtype::NSEC if zone.signer.is_some() => Some(nsec(zone, &node.bitmap)),
            // For RRSIG one signature is enough, like one set for ANY. An empty non-terminal gets
            // the signature of its proof.
            Rtype::RRSIG if zone.signer.is_some() => {
                Some(node.first().map_or_else(|| nsec(zone, &node.bitmap), Set::Stored))
            }
            Rtype::ANY => node.first().map(Set::Stored),
            rtype => node.set(rtype).map(Set::Stored),
        };
        match set {
            Some(set) => {
                self.answer.push(Item { only_signature: query.rtype == Rtype::RRSIG, ..Item::new(owner, set) });
            }
            None => self.deny(zone, query, owner, &node.bitmap),
        }
    }

    /// Adds the SOA record, and where signatures are wanted the proof that `owner` has no other
    /// types than those.
    fn deny(&mut self, zone: &'z Zone, query: &'z Query, owner: Owner<'z>, bitmap: &'z [u8]) {
        let apex = Owner::asked(query).ending(zone.apex.len());
        self.authority.push(Item::new(apex, Set::Stored(&zone.negative)));
        if query.dnssec_ok() && zone.signer.is_some() {
            self.authority.push(Item::new(owner, nsec(zone, bitmap)));
            // The proof has the form of one for an existing name. So the code says NOERROR, unless
            // the client accepts NXDOMAIN (RFC 9824, 5).
            if !query.edns.as_ref().is_some_and(|edns| edns.compact_ok) {
                self.rcode = Rcode::NoError;
            }
        }
    }

    /// Adds the delegation at `cut`.
    fn refer(&mut self, zone: &'z Zone, query: &Query, node: &'z Node, cut: Owner<'z>) {
        // The bit is about the first owner in the answer (RFC 1035, 4.1.1).
        self.authoritative = !self.answer.is_empty();
        let Some(servers) = node.set(Rtype::NS) else { return };
        self.authority.push(Item { signed: false, ..Item::new(cut, Set::Stored(servers)) });
        if query.dnssec_ok() && zone.signer.is_some() {
            let set = node.set(Rtype::DS).map_or_else(|| nsec(zone, &node.bitmap), Set::Stored);
            self.authority.push(Item::new(cut, set));
        }
    }

    /// The name and the servers of the delegation, if the answer is one.
    pub fn delegation(&self) -> Option<(Owner<'z>, &'z RrSet)> {
        self.authority.first().and_then(|item| match item.set {
            Set::Stored(set) if set.rtype == Rtype::NS => Some((item.owner, set)),
            _ => None,
        })
    }
}

impl<'z> Item<'z> {
    /// Length of the records in an answer, without their signature.
    pub(crate) fn bytes(&self) -> usize {
        match self.set {
            _ if self.only_signature => 0,
            Set::Stored(set) => set.len(),
            Set::Text(data) => RECORD_HEAD_BYTES + data.len(),
            Set::Nsec { bitmap, .. } => {
                let mut next = Vec::new();
                successor(self.owner.name, &mut next);
                RECORD_HEAD_BYTES + next.len() + bitmap.len()
            }
        }
    }

    fn new(owner: Owner<'z>, set: Set<'z>) -> Item<'z> {
        Item { owner, set, signed: true, only_signature: false }
    }
}

impl<'z> Owner<'z> {
    /// The name asked for.
    fn asked(query: &'z Query) -> Owner<'z> {
        Owner { name: query.name.as_bytes(), skip: 0, in_target: false }
    }

    /// The ancestor whose name is `length` bytes long.
    fn ending(self, length: usize) -> Owner<'z> {
        let skip = self.name.len() - length;
        Owner { name: &self.name[skip..], skip: self.skip + skip, ..self }
    }
}

/// Whether a CNAME record answers a question for this type. It does, unless the type is CNAME
/// itself or a type that exists beside CNAME.
fn follows_aliases(rtype: Rtype) -> bool {
    !matches!(rtype, Rtype::CNAME | Rtype::NSEC | Rtype::RRSIG | Rtype::ANY)
}

fn nsec<'z>(zone: &Zone, bitmap: &'z [u8]) -> Set<'z> {
    Set::Nsec { bitmap, ttl: zone.negative.ttl }
}
