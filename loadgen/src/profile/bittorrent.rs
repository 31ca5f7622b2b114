//! A tracker of BitTorrent (BEP 15): requests to connect. A reply must repeat the transaction: the
//! number of the request, counted from another one in each run.

use super::{Common, Profile, Told};
use crate::lab::workload::Arrival;
use forebay::inside::wire::Status;

/// The constant of the protocol.
const PROTOCOL: [u8; 8] = 0x0000_0417_2710_1980_u64.to_be_bytes();
const CONNECT: [u8; 4] = [0, 0, 0, 0];
const ERROR: [u8; 4] = [0, 0, 0, 3];

#[derive(Debug)]
pub(super) struct Tracker;

impl Profile for Tracker {
    fn protocol(&self) -> &'static str {
        "BitTorrent tracker"
    }

    fn write(&self, run: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        into.extend(PROTOCOL);
        into.extend(CONNECT);
        into.extend((id as u32).wrapping_add(run.session as u32).to_be_bytes());
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let (action, rest) = reply.split_first_chunk()?;
        let (status, code) = match (*action, rest.len()) {
            // The transaction, and the identifier of the connection.
            (CONNECT, 12..) => (Status::Ok, "connected"),
            (ERROR, _) => (Status::Refused, "error"),
            _ => return None,
        };
        let id = u32::from_be_bytes(*rest.first_chunk()?).wrapping_sub(run.session as u32);
        Some(Told { status, code, ..Told::answer(id.into(), u32::BITS) })
    }
}
