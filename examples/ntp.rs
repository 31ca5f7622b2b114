//! An NTP server (RFC 5905) that passes on the time of its host, which it takes to be right. Its stratum is 10, that
//! of a server without another source. The receive time in its answers is the kernel's stamp, so that waiting in the
//! server is no error.
//!
//! `cargo run --example ntp -- 127.0.0.1:1123`, and then `ntpdate -q -p 1 127.0.0.1` against port 123, or any SNTP client

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::time::clock;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a message without extensions.
const MESSAGE: usize = 48;
/// Mode of a client's question, and of the answer to it: a server that is sent an answer does not answer.
const CLIENT: u8 = 3;
const SERVER: u8 = 4;
/// Modes of messages that ask for more than the time, as amplifiers are looked for.
const CONTROL: u8 = 6;
const PRIVATE: u8 = 7;
/// The place of their name among the reasons.
const MANAGEMENT: u8 = 0;

struct Ntp {
    started: SystemTime,
}

impl Handler for Ntp {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["management"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let &[first, ..] = arrival.bytes() else { return Err(Rejected::Malformed(Malformed::Empty)) };
        let (version, mode) = (first >> 3 & 7, first & 7);
        match mode {
            // These are shorter.
            CONTROL | PRIVATE => Err(Rejected::Ignored.because(MANAGEMENT)),
            _ if arrival.bytes().len() < MESSAGE => Err(Rejected::Malformed(Malformed::Truncated)),
            CLIENT if (1..=4).contains(&version) => Ok(Admitted::new(())),
            SERVER => Err(Rejected::Malformed(Malformed::Reply)),
            _ => Err(Rejected::Malformed(Malformed::Kind)),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let asked = request.bytes();
        let mut message = [0; MESSAGE];
        message[0] = asked[0] & 0b0011_1000 | SERVER;
        message[1] = 10;
        // The same interval between questions; microsecond precision.
        (message[2], message[3]) = (asked[2], -20_i8 as u8);
        message[12..16].copy_from_slice(b"LOCL");
        message[16..24].copy_from_slice(&timestamp(self.started));
        // Origin: what the client calls the time of its question.
        message[24..32].copy_from_slice(&asked[40..48]);
        message[32..40].copy_from_slice(&timestamp(request.time_of_arrival()));
        message[40..48].copy_from_slice(&timestamp(now()));
        reply.put(&message).expect("a question is as long");
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + clock::realtime().into()
}

/// Seconds since 1900, and 32 bits of a second.
fn timestamp(time: SystemTime) -> [u8; 8] {
    let since_1900 = Duration::from_secs(2_208_988_800) + time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(since_1900.subsec_nanos()) << 32) / 1_000_000_000;
    // An era of NTP has 32 bits of seconds; clients know which one it is.
    (since_1900.as_secs() << 32 | fraction).to_be_bytes()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:1123".into());
    let server =
        Server::builder().set("listen", &address).set("admin", "127.0.0.1:0").set("reject-source-ports", "none");
    let server = server.bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Ntp { started: now() })?;
    Ok(())
}
