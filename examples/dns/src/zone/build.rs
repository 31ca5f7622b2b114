//! Builds a zone from its records: checks them, and adds notes to each name.

use super::rrset::Data;
use super::{Node, RrSet, Zone, bitmap};
use crate::name::{Name, is_wildcard, suffixes, text};
use crate::sign::Signer;
use domain::base::iana::Rtype;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The records of a file, by owner and type.
#[derive(Default)]
pub(super) struct Records(BTreeMap<Vec<u8>, Sets>);

/// TTL and data by type.
type Sets = BTreeMap<Rtype, (u32, Vec<Data>)>;

impl Records {
    /// Adds a record. All records of a set get the smallest TTL of the set (RFC 2181, 5.2).
    pub(super) fn add(&mut self, owner: &Name, rtype: Rtype, ttl: u32, data: Data) {
        let sets = self.0.entry(owner.as_bytes().to_vec()).or_default();
        let set = sets.entry(rtype).or_insert((ttl, Vec::new()));
        set.0 = set.0.min(ttl);
        set.1.push(data);
    }
}

/// Builds the zone.
///
/// # Errors
/// If the zone lacks something, or has something that cannot be served.
pub(super) fn zone(apex: &Name, mut records: Records, signer: Option<Arc<Signer>>) -> Result<Zone, String> {
    if let Some(signer) = &signer {
        records.add(apex, Rtype::DNSKEY, signer.dnskey_ttl(), signer.dnskey());
    }
    let apex = apex.as_bytes();
    let mut nodes: HashMap<Box<[u8]>, Node> = HashMap::new();
    for (owner, sets) in records.0 {
        check(apex, &owner, &sets, signer.is_some())?;
        let mut built = Vec::new();
        for (rtype, (ttl, data)) in sets {
            let set = RrSet::build(apex, rtype, ttl, data).ok_or_else(|| wrong(&owner, rtype, "is too large to serve"));
            built.push(set?);
        }
        nodes.entry(owner.clone().into()).or_default().sets = built;
        // Ancestors without records exist, too, and an ancestor may be a wildcard.
        for name in suffixes(&owner).take_while(|name| name.len() >= apex.len()) {
            nodes.entry(name.into()).or_default();
            if is_wildcard(name) && name.len() > apex.len() {
                nodes.entry(name[2..].into()).or_default().has_wildcard = true;
            }
        }
    }
    note_cuts(apex, &mut nodes);
    note_types(signer.is_some(), &mut nodes);
    let soa = |rtype| nodes.get(apex).and_then(|node| node.set(rtype)).filter(|set| set.count == 1);
    let soa = soa(Rtype::SOA).ok_or("the zone must have one SOA record, at its apex")?;
    if nodes.get(apex).and_then(|node| node.set(Rtype::NS)).is_none() {
        return Err("the zone must have an NS record at its apex".to_owned());
    }
    let data = &soa.canonical[0];
    let number = |from_end: usize| {
        let at = data.len() - from_end;
        u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"))
    };
    // The last of the five numbers of an SOA record is the TTL of negative answers.
    let (serial, minimum) = (number(20), number(4));
    let negative = soa.clone().with_ttl_at_most(minimum);
    Ok(Zone { apex: apex.into(), serial, nodes, negative, signer })
}

fn wrong(owner: &[u8], rtype: Rtype, what: &str) -> String {
    format!("{} {}: {what}", text(owner), rtype)
}

/// Checks the record sets of a name.
fn check(apex: &[u8], owner: &[u8], sets: &Sets, signed: bool) -> Result<(), String> {
    for (rtype, (_, data)) in sets {
        let problem = match *rtype {
            Rtype::SOA if owner != apex => "only the apex has an SOA record",
            Rtype::CNAME if sets.len() > 1 => "a name with a CNAME record can have no other records",
            Rtype::CNAME if data.iter().any(|other| other.canonical != data[0].canonical) => "there is more than one",
            Rtype::DNAME => "DNAME records are not served",
            Rtype::NS if is_wildcard(owner) => "a wildcard cannot be delegated",
            Rtype::DS if owner == apex => "stands in the parent's zone, not at the apex",
            Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM => {
                "the zone is signed already: give its unsigned file, and --sign"
            }
            Rtype::DNSKEY if signed && data.len() > 1 && owner == apex => {
                "--sign adds its own: leave DNSKEY records out of the file"
            }
            other if (128..=255).contains(&other.to_int()) => "is no type that records can have",
            _ => continue,
        };
        return Err(wrong(owner, *rtype, problem));
    }
    Ok(())
}

/// At each name at or below a delegation, notes where the zone ends: at the highest delegation.
fn note_cuts(apex: &[u8], nodes: &mut HashMap<Box<[u8]>, Node>) {
    let delegated =
        |name: &[u8]| name.len() > apex.len() && nodes.get(name).is_some_and(|node| node.set(Rtype::NS).is_some());
    let cut = |name: &[u8]| suffixes(name).filter(|ancestor| delegated(ancestor)).last().map(|cut| cut.len() as u8);
    let cuts: Vec<(Box<[u8]>, u8)> = nodes.keys().filter_map(|name| Some((name.clone(), cut(name)?))).collect();
    for (name, cut) in cuts {
        nodes.entry(name).or_default().cut = Some(cut);
    }
}

/// Notes the types of each name. At a delegation, only NS and DS records belong to the parent.
fn note_types(signed: bool, nodes: &mut HashMap<Box<[u8]>, Node>) {
    if !signed {
        return;
    }
    for node in nodes.values_mut() {
        let is_cut = node.cut.is_some();
        let types = node.sets.iter().map(|set| set.rtype);
        let own = types.filter(|rtype| !is_cut || matches!(*rtype, Rtype::NS | Rtype::DS));
        node.bitmap = bitmap(own.chain([Rtype::RRSIG, Rtype::NSEC]));
    }
}
