//! An NTP server (RFC 5905) that gives the time of its host. From the kernel (`adjtimex`) it knows
//! whether the clock is synchronised, its largest error, and a coming leap second. The kernel does
//! not know the source of the time, so the stratum is 10, and the root dispersion is the whole
//! error. The receive time in an answer is the kernel's timestamp, so waiting in the server does
//! not make it wrong.
//!
//! If the clock is not synchronised, the leap indicator is 3 and there is no stratum, so clients do
//! not follow it.
//!
//! `cargo run --example ntp -- 127.0.0.1:1123`, and then `ntpdate -q -p 1 127.0.0.1` against port
//! 123, or any SNTP client

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::fate::Malformed;
use forebay::handler::Once;
use forebay::time::clock;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, Server};
use rtime_clock::adjtime::{Timex, adjtimex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a message without extensions.
const MESSAGE: usize = 48;
/// Modes of a client's question and of the answer. A server never answers an answer.
const CLIENT: u8 = 3;
const SERVER: u8 = 4;
/// Modes of messages that ask for more than the time. Attackers use them to find amplifiers.
const CONTROL: u8 = 6;
const PRIVATE: u8 = 7;
/// The stratum of a server that does not know the stratum of its source.
const STRATUM: u8 = 10;
/// The leap indicator of a clock that is not synchronised, and the kernel's state for it.
const UNKNOWN: u8 = 3;
const TIME_ERROR: i32 = 5;
/// The index of the name of this reason.
const MANAGEMENT: u8 = 0;

struct Ntp;

/// What the kernel knows of its clock.
struct Known {
    leap: u8,
    /// The largest error, in units of 2^-16 s.
    dispersion: u32,
}

impl Known {
    fn now() -> Known {
        let mut clock = Timex::new();
        // 0 is normal; 1 and 2 are a second to be inserted or deleted; 3 and 4 are the time around
        // it.
        let leap = match adjtimex(&mut clock).unwrap_or(TIME_ERROR) {
            TIME_ERROR => UNKNOWN,
            state @ 1..=2 => state as u8,
            _ => 0,
        };
        let error_us = u64::try_from(clock.0.maxerror).unwrap_or_default();
        Known { leap, dispersion: u32::try_from((error_us << 16).div_ceil(1_000_000)).unwrap_or(u32::MAX) }
    }
}

impl Handler for Ntp {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["management"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let &[first, ..] = arrival.bytes() else { return Err(Rejected::Malformed(Malformed::Empty)) };
        let (version, mode) = (first >> 3 & 7, first & 7);
        match mode {
            // These messages are shorter, so they are checked first.
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
        let Known { leap, dispersion } = Known::now();
        message[0] = leap << 6 | asked[0] & 0b0011_1000 | SERVER;
        // An unknown clock has stratum 16, which is sent as 0. The source is then a reason.
        let (stratum, source) = if leap == UNKNOWN { (0, b"INIT") } else { (STRATUM, b"LOCL") };
        message[1] = stratum;
        // The interval of the question, and a precision of a microsecond.
        (message[2], message[3]) = (asked[2], -20_i8 as u8);
        message[8..12].copy_from_slice(&dispersion.to_be_bytes());
        message[12..16].copy_from_slice(source);
        // The reference time is the time at which the kernel gave this error.
        message[16..24].copy_from_slice(&timestamp(request.time_of_arrival()));
        // The origin time is the client's own time of its question.
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
    // NTP has 32 bits of seconds in each era; a client knows the present era.
    (since_1900.as_secs() << 32 | fraction).to_be_bytes()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:1123".into());
    let server = Server::builder().set("listen", &address).set("reject-source-ports", "none");
    let server = server.bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Once::new(Ntp))?;
    Ok(())
}
