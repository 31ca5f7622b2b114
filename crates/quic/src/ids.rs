//! Connection IDs that contain their shard and the place of their connection there, so that each
//! datagram finds its connection.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Random bytes of an ID of this server. The other bytes are hidden under a hash of these.
const RANDOM: usize = 8;

/// The hidden bytes: two of the shard, two of the place, and two zeros.
const HIDDEN: usize = 6;

/// The length of this server's IDs.
const LENGTH: usize = RANDOM + HIDDEN;

/// The longest ID of any implementation (RFC 9000, section 17.2).
const LONGEST: usize = 20;

/// The bytes before the first ID of a long header: the form and the version.
const BEFORE_IDS: usize = 5;

/// The destination's connection ID in the first packet of a datagram (RFC 8999). `None` if the
/// header is incomplete, or the ID longer than any may be.
pub fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    let is_long = first & 0x80 != 0;
    if !is_long {
        return rest.get(..LENGTH);
    }
    let (length, rest) = datagram.get(BEFORE_IDS..)?.split_first()?;
    rest.get(..usize::from(*length)).filter(|id| id.len() <= LONGEST)
}

/// Whether a datagram begins with an Initial packet of version 1, as handshakes do.
pub fn is_initial(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0b1011_0000 == 0b1000_0000)
}

/// Whether the Initial packet at the begin of a datagram has a token, perhaps a proof of the
/// sender's address.
pub fn has_token(initial: &[u8]) -> bool {
    let after_id = |rest: &'_ [u8]| rest.first().map(|length| 1 + usize::from(*length));
    let source = destination(initial).map_or(initial.len(), |id| BEFORE_IDS + 1 + id.len());
    let token = initial.get(source..).and_then(after_id).map(|length| source + length);
    // The first byte of its length is zero only if the token is empty.
    token.and_then(|token| initial.get(token)).is_some_and(|length| *length != 0)
}

/// Whether two datagrams are packets of one connection after its handshake: they have short headers
/// and the same destination.
pub fn are_of_one_connection(first: &[u8], next: &[u8]) -> bool {
    let has_short_header = |datagram: &[u8]| datagram.first().is_some_and(|first| first & 0x80 == 0);
    let id = destination(first).filter(|_| has_short_header(first) && has_short_header(next));
    id.is_some() && id == destination(next)
}

/// What an ID of this server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The shard that issued the ID.
    pub shard: u16,
    /// The place of the connection in the shard; [`NOWHERE`] if it has none yet.
    pub place: u16,
}

/// The place in IDs of clients that first have to prove their address.
pub const NOWHERE: u16 = u16::MAX;

/// Finds the shard of a connection ID. The keys are secret and last as long as the process.
#[derive(Clone, Default)]
pub struct Routes {
    keys: RandomState,
}

impl Routes {
    /// What `id` names; `None` unless this server has issued it.
    pub fn named(&self, id: &[u8]) -> Option<Named> {
        let (random, hidden) = id.split_first_chunk()?;
        let hidden: &[u8; HIDDEN] = hidden.try_into().ok()?;
        let [s1, s0, p1, p0, zeros @ ..] = self.masked(random, *hidden);
        (zeros == [0, 0]).then(|| Named { shard: u16::from_be_bytes([s1, s0]), place: u16::from_be_bytes([p1, p0]) })
    }

    /// The shard of an ID. An ID of this server contains it. A client chooses the first ID of its
    /// connection at random. The hash of this ID gives the shard, which then issues all further
    /// IDs. No client can learn the shard of an ID.
    pub fn shard_of(&self, id: &[u8]) -> u16 {
        self.named(id).map_or_else(|| self.keys.hash_one(id) as u16, |named| named.shard)
    }

    /// Hides bytes, or shows hidden ones.
    fn masked(&self, random: &[u8; RANDOM], bytes: [u8; HIDDEN]) -> [u8; HIDDEN] {
        let mask = self.keys.hash_one(random).to_be_bytes();
        std::array::from_fn(|index| bytes[index] ^ mask[index])
    }
}

/// Issues the IDs of one connection.
pub struct Ids {
    routes: Routes,
    named: Named,
    random: RandomConnectionIdGenerator,
}

impl Ids {
    /// The IDs that name `named`.
    pub fn new(routes: Routes, named: Named) -> Ids {
        Ids { routes, named, random: RandomConnectionIdGenerator::new(RANDOM) }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let (random, Named { shard, place }) = (self.random.generate_cid(), self.named);
        let (random, [s1, s0], [p1, p0]) = (random.first_chunk(), shard.to_be_bytes(), place.to_be_bytes());
        let random = random.expect("it is as long");
        let hidden = self.routes.masked(random, [s1, s0, p1, p0, 0, 0]);
        ConnectionId::new(&[&random[..], &hidden].concat())
    }

