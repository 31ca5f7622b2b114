//! STUN (RFC 8489): Binding requests without attributes. A reply must repeat the transaction, which
//! holds the run and the number of the request.

use super::{Common, Profile, Told};
use crate::lab::workload::Arrival;
use forebay::inside::wire::Status;

const HEADER_BYTES: usize = 20;
const REQUEST: [u8; 2] = [0x00, 0x01];
const SUCCESS: [u8; 2] = [0x01, 0x01];
const ERROR: [u8; 2] = [0x01, 0x11];
/// The cookie, and the part of the transaction that is the same for all.
const FIXED: [u8; 8] = *b"\x21\x12\xa4\x42load";

#[derive(Debug)]
pub(super) struct Stun;

impl Profile for Stun {
    fn protocol(&self) -> &'static str {
        "STUN"
    }

    fn write(&self, run: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        into.extend(REQUEST);
        // The length of the attributes.
        into.extend([0, 0]);
        into.extend(FIXED);
        into.extend(run.stamp(id));
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let header = reply.first_chunk::<HEADER_BYTES>().filter(|header| header[4..12] == FIXED)?;
        let (status, code) = match [header[0], header[1]] {
            SUCCESS => (Status::Ok, "success"),
            ERROR => (Status::Refused, "error"),
            _ => return None,
        };
        Some(Told { status, code, ..run.told(&header[12..])? })
    }
}
