//! A CoAP server (RFC 7252) with three resources. `/hello` says so. `/factors?91` finds a factor, which may take
//! long. `/slow` acknowledges a confirmable request at once, and sends the content later, as a message of its own.
//!
//! `cargo run --example coap -- --slow 2s`, and then `coap-client -m get 'coap://127.0.0.1/factors?91'`. With `--help` it says
//! what else an operator may set; deploy/README.md installs it as a service.

use forebay::clap;
use forebay::fate::Malformed;
use forebay::handler::sleep;
use forebay::server::Sender;
use forebay::time::{Nanos, parse_duration};
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint};
use std::process::ExitCode;

const CONFIRMABLE: u8 = 0;
const NON_CONFIRMABLE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const GET: u8 = 0x01;
const CONTENT: u8 = 0x45;
const NOT_FOUND: u8 = 0x84;
const METHOD_NOT_ALLOWED: u8 = 0x85;
const URI_PATH: u32 = 11;
const URI_QUERY: u32 = 15;

/// The place of its name among the reasons: an empty message, by which clients ask whether anything lives here.
const PING: u8 = 0;

/// A CoAP server (RFC 7252) with the resources /hello, /factors and /slow.
#[derive(clap::Args)]
#[command(version)]
struct Flags {
    /// How long /slow takes, 0s to 10s.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = up_to_ten_seconds)]
    slow: Nanos,
}

fn up_to_ten_seconds(text: &str) -> Result<Nanos, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time <= Nanos::from_secs(10) { Ok(time) } else { Err("allowed: 0s to 10s".to_owned()) }
}

struct Coap {
    sender: Sender,
    slow: Nanos,
}

/// A message, parsed.
#[derive(Clone, Debug, Default)]
struct Message<'a> {
    kind: u8,
    code: u8,
    id: [u8; 2],
    token: &'a [u8],
    path: Vec<&'a [u8]>,
    query: &'a [u8],
}

impl Handler for Coap {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["ping"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let message = parse(arrival.bytes()).ok_or(Rejected::Malformed(Malformed::Truncated))?;
        if message.kind == CONFIRMABLE && message.code == 0 {
            return Err(Rejected::Ignored.because(PING));
        }
        // Acknowledgements, resets and responses are no requests, and are not answered.
        if message.kind > NON_CONFIRMABLE || !(1..32).contains(&message.code) {
            return Err(Rejected::Malformed(Malformed::Reply));
        }
        Ok(Admitted::new(()).reply_limit(64))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let Some(message) = parse(request.bytes()) else { return };
        let (code, content) = match (message.code, message.path.as_slice()) {
            (GET, [b"hello"]) => (CONTENT, "hello, too".to_owned()),
            (GET, [b"factors"]) => match str::from_utf8(message.query).unwrap_or_default().parse() {
                Ok(number @ 2..) => (CONTENT, smallest_factor(number).await.to_string()),
                _ => (NOT_FOUND, String::new()),
            },
            (GET, [b"slow"]) if message.kind == CONFIRMABLE => {
                let acknowledgement = [0x40 | ACKNOWLEDGEMENT << 4, 0, message.id[0], message.id[1]];
                // A failure is as if it were lost: the client asks again.
                let _ = self.sender.send(&acknowledgement, request.peer());
                sleep(self.slow).await;
                (CONTENT, "at last".to_owned())
            }
            (GET, _) => (NOT_FOUND, String::new()),
            _ => (METHOD_NOT_ALLOWED, String::new()),
        };
        let separate = message.path == [b"slow"];
        let kind = if separate || message.kind == NON_CONFIRMABLE { NON_CONFIRMABLE } else { ACKNOWLEDGEMENT };
        let head = [0x40 | kind << 4 | message.token.len() as u8, code, message.id[0], message.id[1]];
        let marker: &[u8] = if content.is_empty() { b"" } else { b"\xff" };
        let parts = [&head, message.token, marker, content.as_bytes()];
        // Where the network may not be sent as much now, it is not answered: CoAP asks again.
        if parts.into_iter().try_for_each(|part| reply.put(part)).is_err() {
            reply.clear();
        }
    }
}

async fn smallest_factor(number: u64) -> u64 {
    let mut factor = 2;
    while factor <= number / factor && !number.is_multiple_of(factor) {
        factor += 1;
        if factor.is_multiple_of(1_000) {
            checkpoint().await;
        }
    }
    if number.is_multiple_of(factor) { factor } else { number }
}

fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let &[first, code, high, low, ref rest @ ..] = bytes else { return None };
    let (version, token_length) = (first >> 6, usize::from(first & 15));
    if version != 1 || token_length > 8 {
        return None;
    }
    let (token, mut rest) = rest.split_at_checked(token_length)?;
    let mut message = Message { kind: first >> 4 & 3, code, id: [high, low], token, ..Message::default() };
    let mut number = 0;
    while let [option, after @ ..] = rest {
        if *option == 0xff {
            break;
        }
        rest = after;
        number += extended(option >> 4, &mut rest)?;
        let length = extended(option & 15, &mut rest)? as usize;
        let (value, after) = rest.split_at_checked(length)?;
        match number {
            URI_PATH => message.path.push(value),
            URI_QUERY => message.query = value,
            _ => {}
        }
        rest = after;
    }
    Some(message)
}

/// A delta or length of an option, which may go on in one or two further bytes.
fn extended(nibble: u8, rest: &mut &[u8]) -> Option<u32> {
    let (value, after) = match (nibble, *rest) {
        (0..13, after) => (nibble.into(), after),
        (13, [byte, after @ ..]) => (13 + u32::from(*byte), after),
        (14, [high, low, after @ ..]) => (269 + u32::from(u16::from_be_bytes([*high, *low])), after),
        _ => return None,
    };
    *rest = after;
    Some(value)
}

fn main() -> ExitCode {
    let defaults = [("listen", "127.0.0.1:5683"), ("amplification", "4"), ("policy", "ondemand")];
    forebay::main(&defaults, |flags: Flags, server| {
        let coap = Coap { sender: server.sender()?, slow: flags.slow };
        server.run(&coap)
    })
}
