//! The receiver: hears every flow and notes, for each request, its first reply.
//!
//! A reply's time is the kernel's receive stamp, so that the time until our own thread wakes up is not charged to the
//! server. The stamp is on the real-time clock; how long ago it was is subtracted from the monotonic time of reading.

use crate::interrupt::Interrupt;
use crate::live::Live;
use anyhow::{Context, Result};
use forebay::time::{Nanos, clock};
use forebay::wire::{DATAGRAM_MAX_BYTES, Header, Kind, Status};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use std::io::{ErrorKind, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// How often the end of a run is looked for. Replies wake the receiver at once.
const LOOK: Duration = Duration::from_millis(20);
/// After an interrupt, outstanding replies are waited for this long at most.
const INTERRUPTED_WAIT: Nanos = Nanos::from_millis(500);

/// The first reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When the kernel received it, on the monotonic clock.
    pub at: Nanos,
    /// What it says.
    pub status: Status,
    /// The worker that finished the request, as it says.
    pub worker: u16,
}

/// What the receiver knows at the end.
#[derive(Debug)]
pub(crate) struct Replies {
    /// For each request of the schedule its first reply, if one came.
    pub(crate) first: Vec<Option<Reply>>,
    /// Replies beyond the first.
    pub(crate) duplicates: u64,
    /// Datagrams that are no reply to a request of this run.
    pub(crate) foreign: u64,
}

/// Receives until nothing is outstanding, or `timeout` after the last send.
///
/// # Errors
/// If the kernel refuses to poll or to receive.
pub(crate) fn receive(
    sockets: &[UdpSocket],
    requests: usize,
    session: u64,
    timeout: Nanos,
    live: &Live,
    interrupt: &Interrupt,
) -> Result<Replies> {
    let mut poll = Poll::new().context("opening a poll")?;
    for (flow, socket) in sockets.iter().enumerate() {
        poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), Token(flow), Interest::READABLE)?;
    }
    let mut receiver = Receiver {
        replies: Replies { first: vec![None; requests], duplicates: 0, foreign: 0 },
        buffer: [0; DATAGRAM_MAX_BYTES],
        control: nix::cmsg_space!(TimeSpec),
        session,
        live,
    };
    let mut events = Events::with_capacity(1_024);
    let mut give_up_at = None;
    loop {
        match poll.poll(&mut events, Some(LOOK)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error).context("waiting for replies"),
            _ => {}
        }
        for event in &events {
            receiver.drain(sockets[event.token().0].as_raw_fd()).context("receiving replies")?;
        }
        let Some(outstanding) = live.outstanding() else {
            continue;
        };
        let now = clock::now();
        let wait = if interrupt.is_raised() { INTERRUPTED_WAIT.min(timeout) } else { timeout };
        if outstanding == 0 || now >= *give_up_at.get_or_insert_with(|| now.plus(wait)) {
            return Ok(receiver.replies);
        }
    }
}

struct Receiver<'a> {
    replies: Replies,
    buffer: [u8; DATAGRAM_MAX_BYTES],
    control: Vec<u8>,
    session: u64,
    live: &'a Live,
}

impl Receiver<'_> {
    /// Readiness is told once per arrival (edge-triggered), so everything must be taken.
    fn drain(&mut self, socket: RawFd) -> Result<(), Errno> {
        loop {
            match self.take_one(socket) {
                Ok(()) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                // "Port unreachable" for an earlier send: the request stays unanswered, and that is its fate.
                Err(Errno::ECONNREFUSED | Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_one(&mut self, socket: RawFd) -> Result<(), Errno> {
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let message = recvmsg::<()>(socket, &mut slices, Some(&mut self.control), MsgFlags::MSG_DONTWAIT)?;
        let at = received_at(message.cmsgs().into_iter().flatten());
        let bytes = message.bytes;
        let reply = Header::parse(&self.buffer[..bytes]).ok().filter(|header| self.is_ours(header));
        let Some(header) = reply else {
            self.replies.foreign += 1;
            return Ok(());
        };
        match &mut self.replies.first[header.id as usize] {
            Some(_) => self.replies.duplicates += 1,
            first => {
                *first = Some(Reply { at, status: header.status, worker: header.served.worker });
                self.live.count_replied();
            }
        }
        Ok(())
    }

    /// A reply to a request of this very run.
    fn is_ours(&self, header: &Header) -> bool {
        let requests = self.replies.first.len() as u64;
        header.kind == Kind::Reply && header.stamp == self.session && header.id < requests
    }
}

/// A clock step between stamp and reading moves the result, but never past now; that it is not before the send either
/// is seen to when the two are matched.
pub fn received_at(mut control: impl Iterator<Item = ControlMessageOwned>) -> Nanos {
    let (realtime, now) = (clock::realtime(), clock::now());
    let stamp = control.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Nanos::from(Duration::from(stamp))),
        _ => None,
    });
    stamp.map_or(now, |stamp| now.minus(realtime.minus(stamp)))
}
