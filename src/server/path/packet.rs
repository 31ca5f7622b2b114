//! Packets: the memory a request lives in, made at start and pooled.
//!
//! Request and reply bytes are separate areas, so a handler reads one while it writes the other. The [`Envelope`] is
//! `Copy` and is also kept beside a running handler: after a panic, when the packet is gone, the server still has the
//! address to answer.

use crate::fate::DATAGRAM_MAX_BYTES;
use crate::handler::{Handler, Reply, Request, Ticket};
use crate::queue::Pooled;
use crate::time::Nanos;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A packet in use.
pub(crate) type Packet<'d> = Pooled<'d, PacketBody>;

/// The contents of a packet.
pub(crate) struct PacketBody {
    /// Sender, times and state of the request.
    pub envelope: Envelope,
    /// The datagram as received; the first [`Envelope::request_len`] bytes count.
    pub request: [u8; DATAGRAM_MAX_BYTES],
    /// The answer; the first [`PacketBody::reply_len`] bytes count.
    pub reply: [u8; DATAGRAM_MAX_BYTES],
    /// Length of the answer; never more than that of the request.
    pub reply_len: usize,
    /// True if the handler wrote more than there was room for, so that there is no answer to send.
    pub overflowed: bool,
}

impl PacketBody {
    /// An empty packet.
    pub(crate) fn new() -> PacketBody {
        PacketBody {
            envelope: Envelope::default(),
            request: [0; DATAGRAM_MAX_BYTES],
            reply: [0; DATAGRAM_MAX_BYTES],
            reply_len: 0,
            overflowed: false,
        }
    }

    /// The answer's bytes.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply[..self.reply_len]
    }
}

impl Default for PacketBody {
    fn default() -> PacketBody {
        PacketBody::new()
    }
}

/// The server's record of a request: where the answer goes, how, and where its time went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    /// The sender.
    pub peer: SocketAddr,
    /// The address the request came to, where the socket cannot tell by itself (wildcard binds): the reply leaves from
    /// it.
    pub local: Option<IpAddr>,
    /// The handler's information about the request at admission.
    pub ticket: Ticket,
    /// Length of the request.
    pub request_len: usize,
    /// Monotonic time of the batch that received it.
    pub received_at: Nanos,
    /// Time the request waited in the socket before that batch.
    pub kernel_wait: Nanos,
    /// Monotonic time after which the answer is worthless; [`Nanos::MAX`] = never.
    pub expires_at: Nanos,
    /// Monotonic time from which on the request must be looked at before it begins, or resumes from a queue: it is old
    /// then, or too late. [`Nanos::MAX`] = never, and while it runs.
    pub start_by: Nanos,
    /// Whether the request has come out of a queue of continuations. Then it is not shed any more for having waited: what
    /// was done of it would be lost.
    pub resumed: bool,
    /// Requests that were in queues of continuations when it first went into one.
    pub behind: usize,
    /// The worker to whose socket the request came.
    pub socket: u16,
    /// Monotonic time since which the request has been ready to run: its arrival, or when it was last put into a queue.
    pub ready_at: Nanos,
    /// Time in the handler so far.
    pub service: Nanos,
    /// The number of times the request has changed pool, saturating.
    pub hops: u8,
}

impl Envelope {
    /// Monotonic time at which the request came to the socket, as far as that is known.
    pub(crate) fn arrived_at(&self) -> Nanos {
        self.received_at.minus(self.kernel_wait)
    }
}

impl Default for Envelope {
    fn default() -> Envelope {
        Envelope {
            peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            local: None,
            ticket: Ticket::default(),
            request_len: 0,
            received_at: Nanos::ZERO,
            kernel_wait: Nanos::ZERO,
            expires_at: Nanos::MAX,
            start_by: Nanos::MAX,
            resumed: false,
            behind: 0,
            socket: 0,
            ready_at: Nanos::ZERO,
            service: Nanos::ZERO,
            hops: 0,
        }
    }
}

/// Runs `handler` on `packet`. The future owns the packet, so that the packet moves with it and returns to its pool if
/// the future is dropped half-way.
pub(crate) async fn drive<'d, H: Handler>(handler: &H, mut packet: Packet<'d>) -> Packet<'d> {
    let body = &mut *packet;
    let length = body.envelope.request_len;
    let request = Request::new(&body.request[..length], body.envelope.peer, body.envelope.ticket);
    let mut reply = Reply::new(&mut body.reply[..length]);
    handler.handle(request, &mut reply).await;
    (body.overflowed, body.reply_len) = (reply.has_overflowed(), reply.len());
    packet
}
