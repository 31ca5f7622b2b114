//! Sends a batch of messages, with a result for each. Messages to one peer go to the kernel as a
//! GSO batch.
//!
//! The kernel passes a GSO batch through its layers as one packet, and segments it at the end
//! (`UDP_SEGMENT`). All messages of a GSO batch have the same length; only the last may be shorter.
//! Messages to one peer keep their order. Messages to different peers may overtake each other.

mod batched;

use super::io::SEND_BATCH_MAX;
use super::socket::Socket;
use arrayvec::ArrayVec;
use batched::Batched;
use forebay_base::fate::Unsent;
use forebay_base::time::{Breaker, Nanos};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// The longest wait for room in a socket's send buffer. If nothing drains in this time, the device
/// is stuck, or the replies wait for neighbours that do not exist. So further batches do not wait
/// until the buffer has drained.
const PATIENCE: Nanos = Nanos::from_millis(1);

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The bytes to send.
    pub bytes: &'a [u8],
    /// The destination address.
    pub peer: SocketAddr,
    /// The source address; `None` if the socket has only one.
    pub local: Option<IpAddr>,
    /// The ECN bits of the IP header.
    pub ecn: u8,
}

/// For each message of a batch, in order: whether the kernel took it, or why not.
pub type Outcomes = ArrayVec<Result<(), Unsent>, SEND_BATCH_MAX>;

/// Sends batches through one socket, in memory that is reused.
pub(super) struct Sender<B = Batched> {
    /// Open for a minute after the device failed to segment a GSO batch; meanwhile GSO is not used.
    gso: Breaker,
    /// Whether the last wait for room in the send buffer timed out. Reset once the buffer has
    /// drained.
    stuck: bool,
    plan: GsoPlan,
    backend: B,
}

impl Sender {
    /// A sender for batches of at most [`SEND_BATCH_MAX`]. Without `ecn` it sets no ECN bits, and
    /// takes half of the memory.
    pub(super) fn new(ecn: bool) -> Sender {
        Sender::with(Batched::new(ecn))
    }
}

impl<B: Backend> Sender<B> {
    fn with(backend: B) -> Sender<B> {
        Sender { gso: Breaker::default(), stuck: false, plan: GsoPlan::new(), backend }
    }

    /// Makes the sending call with nothing to send.
    pub(super) fn try_nothing(&mut self, socket: &Socket) -> Result<(), Errno> {
        self.backend.probe(socket)
    }

