//! Answers a question without sockets, in three steps. Between the steps, a server can move slow
//! work to other workers.
//!
//! [`Answer::find`] searches, [`Answer::sign`] makes one signature that is not known yet,
//! [`Answer::write`] writes.

use crate::find::{ANSWERS_MAX, AUTHORITIES_MAX, Found, Item};
use crate::query::{CLASS_IN, Query, Rcode};
use crate::reply::{self, Options};
use crate::sign::Signature;
use crate::zone::{RECORD_HEAD_BYTES, Zone};
use crate::zones::Zones;
use arrayvec::ArrayVec;
use domain::base::iana::Rtype;
use std::iter;
use std::sync::Arc;

/// An answer under way.
#[derive(Debug)]
pub struct Answer<'z> {
    query: &'z Query,
    zone: Option<&'z Zone>,
    found: Found<'z>,
    /// The signature of each record set, if the client wants one and it is known.
    signatures: ArrayVec<Option<Arc<Signature>>, { ANSWERS_MAX + AUTHORITIES_MAX }>,
    now: u32,
}

impl<'z> Answer<'z> {
    /// Finds what `zones` say to `query`; `now` is in seconds since 1970.
    pub fn find(zones: &'z Zones, query: &'z Query, now: u32) -> Answer<'z> {
        let error = |rcode| Answer { query, zone: None, found: Found::error(rcode), signatures: ArrayVec::new(), now };
        if query.edns.as_ref().is_some_and(|edns| edns.version != 0) {
            return error(Rcode::BadVers);
        }
        if let Some(version) = zones.version_for(query) {
            let signatures = iter::once(None).collect();
            return Answer { found: Found::text(query, version), signatures, ..error(Rcode::NoError) };
        }
        // Zone transfers are refused.
        if query.class != CLASS_IN || matches!(query.rtype, Rtype::AXFR | Rtype::IXFR) {
            return error(Rcode::Refused);
        }
        let Some(zone) = zones.select(query) else { return error(Rcode::Refused) };
        let found = Found::search(zone, query);
        let mut answer = Answer { query, zone: Some(zone), found, signatures: ArrayVec::new(), now };
        answer.signatures = (0..answer.count()).map(|index| answer.known(index)).collect();
        answer
    }

    /// Number of record sets.
    fn count(&self) -> usize {
        self.found.answer.len() + self.found.authority.len()
    }

    fn item(&self, index: usize) -> &Item<'z> {
        let answers = self.found.answer.len();
        self.found.answer.get(index).unwrap_or_else(|| &self.found.authority[index - answers])
    }

    fn known(&self, index: usize) -> Option<Arc<Signature>> {
        let signer = self.zone?.signer.as_ref()?;
        let item = self.item(index);
        if !self.is_wanted(item) {
            return None;
        }
        signer.known(item, self.now)
    }

    /// Whether the answer must have a signature of `item`.
    fn is_wanted(&self, item: &Item<'_>) -> bool {
        item.signed && (self.query.dnssec_ok() || item.only_signature)
    }

    /// The index of the first record set whose signature must still be made.
    pub fn unsigned(&self) -> Option<usize> {
        self.zone?.signer.as_ref()?;
        (0..self.count()).find(|index| self.signatures[*index].is_none() && self.is_wanted(self.item(*index)))
    }

    /// Leaves all records out if they do not fit into `limit` bytes and some signature must still
    /// be made.
    pub fn shorten(&mut self, options: &Options, limit: usize) {
        let Some(signer) = self.zone.and_then(|zone| zone.signer.as_ref()) else { return };
        if self.unsigned().is_none() {
            return;
        }
        let size = |index| {
            let item = self.item(index);
            item.bytes() + if self.is_wanted(item) { RECORD_HEAD_BYTES + signer.rrsig_bytes() } else { 0 }
        };
        let around = self.query.head.len() + reply::reserved(self.query, options);
        if around + (0..self.count()).map(size).sum::<usize>() > limit {
            self.found.truncated = true;
            self.found.answer.clear();
            self.found.authority.clear();
        }
    }

    /// Makes the signature of the record set `index`.
    pub fn sign(&mut self, index: usize) {
        let signer = self.zone.and_then(|zone| zone.signer.as_ref());
        match signer.and_then(|signer| signer.sign(self.item(index), self.now)) {
            Some(signature) => self.signatures[index] = Some(signature),
            None => {
                self.found = Found::error(Rcode::ServFail);
                self.signatures.clear();
            }
        }
    }

    /// Writes the answer into `out`, and returns its length; `None` if not even the question fits.
    pub fn write(&self, options: &Options, out: &mut [u8]) -> Option<usize> {
        reply::write(self.query, &self.found, &self.signatures, self.zone, options, out)
    }
}

#[cfg(test)]
pub(crate) mod tests;
