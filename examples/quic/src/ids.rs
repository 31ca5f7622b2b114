//! Connection IDs that contain their shard, so that each datagram finds the shard of its
//! connection.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Random bytes of an ID of this server. Two more bytes hide the shard.
const RANDOM: usize = 8;

/// The length of this server's IDs.
const LENGTH: usize = RANDOM + 2;

/// The destination's connection ID in the first packet of a datagram (RFC 8999). `None` if the
/// header is incomplete.
pub fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    let is_long = first & 0x80 != 0;
    if !is_long {
        return rest.get(..LENGTH);
    }
    // The ID follows the version, which has four bytes.
    let (length, rest) = rest.get(4..)?.split_first()?;
    rest.get(..usize::from(*length))
}

/// Whether a datagram begins with an Initial packet of version 1, as handshakes do.
pub fn is_initial(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0b1011_0000 == 0b1000_0000)
}

/// Whether two datagrams are packets of one connection after its handshake: they have short headers
/// and the same destination.
pub fn are_of_one_connection(first: &[u8], next: &[u8]) -> bool {
    let has_short_header = |datagram: &[u8]| datagram.first().is_some_and(|first| first & 0x80 == 0);
    let id = destination(first).filter(|_| has_short_header(first) && has_short_header(next));
    id.is_some() && id == destination(next)
}

/// Finds the shard of a connection ID. The keys are secret and last as long as the process.
#[derive(Clone, Default)]
pub struct Routes {
    keys: RandomState,
}

impl Routes {
    /// The shard of an ID. An ID of this server has the shard in its last two bytes, under a mask.
    /// A client chooses the first ID of its connection at random. The hash of this ID gives the
    /// shard, which then issues all further IDs. No client can learn the shard of an ID.
    pub fn shard_of(&self, id: &[u8]) -> u16 {
        match id.split_first_chunk() {
            Some((random, [high, low])) => self.mask(random) ^ u16::from_be_bytes([*high, *low]),
            _ => self.keys.hash_one(id) as u16,
        }
    }

    fn mask(&self, random: &[u8; RANDOM]) -> u16 {
        self.keys.hash_one(random) as u16
    }
}

/// Issues the IDs of one shard.
pub struct Ids {
    routes: Routes,
    shard: u16,
    random: RandomConnectionIdGenerator,
}

impl Ids {
    /// The IDs of `shard`.
    pub fn new(routes: Routes, shard: u16) -> Ids {
        Ids { routes, shard, random: RandomConnectionIdGenerator::new(RANDOM) }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = self.random.generate_cid();
        let mut id = [0; LENGTH];
        id[..RANDOM].copy_from_slice(&random);
        let (random, hidden) = id.split_first_chunk_mut().expect("it is longer");
        hidden.copy_from_slice(&(self.routes.mask(random) ^ self.shard).to_be_bytes());
        ConnectionId::new(&id)
    }

    /// Most forged IDs name no shard or another shard. They get no stateless reset.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if self.routes.shard_of(id) == self.shard { Ok(()) } else { Err(InvalidCid) }
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

    // Does each packet of a connection lead to the shard that issued its ID?
    #[test]
    fn an_issued_id_leads_to_its_shard() {
        let routes = Routes::default();
        for shard in [0, 1, 77, 1_023] {
            let mut ids = Ids::new(routes.clone(), shard);
            let (id, other) = (ids.generate_cid(), ids.generate_cid());
            assert!(id[..] != other[..] && id[RANDOM..] != shard.to_be_bytes(), "{id}: the shard is hidden");
            assert!(ids.validate(&id).is_ok());
            let short = [&[0x40], &id[..], &[9; 30]].concat();
            let long = [&[0xe0, 0, 0, 0, 1, LENGTH as u8], &id[..], &[9; 30]].concat();
            assert!(are_of_one_connection(&short, &short) && !are_of_one_connection(&short, &long));
            assert!(!are_of_one_connection(&long, &long), "a handshake's packets come one by one");
            assert!(!are_of_one_connection(&short, &[&[0x40], &other[..], &[9; 30]].concat()));
            for datagram in [short, long] {
                assert_eq!(destination(&datagram).map(|id| routes.shard_of(id)), Some(shard));
                assert!(!is_initial(&datagram));
            }
        }
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
    }
}
