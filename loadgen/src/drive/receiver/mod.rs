//! The receiver reads every flow, and records for each request the reply that ends it. It also
//! sends the retries, because it knows which are due, and the sender keeps to its schedule. It has
//! its own thread. If only one CPU is free, it runs on the sender's thread between sends.
//!
//! A reply's time is the kernel's receive stamp, so the server is not charged for our thread's
//! wake-up. The stamp is on the real-time clock. Its age is subtracted from the monotonic time of
//! reading.

mod matching;

use crate::drive::live::Live;
use crate::drive::retries::{AttemptCounts, Clients, Heard, Retry};
use crate::drive::sender::send_one;
use crate::interrupt::Interrupt;
use crate::profile::{Datagrams, Told};
use anyhow::{Context, Result};
use forebay::inside::wire::{DATAGRAM_MAX_BYTES, Served, Status};
use forebay::time::{Nanos, clock};
use matching::{Incoming, Matching};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// The interval of checking for the end of a run. Replies wake the receiver at once.
const LOOK: Nanos = Nanos::from_millis(20);
/// Sockets whose replies are read in one turn.
const EVENTS: usize = 1_024;
/// The longest wait for outstanding replies after an interrupt.
const INTERRUPTED_WAIT: Nanos = Nanos::from_millis(500);

/// The reply that ended a request. It is the first one, or with retries the first one that needs no
/// further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When the kernel received it, on the monotonic clock.
    pub at: Nanos,
    /// The status in the reply.
    pub status: Status,
    /// What its protocol calls the status; empty in the bench protocol.
    pub code: &'static str,
    /// What it tells of its time in the server. On an emulated core this is the core's own time.
    pub served: Served,
    /// Whether it came after all retries, when its client had given up. Without retries the latency
    /// alone says what is late.
    pub late: bool,
}

impl Reply {
    /// Time from the server's kernel to the end of the handler.
    pub(crate) fn in_server(&self) -> Nanos {
        self.served.kernel_wait.plus(self.served.queue_wait).plus(self.served.service)
    }
}

/// The receiver's record of a run.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// For each request of the schedule the reply that ended it, if any.
    pub(crate) last: Vec<Option<Reply>>,
    /// The number of all datagrams received.
    pub(crate) heard: u64,
    /// Replies to an attempt that had one already, or to a request that had ended.
    pub(crate) duplicates: u64,
    /// Datagrams that are not a reply to a request of this run.
    pub(crate) foreign: u64,
    /// See [`Matching::doubtful`].
    pub(crate) doubtful: u64,
    /// The number of retries, and of further datagrams of handshakes, that our kernel took.
    pub(crate) taken: u64,
    /// The number of retries that it did not take, by its error. In a run's record they are among
    /// those of the sender.
    pub(crate) errors: BTreeMap<String, u64>,
    /// What became of all attempts.
    pub(crate) attempts: AttemptCounts,
}

/// Receives the replies of a run over all its flows, and sends its retries.
pub(crate) struct Receiver<'a> {
    replies: Replies,
    clients: Clients<'a>,
    matching: Matching,
    datagrams: Datagrams<'a>,
    sockets: &'a [UdpSocket],
    poll: Poll,
    events: Events,
    /// Flows that the poll has reported and that are not read to the end. The poll is
    /// edge-triggered: it reports each arrival once.
    ready: VecDeque<usize>,
    buffer: [u8; DATAGRAM_MAX_BYTES],
    /// The datagram of a retry, or of a handshake that goes on.
    again: Vec<u8>,
    control: Vec<u8>,
    live: &'a Live,
}

