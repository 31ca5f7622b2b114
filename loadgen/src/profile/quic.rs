//! QUIC (RFC 9000), before any connection: packets of a reserved version. A server must answer with
//! a list of the versions that it knows. The list repeats the connection identifiers, which hold
//! the run and the number of the request.

use super::{Common, Profile, Told};
use crate::lab::workload::Arrival;

/// A server answers no shorter one.
const PACKET_BYTES: usize = 1_200;
/// Form of a packet with a long header, and a bit that is always set.
const LONG_HEADER: u8 = 0xc0;
const LONG_FORM: u8 = 0x80;
/// A version that no server knows (section 15), and that of a list of versions.
const RESERVED: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
const NEGOTIATION: [u8; 4] = [0; 4];
/// The length of an identifier: one stamp.
const STAMP_BYTES: u8 = 8;

#[derive(Debug)]
pub(super) struct Quic;

impl Profile for Quic {
    fn protocol(&self) -> &'static str {
        "QUIC"
    }

    fn write(&self, run: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        let end = into.len() + PACKET_BYTES;
        into.push(LONG_HEADER);
        into.extend(RESERVED);
        for _ in ["destination", "source"] {
            into.push(STAMP_BYTES);
            into.extend(run.stamp(id));
        }
        into.resize(end, 0);
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let head = reply.first_chunk::<14>()?;
        let is_reply = head[0] & LONG_FORM != 0 && head[1..5] == NEGOTIATION && head[5] == STAMP_BYTES;
        Some(Told { code: "versions", ..run.told(&head[6..]).filter(|_| is_reply)? })
    }
}
