//! A CoAP server (RFC 7252) with three resources. `/hello` returns a greeting. `/factors?91` finds
//! a factor, which may take long. `/slow` acknowledges a confirmable request at once, and sends the
//! content later in a separate message, by a timer of its shard.
//!
//! A ping, a reserved code and an unreadable message get a reset. An unknown critical option gets
//! 4.02. In these cases a non-confirmable message gets no answer.
//!
//! `cargo run --example coap -- --slow 2s`, and then `coap-client -m get
//! 'coap://127.0.0.1/factors?91'`. `--help` lists the other settings; deploy/README.md installs it
//! as a service.

#![allow(clippy::disallowed_methods, reason = "the library has a clock of its own, and a service std's")]

use forebay::clap;
use forebay::fate::{Malformed, Refused, Status};
use forebay::handler::{Once, Transmit, Unserved};
use forebay::time::Nanos;
use forebay::{Admitted, Arrival, Event, Out, Rejected, Reply, Request, Service, checkpoint};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const CONFIRMABLE: u8 = 0;
const NON_CONFIRMABLE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const RESET: u8 = 3;
const GET: u8 = 0x01;
const CONTENT: u8 = 0x45;
const BAD_OPTION: u8 = 0x82;
const NOT_FOUND: u8 = 0x84;
const METHOD_NOT_ALLOWED: u8 = 0x85;
/// Codes of requests. All but GET get 4.05 (section 5.8), also codes to which no method is
/// assigned.
const METHODS: RangeInclusive<u8> = 1..=31;
const URI_HOST: u32 = 3;
const URI_PORT: u32 = 7;
const URI_PATH: u32 = 11;
const URI_QUERY: u32 = 15;
const ACCEPT: u32 = 17;

/// Indices of the names of reasons. A ping is an empty message, by which a client asks whether a
/// server is there. FORMAT means a message that breaks the format or has a reserved code.
const PING: u8 = 0;
const FORMAT: u8 = 1;

/// The most contents of one shard that are to be sent later.
const LATER_MAX: usize = 64;

/// A CoAP server (RFC 7252) with the resources /hello, /factors and /slow.
#[derive(clap::Args)]
#[command(version)]
struct Flags {
    /// How long /slow takes, 0s to 10s.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = up_to_ten_seconds)]
    slow: Nanos,
}

fn up_to_ten_seconds(text: &str) -> Result<Nanos, String> {
    let time = text.parse::<Nanos>().map_err(|error| error.to_string())?;
    if time <= Nanos::from_secs(10) { Ok(time) } else { Err("allowed: 0s to 10s".to_owned()) }
}

struct Coap {
    slow: Duration,
}

/// A message that is sent at a time of its own.
struct Later {
    at: Instant,
    client: SocketAddr,
    local: SocketAddr,
    message: Vec<u8>,
}

/// A parsed message.
#[derive(Clone, Debug, Default)]
struct Message<'a> {
    kind: u8,
    code: u8,
    id: [u8; 2],
    token: &'a [u8],
    path: Vec<&'a [u8]>,
    query: &'a [u8],
    /// Whether there is a critical option (one with an odd number) that this server does not know.
    bad_option: bool,
}

impl Service for Coap {
    type Ticket = ();
    /// The contents to send later, the earliest first.
    type Shard = VecDeque<Later>;
    type Message = std::convert::Infallible;

