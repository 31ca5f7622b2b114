//! Measures the datagram path on one CPU: a single spinning thread sends as fast as the server
//! answers.
//!
//! `loadgen` has one thread to send and one to receive. On the single CPU that is left here, the
//! two would delay one another.

use crate::results::Figure;
use anyhow::{Context, Result, ensure};
use arrayvec::ArrayVec;
use forebay::inside::net::{BATCH, RECV_BUFFER_BYTES};
use forebay::inside::wire::{HEADER_BYTES, Header, Kind, Status};
use forebay::time::{Nanos, clock};
use loadgen::compare::server_process::ServerProcess;
use loadgen::drive::flows;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, setsockopt};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::fs;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams in a train.
const TRAIN: usize = 8;
const FLOWS: usize = 64;
/// Requests outstanding: so many that a server always has one while the generator does other work.
const WINDOW_MAX: usize = 1_024;
/// The kernel charges a socket's buffer less than this for a small datagram.
const CHARGE_BYTES: usize = 1_024;
/// The fewest replies of a measurement; another program may keep the server from running for a
/// while.
const REPLIES_MIN: u64 = 1_000;
/// A request without a reply counts as lost after this time. A server that gets CPU time answers
/// within a millisecond.
const LOST_AFTER: Nanos = Nanos::from_secs(10);
/// The most datagrams of one receive: the kernel makes no longer train of replies.
const TRAIN_MAX: usize = 128;

/// Measures packets/s and CPU time for single datagrams and for trains, and round trips with one
/// request outstanding.
///
/// # Errors
/// If the system refuses, or requests are lost.
pub(crate) fn measure(server: &ServerProcess, quick: bool) -> Result<Vec<Figure>> {
    let (warmup, most) = if quick { (10, 50) } else { (150, 1_000) };
    let span = |ms: u64| (Nanos::from_millis(warmup), Nanos::from_millis(ms.min(most)));
    let window = window()?;
    // Each flow may have two trains outstanding.
    let flow_count = (window / (2 * TRAIN)).clamp(1, FLOWS);
    let mut figures = Vec::new();
    for (name, train, ms) in [("packets/s", 1, 800), ("trains of 8", TRAIN, 500)] {
        let mut driver = Driver::open(server.udp, flow_count, window / flow_count, train)?;
        let (per_second, cpu_us) = driver.saturate(server.id(), span(ms))?;
        figures.extend([(name.to_owned(), Some(per_second)), (format!("{name}: CPU us"), Some(cpu_us))]);
    }
    let trips = Driver::open(server.udp, 1, 1, 1)?.round_trips(span(500))?;
    figures.push(("one outstanding, us: p50".to_owned(), Some(trips[trips.len() / 2])));
    Ok(figures)
}

/// The number of requests that fit into a server's receive buffer. The kernel grants a server twice
/// the size that it may ask for.
fn window() -> Result<usize> {
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").context("reading the limit of receive buffers")?;
    let limit: usize = limit.trim().parse().context("reading the limit of receive buffers")?;
    Ok((2 * limit.min(RECV_BUFFER_BYTES) / CHARGE_BYTES).min(WINDOW_MAX))
}

/// Sends on several flows, each with a bounded number of outstanding requests.
struct Driver {
    sockets: Vec<UdpSocket>,
    /// Requests that each flow may still send.
    credit: Vec<usize>,
    window: usize,
    /// The datagrams that one call sends.
    train: Vec<u8>,
    headers: MultiHeaders<()>,
    buffers: Vec<[u8; TRAIN_MAX * HEADER_BYTES]>,
}

impl Driver {
    fn open(server: SocketAddr, flow_count: usize, window: usize, train: usize) -> Result<Driver> {
        let sockets = flows::open(server, u16::try_from(flow_count).context("too many flows")?, None)?;
        for socket in sockets.iter().filter(|_| train > 1) {
            let segment = i32::try_from(HEADER_BYTES).context("a header is short")?;
            setsockopt(socket, UdpGsoSegment, &segment).context("asking for UDP_SEGMENT")?;
            // A client that sends trains also receives trains.
            setsockopt(socket, UdpGroSegment, &true).context("asking for UDP_GRO")?;
        }
        Ok(Driver {
            credit: vec![window; sockets.len()],
            sockets,
            window,
            train: Header::request(0, 0, Nanos::from_micros(1)).emit().repeat(train),
            headers: MultiHeaders::preallocate(BATCH, None),
            buffers: vec![[0; TRAIN_MAX * HEADER_BYTES]; BATCH],
        })
    }