impl<'a> Receiver<'a> {
    /// Receives replies to the requests of `clients` over these `flows`, and sends the retries with
    /// `datagrams`.
    ///
    /// # Errors
    /// If the system refuses to poll that many sockets.
    pub(crate) fn new(
        sockets: &'a [UdpSocket],
        flows: impl Iterator<Item = usize>,
        clients: Clients<'a>,
        datagrams: Datagrams<'a>,
        live: &'a Live,
    ) -> Result<Receiver<'a>> {
        let poll = Poll::new().context("opening a poll")?;
        for flow in flows {
            poll.registry().register(&mut SourceFd(&sockets[flow].as_raw_fd()), Token(flow), Interest::READABLE)?;
        }
        let last = vec![None; clients.schedule.len()];
        Ok(Receiver {
            replies: Replies { last, ..Replies::default() },
            clients,
            matching: Matching::new(sockets.len()),
            datagrams,
            sockets,
            poll,
            events: Events::with_capacity(EVENTS),
            ready: VecDeque::with_capacity(EVENTS),
            buffer: [0; DATAGRAM_MAX_BYTES],
            again: Vec::new(),
            control: nix::cmsg_space!(TimeSpec),
            live,
        })
    }

    /// Receives until no reply is awaited any more. Without retries this is at most `timeout` after
    /// the last send, with retries when every client has given up.
    ///
    /// # Errors
    /// If the kernel refuses to poll or to receive.
    pub(crate) fn receive(mut self, timeout: Nanos, interrupt: &Interrupt) -> Result<Replies> {
        let mut give_up_at = None;
        loop {
            let began = clock::now();
            let next_at = self.clients.next_at(self.live.sent()).unwrap_or(Nanos::MAX);
            self.wait(LOOK.min(next_at.minus(began)))?;
            while !self.ready.is_empty() {
                self.read_one()?;
            }
            let retrying = self.clients.retry() && !interrupt.is_raised();
            self.retry(began, retrying);
            let Some(outstanding) = self.live.outstanding() else {
                continue;
            };
            let wait = if interrupt.is_raised() { INTERRUPTED_WAIT.min(timeout) } else { timeout };
            let is_over = match retrying {
                true => self.clients.over >= self.live.sent(),
                // Sockets were read after `began`: this thread may have stood still since.
                false => outstanding == 0 || began >= *give_up_at.get_or_insert_with(|| clock::now().plus(wait)),
            };
            if is_over {
                let (attempts, doubtful) = (self.clients.counts(self.live.sent()), self.matching.doubtful);
                return Ok(Replies { attempts, doubtful, ..self.replies });
            }
        }
    }

    /// Reads one datagram if there is one, for a sender that receives between its sends. So this
    /// delays the sender only briefly.
    ///
    /// # Errors
    /// If the kernel refuses to poll or to receive.
    pub(crate) fn look(&mut self, interrupt: &Interrupt) -> Result<()> {
        if self.ready.is_empty() {
            let began = clock::now();
            self.wait(Nanos::ZERO)?;
            if self.ready.is_empty() {
                self.retry(began, self.clients.retry() && !interrupt.is_raised());
                return Ok(());
            }
        }
        self.read_one()
    }

    /// Waits for replies, at most this long.
    fn wait(&mut self, at_most: Nanos) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(at_most.into())) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error).context("waiting for replies"),
            _ => {}
        }
        self.ready.extend(self.events.iter().map(|event| event.token().0));
        Ok(())
    }

    /// Sends every retry that is due, if `retrying`. `began` is when the sockets were last read.
    fn retry(&mut self, began: Nanos, retrying: bool) {
        // A reply that came in time has been read by now, unless some sockets are still to be
        // reported.
        if self.events.iter().count() == EVENTS {
            return;
        }
        if retrying {
            self.clients.time_out(began, self.live.sent());
        }
        self.live.note_lost(self.clients.lost(began, self.live.sent()));
        while retrying && let Some(Retry { id, attempt }) = self.clients.next_retry(clock::now()) {
            let request = &self.clients.schedule[id];
            self.again.clear();
            self.datagrams.write(id as u64, attempt, request, &mut self.again);
            self.send_again(usize::from(request.flow));
        }
    }

    /// Sends what is in `again` over `flow`.
    fn send_again(&mut self, flow: usize) {
        match send_one(&self.sockets[flow], &self.again) {
            Ok(()) => self.replies.taken += 1,
            Err(error) => *self.replies.errors.entry(error.to_string()).or_default() += 1,
        }
    }

    /// Reads one datagram of the flow that has been ready for longest, or removes the flow if it
    /// has none.
    fn read_one(&mut self) -> Result<()> {
        let Some(&flow) = self.ready.front() else { return Ok(()) };
        match self.take_one(flow, self.sockets[flow].as_raw_fd()) {
            // "Port unreachable" for an earlier send: the request stays unanswered, and that is its
            // fate.
            Err(Errno::ECONNREFUSED) => self.live.note_refusal(),
            Ok(()) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => drop(self.ready.pop_front()),
            Err(error) => return Err(error).context("receiving replies"),
        }
        Ok(())
    }

    fn take_one(&mut self, flow: usize, socket: RawFd) -> Result<(), Errno> {
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let message = recvmsg::<()>(socket, &mut slices, Some(&mut self.control), MsgFlags::MSG_DONTWAIT)?;
        let at = received_at(message.cmsgs().into_iter().flatten());
        let bytes = message.bytes;
        self.replies.heard += 1;
        let Some((id, told)) = self.matched(flow, at, bytes) else {
            self.replies.foreign += 1;
            return Ok(());
        };
        let Told { attempt, status, code, retry_after, served, kept, .. } = told;
        if !self.clients.is_replied_to(id) {
            self.again.clear();
            self.datagrams.profile.go_on(&self.buffer[..bytes], &mut self.again);
            if !self.again.is_empty() {
                self.send_again(flow);
                return Ok(());
            }
            self.live.count_replied();
        }
        self.datagrams.keep(flow, kept);
        match self.clients.on_reply(id, attempt, status, retry_after, at) {
            Heard::Duplicate => self.replies.duplicates += 1,
            Heard::Attempt => {}
            Heard::End { late } => {
                if status == Status::Ok {
                    self.live.note_latency(id, at.minus(self.clients.start.plus(self.clients.schedule[id].at)));
                }
                self.replies.last[id] = Some(Reply { at, status, code, served, late });
            }
        }
        Ok(())
    }

    /// The request that the datagram in the buffer answers, if this run sent it over that flow.
    fn matched(&mut self, flow: usize, at: Nanos, bytes: usize) -> Option<(usize, Told)> {
        let bytes = &self.buffer[..bytes];
        let told = self.datagrams.profile.read(self.datagrams.common, bytes)?;
        let (clients, sent) = (&self.clients, self.live.sent());
        let id = self.matching.request(clients, sent, self.datagrams, &Incoming { flow, at, bytes, told: &told })?;
        let request = clients.schedule.get(id)?;
        // A request is counted before it is sent, and its reply can only come after that.
        let is_sent = (id as u64) < sent && clients.has_sent(id, told.attempt);
        (is_sent && usize::from(request.flow) == flow).then_some((id, told))
    }
}