    const REASON_NAMES: &'static [&'static str] = &["ping", "format"];

    fn shard(&self, _: usize) -> VecDeque<Later> {
        VecDeque::new()
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let &[first, _, high, low, ..] = arrival.bytes() else { return Err(Rejected::Malformed(Malformed::Truncated)) };
        let kind = first >> 4 & 3;
        // Other versions are ignored silently (section 3), and so are acknowledgements and resets.
        if first >> 6 != 1 {
            return Err(Rejected::Malformed(Malformed::Version));
        }
        if kind > NON_CONFIRMABLE {
            return Err(Rejected::Malformed(Malformed::Reply));
        }
        let reason = match parse(arrival.bytes()) {
            // By message ID, so that a client's requests do not wait for one another.
            Some(message) if METHODS.contains(&message.code) => {
                return Ok(Admitted::new(()).shard(u16::from_be_bytes([high, low]).into()).reply_limit(64));
            }
            Some(message) if message.code == 0 => PING,
            _ => FORMAT,
        };
        let refused = Rejected::Refused(Admitted::new(()).reply_limit(4), Refused::Other);
        Err(if kind == CONFIRMABLE { refused } else { Rejected::Malformed(Malformed::Other) }.because(reason))
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        let &[_, _, high, low, ..] = request.bytes() else { return };
        if unserved.status == Status::Refused {
            reply.put(&[0x40 | RESET << 4, 0, high, low]).expect("as long as the shortest message");
        }
    }

    async fn handle(&self, later: &mut VecDeque<Later>, event: Event<'_>, out: &mut Out<'_>) {
        let request = match event {
            Event::Datagram(request) => request,
            _ => return send_due(later, out),
        };
        let Some(message) = parse(request.bytes()) else { return };
        // In a non-confirmable message, a bad option is rejected by silence (section 5.4.1).
        if message.bad_option && message.kind == NON_CONFIRMABLE {
            return;
        }
        let (code, content) = match (message.code, message.path.as_slice()) {
            _ if message.bad_option => (BAD_OPTION, String::new()),
            (GET, [b"hello"]) => (CONTENT, "hello, too".to_owned()),
            (GET, [b"factors"]) => match str::from_utf8(message.query).unwrap_or_default().parse() {
                Ok(number @ 2..) => (CONTENT, smallest_factor(number).await.to_string()),
                _ => (NOT_FOUND, String::new()),
            },
            (GET, [b"slow"]) if message.kind == CONFIRMABLE => {
                // Where there is no room, there is no answer: a CoAP client asks again.
                if later.len() < LATER_MAX {
                    let at = Instant::now() + self.slow;
                    let message = message.answer(NON_CONFIRMABLE, CONTENT, "at last");
                    later.push_back(Later { at, client: request.peer(), local: request.local(), message });
                    let _ = out.at(0, later[0].at);
                    let _ = out.reply().put(&[0x40 | ACKNOWLEDGEMENT << 4, 0, request.bytes()[2], request.bytes()[3]]);
                }
                return;
            }
            (GET, _) => (NOT_FOUND, String::new()),
            _ => (METHOD_NOT_ALLOWED, String::new()),
        };
        let kind = if message.kind == NON_CONFIRMABLE { NON_CONFIRMABLE } else { ACKNOWLEDGEMENT };
        // If no more may be sent to this network now, there is no answer: a CoAP client asks again.
        if out.reply().put(&message.answer(kind, code, &content)).is_err() {
            out.reply().clear();
        }
    }
}

impl Message<'_> {
    /// The answer to this message.
    fn answer(&self, kind: u8, code: u8, content: &str) -> Vec<u8> {
        let head = [0x40 | kind << 4 | self.token.len() as u8, code, self.id[0], self.id[1]];
        let marker: &[u8] = if content.is_empty() { b"" } else { b"\xff" };
        [&head, self.token, marker, content.as_bytes()].concat()
    }
}

/// Sends the contents whose time has come.
fn send_due(later: &mut VecDeque<Later>, out: &mut Out<'_>) {
    while later.front().is_some_and(|first| first.at <= Instant::now())
        && let Some(first) = later.pop_front()
    {
        // What may not be sent is as good as lost in the network.
        let _ = out.send(first.client, Transmit::new(&first.message).from(first.local));
    }
    let _ = out.at(0, later.front().map(|first| first.at));
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
    let (token, mut rest) = rest.split_at_checked(token_length)?;
    // An empty message consists of its header only.
    if version != 1 || token_length > 8 || code == 0 && (token_length > 0 || !rest.is_empty()) {
        return None;
    }
    let mut message = Message { kind: first >> 4 & 3, code, id: [high, low], token, ..Message::default() };
    let mut number = 0;
    while let [option, after @ ..] = rest {
        if *option == 0xff {
            // A marker without a payload is an error (section 3).
            return (!after.is_empty()).then_some(message);
        }
        rest = after;
        number += extended(option >> 4, &mut rest)?;
        let length = extended(option & 15, &mut rest)? as usize;
        let (value, after) = rest.split_at_checked(length)?;
        match number {
            URI_PATH => message.path.push(value),
            URI_QUERY => message.query = value,
            // There is one host, one port and one content format, so these options change nothing.
            URI_HOST | URI_PORT | ACCEPT => {}
            _ => message.bad_option |= number % 2 == 1,
        }
        rest = after;
    }
    Some(message)
}

/// The delta or the length of an option. It may continue in one or two further bytes.
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
    // What comes later than a second after its request needs an allowance.
    let (amplification, allowance) = (("amplification", "4"), ("amplification-allowance", "64"));
    let defaults = [("listen", "127.0.0.1:5683"), amplification, allowance, ("policy", "levels")];
    forebay::main(&defaults, |flags: Flags, bind| {
        let coap = Coap { slow: flags.slow.into() };
        // For this time a client may repeat a message, which then counts as the same message
        // (section 4.5).
        bind()?.run(&Once::new(coap).keeping(1_024, Duration::from_secs(247)))
    })
}
