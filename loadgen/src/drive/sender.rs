//! The sender sends each request at its time, or as soon as possible after it. It records how late
//! each one was.

use crate::drive::live::Live;
use crate::drive::pacer::Pacer;
use crate::drive::schedule::Request;
use crate::interrupt::Interrupt;
use crate::profile::Datagrams;
use forebay::time::{Nanos, clock};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// The sender's record of a run.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// How late each attempted request was sent, in the order of the schedule. It is shorter than
    /// the schedule only after an interrupt.
    pub(crate) slips: Vec<Nanos>,
    /// For each request attempted, whether our kernel took it.
    pub(crate) taken: Vec<bool>,
    /// The number of requests that our kernel did not take, by its error.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The pacer that was used.
    pub(crate) pacer: Pacer,
    /// Time from the start of the schedule to the end of sending.
    pub(crate) took: Nanos,
}

/// Sends each request of a run for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// The requests of the run.
    pub(crate) schedule: &'a [Request],
    /// A socket for each flow.
    pub(crate) sockets: &'a [UdpSocket],
    /// The start of the schedule, on the monotonic clock.
    pub(crate) start: Nanos,
    /// Where sends are counted.
    pub(crate) live: &'a Live,
    /// What ends the run early.
    pub(crate) interrupt: &'a Interrupt,
}

/// The most requests that are sent after one look at the clock. At 4 us each, the last one leaves
/// 130 us later.
const DUE_MAX: usize = 32;

/// At a higher rate than one request in this time a schedule is dense. Then what is due together
/// leaves together, and a sleeping sender waits until several are due.
const DENSE: Nanos = Nanos::from_micros(10);

/// How long it waits for them. Otherwise it would never rest. The kernel stops a real-time thread
/// that does not rest for 50 ms of each second.
const GATHERING: Nanos = Nanos::from_micros(15);

/// The most bytes of a GSO batch: it must fit one datagram.
const GSO_BYTES_MAX: usize = 60_000;

/// What a sender keeps from batch to batch.
#[derive(Default)]
struct Batch {
    /// The requests that are due, by flow.
    due: Vec<usize>,
    /// The datagrams of one flow, one behind the other.
    bytes: Vec<u8>,
    /// Whether the schedule is not dense, or the kernel failed to segment a batch. Then each
    /// datagram is sent alone.
    is_gso_off: bool,
}

impl Sender<'_> {
    /// Sends all requests at the times for which `pacer`, this thread, waits. A pacer that
    /// alternates calls `between`. Returns early when interrupted.
    ///
    /// If the schedule is dense, requests of one flow that are due together leave in one call
    /// (GSO). The kernel handles them as one packet up to the receiver's socket, and counts them as
    /// one.
    pub(crate) fn send(self, pacer: Pacer, datagrams: Datagrams<'_>, mut between: impl FnMut()) -> Sent {
        let Sender { schedule, live, .. } = self;
        let (slips, taken) = (Vec::with_capacity(schedule.len()), Vec::with_capacity(schedule.len()));
        let mut sent = Sent { slips, taken, pacer, ..Sent::default() };
        let end = schedule.last().map_or(Nanos::ZERO, |last| last.at);
        let is_dense = end < DENSE.times(schedule.len() as u64);
        let mut batch = Batch { is_gso_off: !is_dense, ..Batch::default() };
        let gathering = if is_dense && pacer.sleeps() { GATHERING } else { Nanos::ZERO };
        while let Some(request) = schedule.get(sent.slips.len()) {
            let until = self.start.plus(request.at).plus(gathering);
            let due = pacer.wait_until(until, self.interrupt, &mut between);
            let Some(now) = due.filter(|_| !live.is_enough()) else {
                break;
            };
            let first = sent.slips.len();
            self.send_due(now, datagrams, &mut batch, &mut sent);
            // One look for each request: as many replies may have come meanwhile.
            (first + 1..sent.slips.len()).for_each(|_| between());
        }
        live.finish_sending();
        Sent { took: clock::now().minus(self.start), ..sent }
    }

    /// Sends the requests that are due at `now`.
    fn send_due(self, mut now: Nanos, datagrams: Datagrams<'_>, batch: &mut Batch, sent: &mut Sent) {
        let first = sent.slips.len();
        let is_due = |request: &&Request| self.start.plus(request.at) <= now;
        let count = self.schedule[first..].iter().take(DUE_MAX).take_while(is_due).count();
        sent.slips.resize(first + count, Nanos::ZERO);
        sent.taken.resize(first + count, true);
        // Counted before sending: a reply must never seem to come before its request. All are
        // counted, because flow by flow a later request leaves before an earlier one.
        (0..count).for_each(|_| self.live.count_sent());
        let flow = |id: usize| self.schedule[id].flow;
        let mut due = std::mem::take(&mut batch.due);
        due.clear();
        due.extend(first..first + count);
        due.sort_unstable_by_key(|id| (flow(*id), *id));
        for mut of_flow in due.chunk_by(|one, next| flow(*one) == flow(*next)) {
            while !of_flow.is_empty() {
                let equal = self.write_equal(of_flow, datagrams, &mut batch.bytes);
                self.send_equal(&of_flow[..equal], now, batch, sent);
                of_flow = &of_flow[equal..];
                now = clock::now();
            }
        }
        batch.due = due;
    }

    /// Writes the datagrams of the first of these requests of a flow that have equal lengths.
    /// Returns their number.
    fn write_equal(self, ids: &[usize], datagrams: Datagrams<'_>, bytes: &mut Vec<u8>) -> usize {
        bytes.clear();
        let mut length = 0;
        for (count, id) in ids.iter().enumerate() {
            let begin = bytes.len();
            datagrams.write(*id as u64, 0, &self.schedule[*id], bytes);
            if count == 0 {
                length = bytes.len();
            } else if bytes.len() - begin != length || bytes.len() > GSO_BYTES_MAX {
                bytes.truncate(begin);
                return count;
            }
        }
        ids.len()
    }

    /// Sends the written datagrams of these requests of a flow, from `now` on.
    fn send_equal(self, ids: &[usize], now: Nanos, batch: &mut Batch, sent: &mut Sent) {
        let Sender { schedule, live, .. } = self;
        let socket = &self.sockets[usize::from(schedule[ids[0]].flow)];
        let length = batch.bytes.len() / ids.len();
        for id in ids {
            sent.slips[*id] = now.minus(self.start.plus(schedule[*id].at));
        }
        if ids.len() > 1 && !batch.is_gso_off {
            match send_segmented(socket, &batch.bytes, length) {
                Ok(()) => return,
                // An earlier datagram's error, or a full buffer, says nothing about GSO.
                Err(Errno::ECONNREFUSED | Errno::EAGAIN) => {}
                Err(_) => batch.is_gso_off = true,
            }
        }
        for (place, id) in ids.iter().enumerate() {
            if let Err(error) = send_one(socket, &batch.bytes[place * length..][..length]) {
                sent.taken[*id] = false;
                live.count_unsendable();
                *sent.errors.entry(error.to_string()).or_default() += 1;
            }
        }
    }
}

