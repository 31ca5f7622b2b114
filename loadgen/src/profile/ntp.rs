//! NTP (RFC 5905): questions of a client. A reply must repeat the transmit timestamp, which holds
//! the run and the number of the request instead of a time.

use super::{Common, Profile, Told};
use crate::lab::workload::Arrival;
use forebay::inside::wire::Status;

const MESSAGE_BYTES: usize = 48;
/// Version 4, mode 3.
const QUESTION: u8 = 4 << 3 | 3;
const SERVER: u8 = 4;
/// Leap indicator of a server whose clock is not synchronised.
const UNKNOWN: u8 = 3;

#[derive(Debug)]
pub(super) struct Ntp;

impl Profile for Ntp {
    fn protocol(&self) -> &'static str {
        "NTP"
    }

    fn write(&self, run: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        into.push(QUESTION);
        into.extend([0; MESSAGE_BYTES - 9]);
        into.extend(run.stamp(id));
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let message = reply.first_chunk::<MESSAGE_BYTES>().filter(|message| message[0] & 7 == SERVER)?;
        // A kiss of death has stratum 0 and says why in the place of the source.
        let (status, code) = match (message[1], &message[12..16]) {
            (0, b"RATE") => (Status::ShedRate, "RATE"),
            (0, b"DENY") => (Status::Refused, "DENY"),
            (0, b"RSTR") => (Status::Refused, "RSTR"),
            _ if message[0] >> 6 == UNKNOWN => (Status::Ok, "unsynchronised"),
            _ => (Status::Ok, "synchronised"),
        };
        Some(Told { status, code, ..run.told(&message[24..32])? })
    }
}