    /// Replies per second, and CPU microseconds of the server's process per reply.
    fn saturate(&mut self, process: u32, (warmup, counted): (Nanos, Nanos)) -> Result<(f64, f64)> {
        let process = Pid::from_raw(i32::try_from(process).context("a process number")?);
        let clock_of_server = clock_getcpuclockid(process).context("asking for the server's CPU clock")?;
        let begin = clock::now().plus(warmup);
        let (mut replies, mut last_reply, mut counting) = (0_u64, clock::now(), None);
        let (took, cpu) = loop {
            let mut taken = 0;
            for flow in 0..self.sockets.len() {
                self.send(flow)?;
                taken += self.take(flow)? as u64;
            }
            replies += taken;
            let now = clock::now();
            if taken > 0 {
                last_reply = now;
            }
            ensure!(now.minus(last_reply) < LOST_AFTER, "the server answers nothing more");
            match counting {
                None if now >= begin => {
                    counting = Some((now, cpu_time(clock_of_server)?));
                    replies = 0;
                }
                Some((began, cpu)) if now >= began.plus(counted) && replies >= REPLIES_MIN => {
                    break (now.minus(began), cpu_time(clock_of_server)?.minus(cpu));
                }
                _ => {}
            }
        };
        self.drain()?;
        Ok((replies as f64 / took.as_secs_f64(), cpu.as_micros_f64() / replies as f64))
    }

    /// Round trips in microseconds, from before the send until the reply is read, in ascending
    /// order.
    fn round_trips(&mut self, (warmup, counted): (Nanos, Nanos)) -> Result<Vec<f64>> {
        let begin = clock::now().plus(warmup);
        let mut trips_us = Vec::new();
        loop {
            let sent_at = clock::now();
            if sent_at >= begin.plus(counted) && trips_us.len() as u64 >= REPLIES_MIN {
                break;
            }
            self.send(0)?;
            while self.take(0)? == 0 {
                ensure!(clock::now().minus(sent_at) < LOST_AFTER, "a request is lost");
            }
            if sent_at >= begin {
                trips_us.push(clock::now().minus(sent_at).as_micros_f64());
            }
        }
        trips_us.sort_unstable_by(f64::total_cmp);
        Ok(trips_us)
    }

    /// Sends as many requests as `flow` has credit for.
    fn send(&mut self, flow: usize) -> Result<()> {
        let count = self.train.len() / HEADER_BYTES;
        while self.credit[flow] >= count {
            self.sockets[flow].send(&self.train).context("sending")?;
            self.credit[flow] -= count;
        }
        Ok(())
    }

    /// Receives the replies that have come on `flow`.
    fn take(&mut self, flow: usize) -> Result<usize> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().map_or(&mut [][..], |buffer| &mut buffer[..]))]);
        let socket = self.sockets[flow].as_raw_fd();
        let lengths: ArrayVec<usize, BATCH> =
            match recvmmsg(socket, &mut self.headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
                Ok(messages) => messages.map(|message| message.bytes).collect(),
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
                Err(errno) => return Err(errno).context("receiving"),
            };
        let mut replies = 0;
        for (buffer, length) in self.buffers.iter().zip(lengths) {
            for reply in buffer[..length].chunks(HEADER_BYTES) {
                let is_good = |header: &Header| header.kind == Kind::Reply && header.status == Status::Ok;
                ensure!(Header::parse(reply).is_ok_and(|header| is_good(&header)), "a datagram that is no good reply");
                replies += 1;
            }
        }
        self.credit[flow] += replies;
        ensure!(self.credit[flow] <= self.window, "more replies than requests");
        Ok(replies)
    }

    /// Waits until no request is outstanding. A run that lost a request gives no figure.
    fn drain(&mut self) -> Result<()> {
        let deadline = clock::now().plus(LOST_AFTER);
        while let Some(flow) = self.credit.iter().position(|credit| *credit < self.window) {
            self.take(flow)?;
            ensure!(clock::now() < deadline, "{} requests are lost", self.window - self.credit[flow]);
        }
        Ok(())
    }
}

fn cpu_time(clock: ClockId) -> Result<Nanos> {
    let time = clock_gettime(clock).context("reading the server's CPU clock")?;
    Ok(Nanos::from(std::time::Duration::from(time)))
}
