//! The bench protocol of a Forebay server. A stamp names the run, and its low byte is the number of
//! the attempt.

use super::{Common, Profile, Told};
use crate::lab::workload::Arrival;
use anyhow::{Context, Result, anyhow};
use forebay::inside::wire::{CLASS_NAMES, DATAGRAM_MAX_BYTES, Header, Kind};
use forebay::time::{Nanos, clock};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

/// Timeout of a request that learns one flow's worker. It covers a wake-up on a machine that
/// compiles meanwhile.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests per flow. A datagram may be lost because a socket is full, or because the kernel only
/// now reports that an earlier server ended.
const TRIES: u64 = 5;

/// The bits of a stamp that name the run.
const SESSION: u64 = !0xff;

/// The bench protocol. It has no settings.
#[derive(Debug)]
pub(super) struct Bench;

impl Profile for Bench {
    fn protocol(&self) -> &'static str {
        "bench"
    }

    fn classes(&self) -> &[&'static str] {
        &CLASS_NAMES
    }

    fn write(&self, run: Common, id: u64, attempt: u8, request: &Arrival, into: &mut Vec<u8>) {
        let Common { session, deadline_us, may_repeat, .. } = run;
        let kind = if may_repeat { Kind::Repeatable } else { Kind::Request };
        let stamp = session & SESSION | u64::from(attempt);
        let header = Header::request(id, request.class, request.cost);
        into.extend(Header { kind, stamp, deadline_us, ..header }.emit());
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let header = Header::parse(reply).ok().filter(|header| header.kind == Kind::Reply)?;
        let attempt = u8::try_from(header.stamp ^ run.session & SESSION).ok()?;
        let Header { id, status, served, .. } = header;
        let retry_after = header.retry_after();
        Some(Told { attempt, status, retry_after, served, ..Told::answer(id, u64::BITS) })
    }
}

/// Learns which worker serves each of `flows`, by one request each. The server must run `isolated`,
/// where a reply names the worker that owns the socket.
///
/// # Errors
/// If a request is not answered.
pub(crate) fn sockets_of(flows: &[UdpSocket]) -> Result<Vec<u16>> {
    let ask = |(flow, socket): (usize, &UdpSocket)| {
        worker_behind(socket, flow as u64).with_context(|| {
            format!(
                "--simulate has to learn at which of the server's sockets flow {flow} is, and cannot: lower the load on \
                 the machine, or leave --simulate out"
            )
        })
    };
    flows.iter().enumerate().map(ask).collect()
}

fn worker_behind(flow: &UdpSocket, number: u64) -> Result<u16> {
    // A later run must not take a late reply for its own, nor this call one of an earlier run.
    let stamp = clock::realtime().get();
    flow.set_nonblocking(false)?;
    flow.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut worker = None;
    for _ in 0..TRIES {
        let request = Header { stamp, ..Header::request(number, 0, Nanos::new(1)) };
        // An error may be the answer to an earlier datagram ("port unreachable"); the next try then
        // shows whether a server is there.
        if flow.send(&request.emit()).is_ok() {
            worker = reply_to(flow, stamp)?;
        }
        if worker.is_some() {
            break;
        }
    }
    flow.set_nonblocking(true)?;
    worker.ok_or_else(|| anyhow!("the server answered none of {TRIES} requests"))
}

/// The worker named by a reply with this stamp; `None` if there is no reply in time.
fn reply_to(flow: &UdpSocket, stamp: u64) -> Result<Option<u16>> {
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let bytes = match flow.recv(&mut buffer) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if let Ok(header) = Header::parse(&buffer[..bytes])
            && header.kind == Kind::Reply
            && header.stamp == stamp
        {
            return Ok(Some(header.served.worker));
        }
    }
}
