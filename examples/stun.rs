//! A STUN server (RFC 8489): it tells clients from which address and port they are seen. Answers are longer than questions, so
//! the handler allows that; what one network is sent stays within `amplification`, here three times what it sends.
//!
//! `cargo run --example stun -- 127.0.0.1:3478`, and then `turnutils_stunclient 127.0.0.1`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server};
use std::net::{IpAddr, SocketAddr};

const HEADER: usize = 20;
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();

/// Places of the names of reasons: a length that is not the message's, and methods of TURN or an indication.
const LENGTH: u8 = 0;
const METHOD: u8 = 1;

struct Stun;

impl Handler for Stun {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["length", "method"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let bytes = arrival.bytes();
        let malformed = |reason| Err(Rejected::Malformed(reason));
        if bytes.len() < HEADER {
            return malformed(Malformed::Truncated);
        }
        let (kind, length) = (u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]]));
        match kind {
            _ if bytes[4..8] != COOKIE => malformed(Malformed::Magic),
            _ if usize::from(length) != bytes.len() - HEADER => {
                Err(Rejected::Malformed(Malformed::Other).because(LENGTH))
            }
            BINDING_REQUEST => Ok(Admitted::new(()).reply_limit(HEADER + 4 + 20)),
            BINDING_SUCCESS => malformed(Malformed::Reply),
            _ => Err(Rejected::Ignored.because(METHOD)),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        // Cookie and transaction: what the address is veiled with, lest middleboxes rewrite it.
        let veil = &request.bytes()[4..HEADER];
        let value = mapped(request.peer(), veil);
        let parts: [&[u8]; 6] = [
            &BINDING_SUCCESS.to_be_bytes(),
            &(4 + value.len() as u16).to_be_bytes(),
            veil,
            &XOR_MAPPED_ADDRESS.to_be_bytes(),
            &(value.len() as u16).to_be_bytes(),
            &value,
        ];
        // Where the network may not be sent as much now, it is not answered: STUN asks again.
        if parts.into_iter().try_for_each(|part| reply.put(part)).is_err() {
            reply.clear();
        }
    }
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
    // 20 bytes ask, 32 answer, over IPv6 44.
    let server = Server::builder().set("listen", &address).set("admin", "127.0.0.1:0").set("amplification", "3");
    let server = server.bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Stun)?;
    Ok(())
}
