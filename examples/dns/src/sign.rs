//! Makes signatures on demand, and keeps them for later answers (RFC 4034).

use crate::find::{Item, Set};
use crate::keys::{DNSKEY_TTL, Key};
use crate::name::{Name, signed_labels, successor};
use crate::query::CLASS_IN;
use crate::zone::Data;
use domain::crypto::sign::SignRaw;
use forebay::server::Counter;
use quick_cache::sync::Cache;
use ring::rand::{SecureRandom, SystemRandom};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::sync::Arc;

/// How long a signature is valid, in seconds: longer than a weekend without maintenance.
const VALID_SECONDS: u32 = 14 * 86_400;

/// How long a signature is used in answers. The remaining time is longer than caches keep records.
const REUSED_SECONDS: u32 = 7 * 86_400;

/// How long before its creation a signature begins to be valid, because clocks differ.
const BACKDATED_SECONDS: u32 = 3_600;

/// Signs the records of one zone.
pub struct Signer {
    zone: Name,
    key: Key,
    /// By the hash of the owner and content of a record set. The hash has a secret, so an attacker
    /// cannot cause collisions.
    signatures: Cache<u128, Arc<Signature>>,
    secret: [u8; 16],
    /// Number of signatures made.
    pub made: Counter,
}

/// The data of an RRSIG record.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    made_at: u32,
    /// The data in wire format.
    pub data: Box<[u8]>,
}

impl Signer {
    /// Signs for `zone` with `key`, and remembers up to `signatures` signatures. Counts in `made`
    /// those that it makes.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(zone: Name, key: Key, signatures: usize, made: Counter) -> anyhow::Result<Signer> {
        let mut secret = [0; 16];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        Ok(Signer { zone, key, signatures: Cache::new(signatures), secret, made })
    }

    /// The zone's DNSKEY records.
    pub(crate) fn dnskey(&self) -> Data {
        let data = self.key.dnskey_data();
        Data { plain: data.clone(), canonical: data }
    }

    /// The time to live of the DNSKEY records.
    pub(crate) fn dnskey_ttl(&self) -> u32 {
        DNSKEY_TTL
    }

    /// The key that signs.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Bytes of the data of an RRSIG record.
    pub(crate) fn rrsig_bytes(&self) -> usize {
        18 + self.zone.as_bytes().len() + self.key.signature_bytes()
    }

    /// The signature of `item`, if one is known and still fresh at `now`, in seconds since 1970.
    pub(crate) fn known(&self, item: &Item<'_>, now: u32) -> Option<Arc<Signature>> {
        let signature = self.signatures.get(&self.digest(item))?;
        // If the clock was set back, the age is negative, which wraps to a huge number.
        (now.wrapping_sub(signature.made_at) < REUSED_SECONDS).then_some(signature)
    }

    /// Signs `item` and keeps the signature. Takes 20 us to 600 us, depending on the algorithm.
    /// `None` if the key cannot sign, for lack of random numbers.
    pub(crate) fn sign(&self, item: &Item<'_>, now: u32) -> Option<Arc<Signature>> {
        let owner = item.owner.name;
        let mut data = self.head(item, now);
        let head_bytes = data.len();
        let mut add = |rdata: &[u8]| {
            data.extend_from_slice(owner);
            data.extend_from_slice(&item.set.rtype().to_int().to_be_bytes());
            data.extend_from_slice(&CLASS_IN.to_be_bytes());
            data.extend_from_slice(&item.set.original_ttl().to_be_bytes());
            data.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            data.extend_from_slice(rdata);
        };
        match item.set {
            Set::Stored(set) => set.canonical.iter().for_each(|rdata| add(rdata)),
            Set::Nsec { bitmap, .. } => {
                let mut rdata = Vec::new();
                successor(owner, &mut rdata);
                rdata.extend_from_slice(bitmap);
                add(&rdata);
            }
            Set::Text(rdata) => add(rdata),
        }
        let signature = self.key.pair.sign_raw(&data).ok()?;
        self.made.add(1);
        data.truncate(head_bytes);
        data.extend_from_slice(signature.as_ref());
        let signature = Arc::new(Signature { made_at: now, data: data.into() });
        self.signatures.insert(self.digest(item), Arc::clone(&signature));
        Some(signature)
    }

    /// The data of an RRSIG record before the signature (RFC 4034, 3.1). A name below a wildcard is
    /// signed as if it were in the zone (RFC 9824, 3.3), so it needs no proof.
    fn head(&self, item: &Item<'_>, now: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(1_024);
        head.extend_from_slice(&item.set.rtype().to_int().to_be_bytes());
        head.extend_from_slice(&[self.key.algorithm(), signed_labels(item.owner.name)]);
        head.extend_from_slice(&item.set.original_ttl().to_be_bytes());
        head.extend_from_slice(&now.wrapping_add(VALID_SECONDS).to_be_bytes());
        head.extend_from_slice(&now.wrapping_sub(BACKDATED_SECONDS).to_be_bytes());
        head.extend_from_slice(&self.key.tag().to_be_bytes());
        head.extend_from_slice(self.zone.as_bytes());
        head
    }

    fn digest(&self, item: &Item<'_>) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        // A name in wire format shows its end, so no length is needed.
        hasher.write(item.owner.name);
        hasher.write(&item.set.rtype().to_int().to_be_bytes());
        match item.set {
            Set::Stored(set) => hasher.write(&set.digest),
            Set::Nsec { bitmap, ttl } => {
                hasher.write(&ttl.to_be_bytes());
                hasher.write(bitmap);
            }
            Set::Text(data) => hasher.write(data),
        }
        hasher.finish128().as_u128()
    }
}

impl Set<'_> {
    /// The TTL in the zone, which a signature covers.
    fn original_ttl(&self) -> u32 {
        match self {
            Set::Stored(set) => set.original_ttl,
            Set::Nsec { ttl, .. } => *ttl,
            Set::Text(_) => 0,
        }
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({:?})", self.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::Owner;
    use crate::keys::Algorithm;

    // Is a signature used again for a week, and not if the clock was set back? Also where the
    // seconds begin at zero again, in 2106. It is valid from an hour before, for two weeks.
    #[test]
    fn a_signature_is_used_for_a_week() {
        let zone = || Name::parse(b"\x07example\x04test\0").expect("a name");
        let key = Key::of_zone(&zone(), Algorithm::Ed25519, None).expect("a key");
        let signer = Signer::new(zone(), key, 8, Counter::default()).expect("random numbers");
        let owner = Owner { name: b"\x07example\x04test\0", skip: 0, in_target: false };
        let item = Item { owner, set: Set::Text(b"\x01a"), signed: true, only_signature: false };
        for made_at in [1_800_000_000, u32::MAX, u32::MAX - REUSED_SECONDS, 0] {
            let made = signer.sign(&item, made_at).expect("random numbers");
            let week = REUSED_SECONDS.cast_signed();
            for (age, known) in [(0, true), (week - 1, true), (week, false), (-1, false), (-week, false)] {
                let found = signer.known(&item, made_at.wrapping_add_signed(age));
                assert_eq!(found, known.then(|| Arc::clone(&made)), "{made_at}: {age}");
            }
            let time = |at: usize| u32::from_be_bytes(made.data[at..at + 4].try_into().expect("four bytes"));
            let valid = [time(8), time(12)].map(|time| time.wrapping_sub(made_at).cast_signed());
            assert_eq!(valid, [14 * 86_400, -3_600], "{made_at}");
        }
    }
}
