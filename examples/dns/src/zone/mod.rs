//! A zone in memory: a table from names to record sets. Each name has notes for the search.

mod build;
mod entries;
mod generic;
mod load;
mod location;
mod rrset;
mod types;

pub use load::{LoadError, load};
pub use rrset::RrSet;
pub(crate) use rrset::{Data, RECORD_HEAD_BYTES};
pub(crate) use types::bitmap;

use crate::name::{Name, suffixes, text};
use crate::sign::Signer;
use domain::base::iana::Rtype;
use hashbrown::HashMap;
use std::sync::Arc;

/// A zone.
#[derive(Debug)]
pub struct Zone {
    /// The zone's own name.
    pub apex: Box<[u8]>,
    /// Serial number of the SOA record.
    pub serial: u32,
    /// Every name of the zone, also empty non-terminals and names below delegations.
    nodes: HashMap<Box<[u8]>, Node>,
    /// The SOA record for negative answers.
    pub negative: RrSet,
    /// Signs the zone, if it is signed.
    pub signer: Option<Arc<Signer>>,
}

/// A name of a zone.
#[derive(Debug, Default)]
pub struct Node {
    /// The record sets, in the order of their types; none at an empty non-terminal.
    sets: Vec<RrSet>,
    /// Length of the name at which the zone ends for this name, because it has NS records: this
    /// name itself, or an ancestor.
    cut: Option<u8>,
    /// Whether a wildcard is directly below this name.
    has_wildcard: bool,
    /// The types of this name, as in an NSEC record.
    pub bitmap: Box<[u8]>,
}

/// Where a search for a name ends.
#[derive(Debug)]
pub enum Place<'z> {
    /// At the name itself, or at the wildcard that matches it.
    Node(&'z Node),
    /// At a delegation: its NS records, and the length of its name.
    Cut(&'z Node, usize),
    /// Nowhere: the name does not exist.
    Absent,
}

impl Zone {
    /// Searches `name`, which must be within the zone (RFC 1034, 4.3.2; RFC 4592). DS records
    /// belong to the parent, so for them a delegation is a name like others (RFC 4035, 3.1.4.1).
    pub fn search(&self, name: &[u8], rtype: Rtype) -> Place<'_> {
        // The apex is in the table, so at least one ancestor is found.
        let found = suffixes(name).find_map(|suffix| self.nodes.get(suffix).map(|node| (suffix, node)));
        let Some((closest, node)) = found else { return Place::Absent };
        let exact = closest.len() == name.len();
        if let Some(cut) = node.cut.map(usize::from) {
            if exact && cut == name.len() && rtype == Rtype::DS {
                return Place::Node(node);
            }
            return self.nodes.get(&name[name.len() - cut..]).map_or(Place::Absent, |node| Place::Cut(node, cut));
        }
        if exact {
            return Place::Node(node);
        }
        let wildcard = node.has_wildcard.then(|| Name::child(b"*", closest)).flatten();
        wildcard.and_then(|name| self.nodes.get(name.as_bytes())).map_or(Place::Absent, Place::Node)
    }

    /// The addresses of `name` in this zone, authoritative or glue.
    pub(crate) fn addresses(&self, name: &[u8]) -> impl Iterator<Item = &RrSet> {
        let node = self.nodes.get(name);
        [Rtype::A, Rtype::AAAA].into_iter().filter_map(move |rtype| node?.set(rtype))
    }

    /// The zone in a few words.
    pub fn summary(&self) -> String {
        let names = self.nodes.values().filter(|node| !node.sets.is_empty()).count();
        let signed = if self.signer.is_some() { ", signed" } else { "" };
        format!("zone {} serial {}, {names} names{signed}", text(&self.apex), self.serial)
    }
}

impl Node {
    /// The records of `rtype`.
    pub fn set(&self, rtype: Rtype) -> Option<&RrSet> {
        self.sets.iter().find(|set| set.rtype == rtype)
    }

    /// The first of the record sets, for questions for ANY (RFC 8482, 4.1).
    pub fn first(&self) -> Option<&RrSet> {
        self.sets.first()
    }
}

#[cfg(test)]
mod tests;