    /// Forged IDs name nothing, and get no stateless reset.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let is_own = self.routes.named(id).is_some_and(|named| named.shard == self.named.shard);
        if is_own { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does each packet of a connection lead to the shard and the place that issued its ID?
    #[test]
    fn an_issued_id_leads_to_its_connection() {
        let routes = Routes::default();
        for named in [(0, 0), (1, 255), (77, NOWHERE), (1_023, 1)].map(|(shard, place)| Named { shard, place }) {
            let mut ids = Ids::new(routes.clone(), named);
            let (id, other) = (ids.generate_cid(), ids.generate_cid());
            assert!(id[..] != other[..] && id[RANDOM..RANDOM + 2] != named.shard.to_be_bytes(), "{id}: it is hidden");
            assert!(ids.validate(&id).is_ok());
            let short = [&[0x40], &id[..], &[9; 30]].concat();
            let long = [&[0xe0, 0, 0, 0, 1, LENGTH as u8], &id[..], &[9; 30]].concat();
            assert!(are_of_one_connection(&short, &short) && !are_of_one_connection(&short, &long));
            assert!(!are_of_one_connection(&long, &long), "a handshake's packets come one by one");
            assert!(!are_of_one_connection(&short, &[&[0x40], &other[..], &[9; 30]].concat()));
            for datagram in [short, long] {
                assert_eq!(destination(&datagram).and_then(|id| routes.named(id)), Some(named));
                assert_eq!(destination(&datagram).map(|id| routes.shard_of(id)), Some(named.shard));
                assert!(!is_initial(&datagram));
            }
        }
    }

    // Is an ID valid only in the shard that issued it? Is one that is forged, cut, lengthened, of
    // another process or changed in any bit valid nowhere?
    #[test]
    fn no_other_id_is_valid() {
        let (routes, foreign) = (Routes::default(), Routes::default());
        let ids = |routes: &Routes, shard| Ids::new(routes.clone(), Named { shard, place: 3 });
        let (mut own, other) = (ids(&routes, 7), ids(&routes, 8));
        let id = own.generate_cid();
        assert!(own.validate(&id).is_ok() && other.validate(&id).is_err());
        let is_valid = |bytes: &[u8]| own.validate(&ConnectionId::new(bytes)).is_ok();
        assert!(!is_valid(&ids(&foreign, 7).generate_cid()));
        assert!(!is_valid(&id[..LENGTH - 1]) && !is_valid(&[&id[..], &[0]].concat()) && !is_valid(&[]));
        for bit in 0..8 * LENGTH {
            let mut changed = id.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            // Two bytes of the place say nothing about validity.
            let is_place = (RANDOM + 2..RANDOM + 4).contains(&(bit / 8));
            assert_eq!(is_valid(&changed), is_place, "bit {bit}");
        }
        let forged = (0..10_000_u64).map(|number| [&number.to_be_bytes()[..], &[5; HIDDEN]].concat());
        // One in 2^16 has the right check by chance, and one in 2^32 the right shard as well.
        assert_eq!(forged.filter(|id| is_valid(id)).count(), 0);
    }

    #[test]
    fn ids_of_clients_are_spread_and_headers_may_be_cut_off() {
        let routes = Routes::default();
        let shards: std::collections::BTreeSet<_> =
            (0..200_u64).map(|id| routes.shard_of(&id.to_be_bytes()) % 1_024).collect();
        assert!(shards.len() > 150, "{shards:?}");
        let initial = [0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        assert!(is_initial(&initial));
        assert_eq!(destination(&initial), Some(&initial[6..]));
        assert!((0..initial.len()).all(|length| destination(&initial[..length]).is_none()));
        assert_eq!(destination(&[0x40; LENGTH]), None);
        assert_eq!(destination(&[&[0xc3, 0, 0, 0, 1, 21][..], &[7; 40]].concat()), None, "too long");
        let with = |token: &[u8]| [&initial[..], &[3, 7, 7, 7], token].concat();
        assert!(has_token(&with(&[1, 9])) && has_token(&with(&[0x40, 70])) && !has_token(&with(&[0, 9])));
        assert!((0..=with(&[]).len()).all(|length| !has_token(&with(&[])[..length])), "cut off");
    }
}
