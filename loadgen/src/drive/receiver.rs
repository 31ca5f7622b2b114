//! The receiver: reads every flow and records, for each request, its first reply.
//!
//! A reply's time is the kernel's receive stamp, so that the time until our own thread wakes up is not charged to the
//! server. The stamp is on the real-time clock; how long ago it was is subtracted from the monotonic time of reading.

use crate::drive::live::Live;
use crate::drive::schedule::Request;
use crate::interrupt::Interrupt;
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

/// The interval of checking for the end of a run. Replies wake the receiver at once.
const LOOK: Duration = Duration::from_millis(20);
/// The longest wait for outstanding replies after an interrupt.
const INTERRUPTED_WAIT: Nanos = Nanos::from_millis(500);

/// The first reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When the kernel received it, on the monotonic clock.
    pub at: Nanos,
    /// The status in the reply.
    pub status: Status,
    /// The worker that finished the request, as named in the reply.
    pub worker: u16,
}

/// The receiver's record of a run.
#[derive(Debug)]
pub(crate) struct Replies {
    /// For each request of the schedule its first reply, if any.
    pub(crate) first: Vec<Option<Reply>>,
    /// Replies beyond the first.
    pub(crate) duplicates: u64,
    /// Datagrams that are not a reply to a request of this run.
    pub(crate) foreign: u64,
}

impl Replies {
    /// The number of all datagrams received.
    pub(crate) fn heard(&self) -> u64 {
        self.first.iter().flatten().count() as u64 + self.duplicates + self.foreign
    }
}

/// Receives replies to the requests of `schedule` until nothing is outstanding, or `timeout` after the last send.
///
/// # Errors
/// If the kernel refuses to poll or to receive.
pub(crate) fn receive(
    sockets: &[UdpSocket],
    schedule: &[Request],
    session: u64,
    timeout: Nanos,
    live: &Live,
    interrupt: &Interrupt,
) -> Result<Replies> {
    let mut poll = Poll::new().context("opening a poll")?;
    for (flow, socket) in sockets.iter().enumerate() {
        poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), Token(flow), Interest::READABLE)?;
    }
    let mut receiver = Receiver::new(schedule, session, live);
    let mut events = Events::with_capacity(1_024);
    let mut give_up_at = None;
    loop {
        match poll.poll(&mut events, Some(LOOK)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error).context("waiting for replies"),
            _ => {}
        }
        for event in &events {
            receiver.drain(event.token().0, sockets[event.token().0].as_raw_fd()).context("receiving replies")?;
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
    schedule: &'a [Request],
    session: u64,
    live: &'a Live,
}

