//! A STUN server (RFC 8489): it tells a client the address and port from which its packets come.
//! Answers are longer than questions, so the handler permits that. The bytes sent to one network
//! stay within `amplification`, here three times the bytes from it.
//!
//! A question may have an attribute that a server must understand but RFC 8489 does not define. It
//! gets error 420 with a list of these attributes. A message with a wrong FINGERPRINT is dropped.
//!
//! `cargo run --example stun -- 127.0.0.1:3478`, and then `turnutils_stunclient 127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::handler::Once;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server};
use std::net::{IpAddr, SocketAddr};

const HEADER: usize = 20;
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;
const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const FINGERPRINT: u16 = 0x8028;
/// A server may ignore attributes from `OPTIONAL` on. Of the others, RFC 8489 defines these; in a
/// question without a password they have no effect.
const OPTIONAL: u16 = 0x8000;
const KNOWN: [u16; 11] = [0x01, 0x06, 0x08, 0x09, 0x0a, 0x14, 0x15, 0x1c, 0x1d, 0x1e, 0x20];
/// The most unknown attributes that an answer lists: more would make it longer than its question.
const LISTED_MAX: usize = 8;
const COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();

/// Indices of the names of reasons: a wrong length, a TURN method or an indication, and a wrong
/// fingerprint.
const LENGTH: u8 = 0;
const METHOD: u8 = 1;
const FINGERPRINTED: u8 = 2;

struct Stun;

impl Handler for Stun {
    /// The numbers of attributes that must be comprehended and are not known.
    type Ticket = Vec<u8>;

    const REASON_NAMES: &'static [&'static str] = &["length", "method", "fingerprint"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Vec<u8>>, Rejected<Vec<u8>>> {
        let bytes = arrival.bytes();
        if bytes.len() < HEADER {
            return Err(Rejected::Malformed(Malformed::Truncated));
        }
        let (kind, length) = (u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]]));
        match kind {
            _ if bytes[4..8] != COOKIE => Err(Rejected::Malformed(Malformed::Magic)),
            _ if usize::from(length) != bytes.len() - HEADER => {
                Err(Rejected::Malformed(Malformed::Other).because(LENGTH))
            }
            BINDING_REQUEST => match attributes(bytes) {
                None => Err(Rejected::Malformed(Malformed::Other).because(LENGTH)),
                Some(found) if !found.intact => Err(Rejected::Malformed(Malformed::Other).because(FINGERPRINTED)),
                Some(found) => Ok(Admitted::new(found.unknown).reply_limit(HEADER + 8 + 4 + 2 * LISTED_MAX)),
            },
            BINDING_SUCCESS => Err(Rejected::Malformed(Malformed::Reply)),
            _ => Err(Rejected::Ignored.because(METHOD)),
        }
    }

    async fn handle(&self, request: Request<'_, Vec<u8>>, reply: &mut Reply<'_>) {
        // Cookie and transaction: what the address is veiled with, lest middleboxes rewrite it.
        let veil = &request.bytes()[4..HEADER];
        let unknown = request.ticket();
        let (kind, body) = if unknown.is_empty() {
            (BINDING_SUCCESS, attribute(XOR_MAPPED_ADDRESS, &mapped(request.peer(), veil)))
        } else {
            // Class and number: 420.
            (BINDING_ERROR, [attribute(ERROR_CODE, &[0, 0, 4, 20]), attribute(UNKNOWN_ATTRIBUTES, unknown)].concat())
        };
        let parts: [&[u8]; 4] = [&kind.to_be_bytes(), &(body.len() as u16).to_be_bytes(), veil, &body];
        // If no more may be sent to this network now, there is no answer: a STUN client asks again.
        if parts.into_iter().try_for_each(|part| reply.put(part)).is_err() {
            reply.clear();
        }
    }
}

/// The attributes of a question.
struct Attributes {
    /// See [`Handler::Ticket`].
    unknown: Vec<u8>,
    /// Whether the fingerprint is right or missing.
    intact: bool,
}

/// The attributes of a message; `None` if a length is wrong.
fn attributes(message: &[u8]) -> Option<Attributes> {
    let (mut unknown, mut intact, mut at) = (Vec::new(), true, HEADER);
    while at < message.len() {
        let &[kind_high, kind_low, high, low] = message.get(at..at + 4)? else { return None };
        let (kind, length) = (u16::from_be_bytes([kind_high, kind_low]), usize::from(u16::from_be_bytes([high, low])));
        let value = message.get(at + 4..at + 4 + length)?;
        if kind == FINGERPRINT {
            // It must be the last attribute, and covers all bytes before it (section 14.7).
            let expected = crc32(&message[..at]) ^ 0x5354_554e;
            intact = value == expected.to_be_bytes() && at + 8 == message.len();
        } else if kind < OPTIONAL && !KNOWN.contains(&kind) && unknown.len() < 2 * LISTED_MAX {
            unknown.extend([kind_high, kind_low]);
        }
        at += 4 + length.next_multiple_of(4);
    }
    (at == message.len()).then_some(Attributes { unknown, intact })
}

/// An attribute, padded to a multiple of four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let fill = value.len().next_multiple_of(4) - value.len();
    [&kind.to_be_bytes(), &(value.len() as u16).to_be_bytes(), value, &[0; 3][..fill]].concat()
}

/// The checksum of Ethernet and zip (ITU V.42).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// The value of XOR-MAPPED-ADDRESS: family, port, address.
fn mapped(peer: SocketAddr, veil: &[u8]) -> Vec<u8> {
    let (family, address) = match peer.ip().to_canonical() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let port = peer.port().to_be_bytes();
    let veiled = |bytes: &[u8]| -> Vec<u8> { bytes.iter().zip(veil).map(|(byte, veil)| byte ^ veil).collect() };
    [vec![0, family], veiled(&port), veiled(&address)].concat()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3478".into());
    // A question has 20 bytes, an answer 32, over IPv6 44.
    let server = Server::builder().set("listen", &address).set("amplification", "3");
    let server = server.bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Once::new(Stun))?;
    Ok(())
}