    /// See [`Link::send`](super::Link::send).
    ///
    /// # Panics
    /// With more than [`SEND_BATCH_MAX`] messages.
    pub(super) fn send(&mut self, socket: &Socket, messages: &[Message<'_>], now: Nanos) -> Outcomes {
        assert!(messages.len() <= SEND_BATCH_MAX, "a batch has at most {SEND_BATCH_MAX} messages");
        let mut outcomes: Outcomes = messages.iter().map(|_| Ok(())).collect();
        let plan = &mut self.plan;
        plan.plan(messages, self.gso.allows(now));
        if self.stuck {
            self.stuck = !self.backend.wait(socket, Nanos::ZERO);
        }
        let (mut at, mut patient, mut excused) = (0, !self.stuck, None);
        // Each round sends a batch, splits one, or uses up a batch's only retry or this call's only
        // wait. So the loop ends, except that an interrupted call is repeated.
        while at < plan.batches.len() {
            let call = plan.call(at);
            // The kernel stops at the first batch that it does not take. It reports the error only
            // if this batch is the first of the call.
            match self.backend.send(socket, messages, plan, call) {
                Ok(taken) => {
                    assert!(taken > 0, "a backend takes a batch or says why not");
                    if call.segment.is_some() && self.gso.works() {
                        socket.without_gso.store(false, Ordering::Relaxed);
                    }
                    at += taken;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if patient => {
                    patient = false;
                    self.stuck = !self.backend.wait(socket, PATIENCE);
                }
                Err(errno) if excused != Some(at) && may_be_stale(errno) => excused = Some(at),
                Err(errno) if call.segment.is_some() => {
                    // EIO means that the device cannot segment. Other errors may concern a single
                    // message, or the segment length.
                    if errno == Errno::EIO && self.gso.fails(now) {
                        socket.without_gso.store(true, Ordering::Relaxed);
                    }
                    plan.split(at);
                }
                Err(errno) => {
                    let batch = &plan.batches[at];
                    plan.messages(batch).iter().for_each(|number| outcomes[*number] = Err(reason(errno)));
                    at += 1;
                }
            }
        }
        outcomes
    }
}

/// Whether the error may be the network's answer (ICMP) to an earlier message. The kernel keeps
/// this error at the socket, and reports it once instead of sending.
fn may_be_stale(errno: Errno) -> bool {
    use Errno::{ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, EMSGSIZE, ENETUNREACH, ENOPROTOOPT, EPROTO};
    matches!(errno, ECONNREFUSED | EHOSTDOWN | EHOSTUNREACH | EMSGSIZE | ENETUNREACH | ENOPROTOOPT | EPROTO)
}

fn reason(errno: Errno) -> Unsent {
    use Errno::{EACCES, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENOBUFS, ENOMEM, EPERM};
    match errno {
        Errno::EAGAIN => Unsent::BufferFull,
        ENOBUFS | ENOMEM => Unsent::QueueFull,
        Errno::EMSGSIZE => Unsent::TooLong,
        EPERM | EACCES => Unsent::Denied,
        EHOSTDOWN | EHOSTUNREACH | ENETDOWN | ENETUNREACH | Errno::ECONNREFUSED => Unsent::Unreachable,
        _ => Unsent::Other,
    }
}

/// The sending system calls: the kernel's, or scripted ones in tests.
pub(super) trait Backend {
    /// Sends the batches of `call`. Returns how many of them the kernel took, at least one.
    ///
    /// # Errors
    /// Why the kernel did not take the first batch.
    fn send(&mut self, socket: &Socket, messages: &[Message<'_>], plan: &GsoPlan, call: Call) -> Result<usize, Errno>;

    /// Makes the call without sending anything.
    ///
    /// # Errors
    /// Why the system does not permit the call.
    fn probe(&mut self, socket: &Socket) -> Result<(), Errno>;

    /// Waits until the send buffer has drained to a half, but at most for `patience`. Returns
    /// whether it has drained.
    fn wait(&mut self, socket: &Socket, patience: Nanos) -> bool {
        let timeout = PollTimeout::try_from(std::time::Duration::from(patience)).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        // The next attempt to send reports an error of this call.
        let _ = poll(&mut polled, timeout);
        polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLOUT))
    }
}

/// The most bytes of a GSO batch: it must fit one datagram of either family, with room for IPv4
/// options.
const GSO_MAX_BYTES: usize = 65_535 - 60 - 8;
/// The most messages of a GSO batch (`UDP_MAX_SEGMENTS`). Every kernel with GSO takes this many;
/// newer kernels take twice as many.
const GSO_SEGMENTS_MAX: usize = 64;

/// The plan for sending a batch of messages. Its memory is for the longest batch, is reused, and is
/// never moved.
pub(super) struct GsoPlan {
    /// Indices of the messages; those of one batch are adjacent.
    order: Vec<usize>,
    /// The batches, in the order of sending.
    batches: Vec<GsoBatch>,
    keys: Vec<u64>,
}

/// Messages to one peer that the kernel takes together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GsoBatch {
    /// The range of this batch's messages in `order`.
    places: Range<usize>,
    /// The segment length: the length of each message, except that the last may be shorter.
    length: usize,
    local: Option<IpAddr>,
    ecn: u8,
    /// Whether the batch must not be in a call with a segment length.
    plain: bool,
}

impl GsoPlan {
    /// An empty plan with memory for [`SEND_BATCH_MAX`] messages.
    fn new() -> GsoPlan {
        let (order, batches) = (Vec::with_capacity(SEND_BATCH_MAX), Vec::with_capacity(SEND_BATCH_MAX));
        GsoPlan { order, batches, keys: Vec::with_capacity(SEND_BATCH_MAX) }
    }