impl<'a> Receiver<'a> {
    fn new(schedule: &'a [Request], session: u64, live: &'a Live) -> Receiver<'a> {
        Receiver {
            replies: Replies { first: vec![None; schedule.len()], duplicates: 0, foreign: 0 },
            buffer: [0; DATAGRAM_MAX_BYTES],
            control: nix::cmsg_space!(TimeSpec),
            schedule,
            session,
            live,
        }
    }

    /// Reads everything: readiness is reported once per arrival (edge-triggered).
    fn drain(&mut self, flow: usize, socket: RawFd) -> Result<(), Errno> {
        loop {
            match self.take_one(flow, socket) {
                Ok(()) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                // "Port unreachable" for an earlier send: the request stays unanswered, and that is its fate.
                Err(Errno::ECONNREFUSED | Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_one(&mut self, flow: usize, socket: RawFd) -> Result<(), Errno> {
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let message = recvmsg::<()>(socket, &mut slices, Some(&mut self.control), MsgFlags::MSG_DONTWAIT)?;
        let at = received_at(message.cmsgs().into_iter().flatten());
        let bytes = message.bytes;
        let reply = Header::parse(&self.buffer[..bytes]).ok().filter(|header| self.is_ours(flow, header));
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

    /// True for a reply to a request that this very run has sent, over the flow that it was sent over.
    fn is_ours(&self, flow: usize, header: &Header) -> bool {
        // A request is counted before it is sent, and its reply can only come after that.
        header.kind == Kind::Reply
            && header.stamp == self.session
            && header.id < self.live.sent()
            && self.schedule.get(header.id as usize).is_some_and(|request| usize::from(request.flow) == flow)
    }
}

/// The time of the kernel's receive stamp on the monotonic clock. A clock step between stamp and reading moves the
/// result, but never past now; that it is not before the send is ensured where replies are matched to requests.
pub fn received_at(mut control: impl Iterator<Item = ControlMessageOwned>) -> Nanos {
    let (realtime, now) = (clock::realtime(), clock::now());
    let stamp = control.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Nanos::from(Duration::from(stamp))),
        _ => None,
    });
    stamp.map_or(now, |stamp| now.minus(realtime.minus(stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::flows;

    const SESSION: u64 = 77;

    /// Two flows to a server, over each of which one request was sent, and a third request that was not; what the
    /// receiver makes of the datagrams that `reply` makes of the request of each flow.
    fn heard(reply: impl Fn(usize, Header) -> Vec<Vec<u8>>) -> (Replies, Nanos, Nanos) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let sockets = flows::open(server.local_addr().expect("an address"), 2).expect("two flows");
        let request = |flow| Request { at: Nanos::ZERO, cost: Nanos::new(1), flow, class: 0 };
        let (schedule, live) = ([0, 1, 0].map(request), Live::default());
        let before = clock::now();
        for (flow, socket) in sockets.iter().enumerate() {
            let request = Header { stamp: SESSION, ..Header::request(flow as u64, 0, Nanos::new(1)) };
            live.count_sent();
            for datagram in reply(flow, request) {
                server.send_to(&datagram, socket.local_addr().expect("an address")).expect("a send on loopback");
            }
        }
        // Loopback delivers within the send: later on only the time until the read passes.
        let delivered = clock::now();
        std::thread::sleep(Duration::from_millis(200));
        let mut receiver = Receiver::new(&schedule, SESSION, &live);
        for (flow, socket) in sockets.iter().enumerate() {
            receiver.drain(flow, socket.as_raw_fd()).expect("an open socket");
        }
        (receiver.replies, before, delivered)
    }

    fn reply_to(request: Header) -> Vec<u8> {
        Header { kind: Kind::Reply, ..request }.emit().to_vec()
    }

    // Is the time until our own thread reads left out of latencies? Method: replies that wait for 200 ms in our
    // sockets.
    #[test]
    fn a_reply_came_when_the_kernel_had_it() {
        let (replies, before, delivered) = heard(|_, request| vec![reply_to(request)]);
        assert_eq!((replies.heard(), replies.foreign), (2, 0));
        // Two clocks are read one after the other, and a thread may lose its CPU in between.
        let slack = Nanos::from_millis(100);
        for reply in replies.first.iter().flatten() {
            assert!(
                reply.at.plus(slack) >= before && reply.at <= delivered.plus(slack),
                "{reply:?}: {before}, {delivered}"
            );
        }
    }

    // Method: for each reason a datagram that is wrong in nothing else, beside a good reply and its duplicate.
    #[test]
    fn what_answers_no_request_of_this_run_is_foreign() {
        let (replies, ..) = heard(|flow, request| {
            let other_flow = Header { id: 1 - flow as u64, ..request };
            vec![
                reply_to(request),
                reply_to(request),
                request.emit().to_vec(),
                reply_to(other_flow),
                reply_to(Header { id: 2, ..request }),
                reply_to(Header { id: 3, ..request }),
                reply_to(Header { id: u64::MAX, ..request }),
                reply_to(Header { stamp: SESSION + 1, ..request }),
                b"no bench protocol".to_vec(),
                Vec::new(),
            ]
        });
        assert_eq!(replies.first.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!((replies.duplicates, replies.foreign, replies.heard()), (2, 16, 20));
    }
}
