//! CoAP (RFC 7252): confirmable GET requests for one resource. A reply must repeat the token, which
//! holds the run and the number of the request. An acknowledgement without content is no reply.

use super::{Chosen, Common, Profile, Told};
use crate::lab::workload::Arrival;
use forebay::inside::wire::Status;
use std::array;
use std::sync::atomic::{AtomicU16, Ordering};

/// Version 1, confirmable, a token of 8 bytes.
const CONFIRMABLE: u8 = 0x48;
const GET: u8 = 0x01;
const URI_PATH: u16 = 11;
const URI_QUERY: u16 = 15;
/// The largest length or delta of an option with one byte more.
const EXTENDED_MAX: u16 = 268;

#[derive(Debug)]
struct Coap {
    options: Vec<u8>,
    /// The next message of each flow, by the flow's low byte. For 247 s a server takes another
    /// message of the same number and client for a repeated one.
    messages: [AtomicU16; 256],
}

/// Requests for the resource at `path`, with a query after `?`; by default for `/`.
pub(super) fn chosen(path: &str) -> Result<Chosen, String> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| (URI_PATH, part));
    let queries = query.into_iter().flat_map(|query| query.split('&')).map(|part| (URI_QUERY, part));
    let (mut options, mut last) = (Vec::new(), 0);
    for (number, part) in parts.chain(queries) {
        let length = u16::try_from(part.len()).ok().and_then(extended);
        let Some(((delta, more_delta), (length, more_length))) = extended(number - last).zip(length) else {
            return Err(format!("`{part}` is too long: a part of a path has at most {EXTENDED_MAX} bytes"));
        };
        options.push(delta << 4 | length);
        options.extend(more_delta.into_iter().chain(more_length));
        options.extend(part.bytes());
        last = number;
    }
    Ok(Chosen::alone(Coap { options, messages: array::from_fn(|_| AtomicU16::default()) }))
}

/// Four bits, and one byte more where these are not enough.
fn extended(value: u16) -> Option<(u8, Option<u8>)> {
    match value {
        0..13 => Some((value as u8, None)),
        13..=EXTENDED_MAX => Some((13, Some((value - 13) as u8))),
        _ => None,
    }
}

impl Profile for Coap {
    fn protocol(&self) -> &'static str {
        "CoAP"
    }

    fn write(&self, run: Common, id: u64, _: u8, request: &Arrival, into: &mut Vec<u8>) {
        // Ordering: a number of its own, whichever threads send the flows that share this counter.
        let message = self.messages[usize::from(request.flow as u8)].fetch_add(1, Ordering::Relaxed);
        into.extend([CONFIRMABLE, GET]);
        into.extend(message.to_be_bytes());
        into.extend(run.stamp(id));
        into.extend(&self.options);
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let &[first, code, _, _, ref token @ ..] = reply.first_chunk::<12>()?;
        let (status, code) = match code {
            0x45 => (Status::Ok, "2.05"),
            0x40..0x60 => (Status::Ok, "2.xx"),
            0x84 => (Status::Refused, "4.04"),
            0x9d => (Status::ShedRate, "4.29"),
            0x80..0xa0 => (Status::Refused, "4.xx"),
            0xa3 => (Status::ShedQueueFull, "5.03"),
            0xa0..0xc0 => (Status::Failed, "5.xx"),
            _ => return None,
        };
        // Version and length of the token; the kind of message may differ.
        let is_reply = first & !0x30 == CONFIRMABLE;
        Some(Told { status, code, ..run.told(token).filter(|_| is_reply)? })
    }
}