    /// Joins the messages to each peer into GSO batches, even across messages to other peers.
    /// Without `gso`, each message is a batch of its own.
    fn plan(&mut self, messages: &[Message<'_>], gso: bool) {
        self.order.clear();
        self.batches.clear();
        self.keys.clear();
        let end = if gso { messages.len() } else { 0 };
        self.keys.extend(messages.iter().map(|message| key(message.peer)));
        let mut taken = [false; SEND_BATCH_MAX];
        for (start, message) in messages.iter().enumerate() {
            if taken[start] {
                continue;
            }
            let first = self.order.len();
            self.order.push(start);
            let length = message.bytes.len();
            let mut bytes = length;
            for next in start + 1..end {
                if self.keys[next] != self.keys[start] || taken[next] || messages[next].peer != message.peer {
                    continue;
                }
                let candidate = &messages[next];
                bytes += candidate.bytes.len();
                let fits = candidate.bytes.len() <= length && bytes <= GSO_MAX_BYTES;
                let is_alike = candidate.local == message.local && candidate.ecn == message.ecn;
                if !fits || !is_alike || candidate.bytes.is_empty() {
                    // The loop stops here, because a later message to this peer must not overtake
                    // this one.
                    break;
                }
                taken[next] = true;
                self.order.push(next);
                if candidate.bytes.len() < length || self.order.len() - first == GSO_SEGMENTS_MAX {
                    break;
                }
            }
            let places = first..self.order.len();
            self.batches.push(GsoBatch { places, length, local: message.local, ecn: message.ecn, plain: false });
        }
    }

    /// The indices of the messages in `batch`.
    fn messages(&self, batch: &GsoBatch) -> &[usize] {
        &self.order[batch.places.clone()]
    }

    /// Splits batch `at` into single messages, and keeps these out of calls with a segment length.
    fn split(&mut self, at: usize) {
        let batch = self.batches.remove(at);
        for place in batch.places.rev() {
            self.batches.insert(at, GsoBatch { places: place..place + 1, plain: true, ..batch });
        }
    }

    /// Plans a system call for the batches from number `at` on: how many it can send together, and
    /// the segment length.
    fn call(&self, at: usize) -> Call {
        let first = &self.batches[at];
        let mut call = Call { first: at, count: 0, local: first.local, ecn: first.ecn, segment: None };
        let (mut longest, mut plain) = (0, false);
        for batch in &self.batches[at..] {
            let segment = if batch.places.len() > 1 { Some(batch.length) } else { call.segment };
            longest = longest.max(batch.length);
            plain |= batch.plain;
            // The segment length holds for the whole call. It leaves a single message whole that is
            // not longer.
            let cuts_others = call.segment.is_some() && segment != call.segment;
            let cuts_these = segment.is_some_and(|segment| plain || longest > segment);
            if batch.local != call.local || batch.ecn != call.ecn || cuts_others || cuts_these {
                break;
            }
            call.segment = segment;
            call.count += 1;
        }
        call
    }
}

/// What the batches of one call have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Index of the call's first batch.
    first: usize,
    /// Number of batches in the call.
    count: usize,
    /// The source address; `None` if the socket has only one.
    local: Option<IpAddr>,
    /// The ECN bits.
    ecn: u8,
    /// The segment length; `None` without GSO batches.
    segment: Option<usize>,
}

/// A hash of `peer`. It is compared before the address, because that is cheaper.
fn key(peer: SocketAddr) -> u64 {
    let address = match peer.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        IpAddr::V6(ip) => {
            let ip = u128::from(ip);
            (ip >> 64) as u64 ^ ip as u64
        }
    };
    address << 16 ^ u64::from(peer.port())
}

#[cfg(test)]
mod tests;