/// The time of the kernel's receive stamp on the monotonic clock. If the real-time clock was set
/// between stamp and reading, the result is wrong, but never after now. A time before the send is
/// corrected where replies are matched to requests.
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
    use crate::drive::schedule::Request;
    use crate::plan::Retrying;
    use crate::profile::test_datagrams;
    use forebay::inside::wire::{Header, Kind};

    const SESSION: u64 = 77 << 8;

    /// What the receiver records of the datagrams that `reply` returns for the request of each
    /// flow. One request was sent over each of two flows, and a third was not sent.
    fn heard(reply: impl Fn(usize, Header) -> Vec<Vec<u8>>) -> (Replies, Nanos, Nanos) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let sockets = flows::open(server.local_addr().expect("an address"), 2, None).expect("two flows");
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
        let ms = Nanos::from_millis;
        let clients = Clients::new(&schedule, Retrying::default(), 1, Nanos::ZERO, Nanos::ZERO, ms(1));
        let datagrams = test_datagrams(SESSION);
        let mut receiver = Receiver::new(&sockets, 0..2, clients, datagrams, &live).expect("a poll of two flows");
        receiver.look(&Interrupt::default()).expect("open sockets");
        while !receiver.ready.is_empty() {
            receiver.look(&Interrupt::default()).expect("open sockets");
        }
        (receiver.replies, before, delivered)
    }

    fn reply_to(request: Header) -> Vec<u8> {
        Header { kind: Kind::Reply, ..request }.emit().to_vec()
    }

    // Is the time until our own thread reads left out of latencies? Method: replies that wait for
    // 200 ms in our sockets.
    #[test]
    fn a_reply_came_when_the_kernel_had_it() {
        let (replies, before, delivered) = heard(|_, request| vec![reply_to(request)]);
        assert_eq!((replies.heard, replies.foreign), (2, 0));
        // Two clocks are read one after the other, and a thread may lose its CPU in between.
        let slack = Nanos::from_millis(100);
        for reply in replies.last.iter().flatten() {
            assert!(
                reply.at.plus(slack) >= before && reply.at <= delivered.plus(slack),
                "{reply:?}: {before}, {delivered}"
            );
        }
    }

    // Method: for each reason a datagram that is wrong in nothing else, beside a good reply and its
    // duplicate.
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
                reply_to(Header { stamp: SESSION + 256, ..request }),
                b"no bench protocol".to_vec(),
                Vec::new(),
            ]
        });
        assert_eq!(replies.last.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!((replies.duplicates, replies.foreign, replies.heard), (2, 18, 22));
    }

    // Does a sender that receives between its sends also send retries there, and no more than are
    // due? Method: two requests were sent, of which one has timed out and the other is to wait for
    // ever.
    #[test]
    fn a_look_sends_the_retries_that_are_due() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let sockets = flows::open(server.local_addr().expect("an address"), 1, None).expect("one flow");
        let start = clock::now();
        let ever = Nanos::from_secs(1_000_000);
        let schedule = [Nanos::ZERO, ever].map(|at| Request { at, cost: Nanos::new(1), flow: 0, class: 0 });
        let live = Live::default();
        (0..2).for_each(|_| live.count_sent());
        let retrying = Retrying { max: 1, backoff: Nanos::ZERO };
        let clients = Clients::new(&schedule, retrying, 1, start, Nanos::ZERO, Nanos::new(1));
        let datagrams = test_datagrams(SESSION);
        let mut receiver = Receiver::new(&sockets, 0..1, clients, datagrams, &live).expect("a poll of one flow");
        receiver.look(&Interrupt::default()).expect("an open socket");
        assert_eq!(receiver.replies.taken, 1);
    }
}