/// Sends `bytes` as datagrams of this length.
///
/// # Errors
/// If our kernel takes none of them.
fn send_segmented(socket: &UdpSocket, bytes: &[u8], length: usize) -> Result<(), Errno> {
    let (parts, segment) = ([IoSlice::new(bytes)], length as u16);
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    sendmsg::<()>(socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), None).map(drop)
}

/// Sends one datagram.
///
/// # Errors
/// If our kernel does not take it.
pub(crate) fn send_one(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        // The error is the answer to an earlier datagram of this flow ("port unreachable"); this
        // one was not sent yet.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => socket.send(datagram).map(drop),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Common, Profile, Told, test_datagrams};
    use forebay::inside::wire::HEADER_BYTES;
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::sockopt::UdpGroSegment;
    use std::sync::Arc;

    // Is it recorded for each request whether the kernel took it? Method: of two flows one is not
    // connected, so nothing can be sent over it.
    #[test]
    fn what_the_kernel_did_not_take_is_told_apart() {
        let [server, connected, not] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        connected.connect(server.local_addr().expect("an address")).expect("connected");
        let request = |flow| Request { at: Nanos::ZERO, cost: Nanos::new(1), flow, class: 0 };
        let (live, interrupt) = (Live::default(), Interrupt::default());
        let flows = [0, 1, 1, 0];
        let (schedule, sockets) = (flows.map(request), [connected, not]);
        let sender =
            Sender { schedule: &schedule, sockets: &sockets, start: Nanos::ZERO, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Ordinary, test_datagrams(1), || {});
        assert_eq!((sent.slips.len(), sent.taken), (4, vec![true, false, false, true]));
        assert_eq!(sent.errors.values().sum::<u64>(), 2, "{:?}", sent.errors);
        assert_eq!(live.outstanding(), Some(2));
    }

    /// Datagrams that are the number of their request, of 8 bytes in class 0 and 12 in class 1.
    #[derive(Debug)]
    struct Numbers(Arc<Live>);

    impl Profile for Numbers {
        fn protocol(&self) -> &'static str {
            "numbers"
        }

        fn write(&self, _: Common, id: u64, _: u8, request: &Request, into: &mut Vec<u8>) {
            assert!(id < self.0.sent(), "{id} is not counted, so its reply would be foreign");
            into.extend(id.to_le_bytes());
            into.resize(into.len() + 4 * usize::from(request.class), 0);
        }

        fn read(&self, _: Common, _: &[u8]) -> Option<Told> {
            None
        }
    }

    // Do datagrams that are due together leave as one batch, if flow and length are equal? Does
    // each arrive once, and in the order of its flow, also if there is no GSO? Is each counted
    // before any leaves? Method: the server receives a batch as one.
    #[test]
    fn what_is_due_together_leaves_together() {
        for is_gso_off in [false, true] {
            let [server, one, other] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
            setsockopt(&server, UdpGroSegment, &true).expect("Linux has it");
            server.set_nonblocking(true).expect("a socket can");
            for flow in [&one, &other] {
                flow.connect(server.local_addr().expect("an address")).expect("connected");
            }
            let of = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 0), (1, 0), (0, 0)];
            let request = |(flow, class)| Request { at: Nanos::ZERO, cost: Nanos::new(1), flow, class };
            let (schedule, sockets) = (of.map(request), [one, other]);
            let (live, interrupt) = (Arc::new(Live::default()), Interrupt::default());
            let start = clock::now();
            let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
            let common = Common { session: 0, deadline_us: 0, may_repeat: false, kept: 0 };
            let datagrams = Datagrams { profile: &Numbers(Arc::clone(&live)), common, kept: &[], numbers: &[] };
            let (mut batch, mut sent) = (Batch { is_gso_off, ..Batch::default() }, Sent::default());
            sender.send_due(clock::now(), datagrams, &mut batch, &mut sent);
            let mut buffer = [0; 256];
            let mut received = Vec::new();
            while let Ok((bytes, _)) = server.recv_from(&mut buffer) {
                let length = if bytes == 12 { 12 } else { 8 };
                received.push(buffer[..bytes].chunks(length).map(|number| number[0]).collect::<Vec<_>>());
            }
            let batches: [&[u8]; 4] = [&[0, 1], &[3], &[4, 6], &[2, 5]];
            if is_gso_off {
                assert_eq!(received, batches.concat().iter().map(|id| vec![*id]).collect::<Vec<_>>());
            } else {
                assert_eq!(received, batches);
            }
            assert_eq!((sent.taken, live.taken(), batch.is_gso_off), (vec![true; 7], 7, is_gso_off));
        }
    }

    // Does a sender that is late and alone look for replies as often as it sends?
    #[test]
    fn a_late_sender_looks_as_often_as_it_sends() {
        let [server, flow] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        flow.connect(server.local_addr().expect("an address")).expect("connected");
        let (live, interrupt, mut looks) = (Live::default(), Interrupt::default(), 0);
        let schedule = [Request { at: Nanos::ZERO, cost: Nanos::new(1), flow: 0, class: 0 }; 100];
        let (start, sockets) = (clock::now(), [flow]);
        let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Alternating, test_datagrams(1), || looks += 1);
        assert_eq!((sent.slips.len(), looks), (100, 100));
    }

    // Is every request of a dense schedule sent once and recorded, and does a sender gather before
    // each batch? Within a batch slips decrease.
    #[test]
    fn a_dense_schedule_is_sent_whole() {
        let [server, flow] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        flow.connect(server.local_addr().expect("an address")).expect("connected");
        let (live, interrupt) = (Live::default(), Interrupt::default());
        let at = |number| Nanos::from_micros(2).times(number);
        let schedule: Vec<_> =
            (0..1_000).map(|number| Request { at: at(number), cost: Nanos::new(1), flow: 0, class: 0 }).collect();
        let (start, sockets) = (clock::now(), [flow]);
        let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Ordinary, test_datagrams(1), || {});
        assert_eq!((sent.slips.len(), live.taken(), sent.errors.len()), (1_000, 1_000, 0));
        let begins = |slips: &&[Nanos]| slips[0] < slips[1];
        let first = sent.slips.windows(2).filter(begins).map(|slips| slips[1]).min();
        assert!(sent.slips[0] >= GATHERING && first.is_none_or(|slip| slip >= GATHERING), "{first:?}");
    }

    // Is the lateness of each request recorded, and does each leave alone? Method: a schedule that
    // began 300 ms ago, whose last request is still to come.
    #[test]
    fn what_is_late_slips_by_as_much() {
        let [server, flow] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        flow.connect(server.local_addr().expect("an address")).expect("connected");
        setsockopt(&server, UdpGroSegment, &true).expect("Linux has it");
        let (live, interrupt) = (Live::default(), Interrupt::default());
        let ms = Nanos::from_millis;
        // The clock counts from its first reading; before that there is no past.
        clock::now();
        std::thread::sleep(ms(300).into());
        let start = clock::now().minus(ms(300));
        let schedule = [0, 100, 320].map(|at| Request { at: ms(at), cost: Nanos::new(1), flow: 0, class: 0 });
        let sockets = [flow];
        let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Ordinary, test_datagrams(1), || {});
        let over = clock::now().minus(start);
        for (slip, (least, at)) in sent.slips.iter().zip([(300, 0), (200, 100), (0, 320)]) {
            assert!(*slip >= ms(least) && slip.plus(ms(at)) <= over, "{:?}", sent.slips);
        }
        server.set_nonblocking(true).expect("a socket can");
        let lengths = [(); 3].map(|()| server.recv(&mut [0; 256]).expect("it was sent"));
        assert_eq!((sent.slips.len(), lengths), (3, [HEADER_BYTES; 3]));
    }
}
