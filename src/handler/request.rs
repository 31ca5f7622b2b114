//! A datagram at its arrival, the handler's decision to admit or reject it, and the request that it
//! becomes.

use crate::fate::{Fate, Malformed, Refused};
use crate::shards::Name;
use crate::time::{Nanos, clock};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A datagram that has arrived and is not admitted yet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    bytes: &'a [u8],
    peer: SocketAddr,
    local: SocketAddr,
    arrived_at: Nanos,
}

impl<'a> Arrival<'a> {
    /// A datagram from `peer` to `local`, for tests of handlers.
    pub fn new(bytes: &'a [u8], peer: SocketAddr, local: SocketAddr, arrived_at: Instant) -> Arrival<'a> {
        Arrival { bytes, peer, local, arrived_at: clock::at(arrived_at) }
    }

    /// A datagram that came at a time of the clock.
    #[inline]
    pub(crate) fn at(bytes: &'a [u8], peer: SocketAddr, local: SocketAddr, arrived_at: Nanos) -> Arrival<'a> {
        Arrival { bytes, peer, local, arrived_at }
    }

    /// The datagram, at most `--datagram-max` bytes long.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The source address of the datagram.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address that the datagram was sent to; the reply leaves from it.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Makes a key for [`Admitted::identity`] from the datagram's source and `name`: the client's
    /// number for the request, or all of its bytes.
    // Not inlined: requests without an identity should not carry this code.
    #[inline(never)]
    pub fn identity(&self, name: impl Hash) -> u64 {
        // Keyed at random, so that no other source can forge an identity in use.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // An IPv4 address and its port fit into one word, which is faster to hash.
        match self.peer {
            SocketAddr::V4(peer) => {
                KEYS.hash_one((u64::from(peer.ip().to_bits()) << 16 | u64::from(peer.port()), name))
            }
            SocketAddr::V6(peer) => KEYS.hash_one((peer, name)),
        }
    }

    /// When the datagram reached the socket, by the kernel's receive stamp.
    pub fn arrived_at(&self) -> Instant {
        clock::instant(self.arrived_at)
    }

    /// When the datagram reached the socket, as wall-clock time, for protocols such as NTP that
    /// send it.
    pub fn time_of_arrival(&self) -> SystemTime {
        UNIX_EPOCH + clock::realtime().minus(clock::now().minus(self.arrived_at)).into()
    }
}

/// The decision of [`Handler::admit`](super::Handler::admit) to serve a request, and the request's
/// properties.
///
/// ```
/// use forebay::handler::Admitted;
/// use forebay::time::Nanos;
///
/// let admitted = Admitted::new(7_u16).class(1).deadline(Nanos::from_millis(50)).reply_limit(1_232);
/// # let _ = admitted;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Admitted<T = ()> {
    pub(crate) ticket: T,
    pub(crate) class: u8,
    pub(crate) shard: Option<Name>,
    pub(crate) identity: Option<u64>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) cost: Option<Nanos>,
    pub(crate) reply_limit: Option<usize>,
    pub(crate) validated: bool,
}

impl<T> Admitted<T> {
    /// A request of class 0 without a deadline, whose reply is no longer than the request.
    pub fn new(ticket: T) -> Admitted<T> {
        Admitted {
            ticket,
            class: 0,
            shard: None,
            identity: None,
            deadline: None,
            cost: None,
            reply_limit: None,
            validated: false,
        }
    }

    /// Sets the class, below [`CLASSES`](crate::fate::CLASSES); larger numbers count as the
    /// largest. It labels metrics. A policy uses it only with `--classify header`.
    pub fn class(self, class: u8) -> Admitted<T> {
        Admitted { class, ..self }
    }

    /// Puts the request into a flow: the server serves one request of a flow at a time, in the
    /// order of admission, under every policy. The key may be a connection ID, an account, or a
    /// hash of either. The next request begins when this one has ended in any way. Waiting or
    /// yielding is not an end. Requests of a [`Handler`](super::Handler) without a flow are
    /// independent. Flows whose keys hash to the same shard take turns as one.
    ///
    /// A request whose flow is busy is set aside: it keeps a packet but no worker, and its deadline
    /// and `--max-wait` still count. There is room for 64 requests of one flow, or for
    /// [`Service::ROOM`](super::Service::ROOM). With the default `--room` there is room for 288 per
    /// worker over all flows. A request without room ends as
    /// `shed_queue_full`.
    ///
    /// ```
    /// use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request};
    ///
    /// /// The first eight bytes of a request are the ID of its connection.
    /// struct Sessions;
    ///
    /// impl Handler for Sessions {
    ///     type Ticket = ();
    ///
    ///     fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
    ///         let Some((id, _)) = arrival.bytes().split_first_chunk() else { return Err(Rejected::Ignored) };
    ///         Ok(Admitted::new(()).flow(u64::from_be_bytes(*id)))
    ///     }
    ///
    ///     async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {
    ///         // No other request of this connection is in here.
    ///     }
    /// }
    /// ```
    pub fn flow(self, key: u64) -> Admitted<T> {
        Admitted { shard: Some(Name::Of(key)), ..self }
    }

    /// Names the shard of a [`Service`](super::Service) that the request belongs to: `number`
    /// modulo the number of shards. For protocols whose keys contain the shard, as connection IDs
    /// of QUIC can. Clients then choose their shard. If they must not, use [`Admitted::flow`].
    pub fn shard(self, number: u32) -> Admitted<T> {
        Admitted { shard: Some(Name::Number(number)), ..self }
    }

    /// Lets a request of a [`Service`](super::Service) take no turns, unless it has a flow or a
    /// shard. It then runs beside all others, as the requests of a [`Handler`](super::Handler) do.
    /// Its state is its own, and [`Service::shard`](super::Service::shard) makes it.
    /// [`Out`](super::Out) has no timers then, and begins nothing. For services that also serve a
    /// protocol without sessions.
    pub fn alone(self) -> Admitted<T> {
        Admitted { shard: self.shard.or(Some(Name::Alone)), ..self }
    }

    /// Replaces the ticket, for wrappers.
    pub fn with_ticket<U>(self, ticket: impl FnOnce(T) -> U) -> Admitted<U> {
        let Admitted { ticket: old, class, shard, identity, deadline, cost, reply_limit, validated } = self;
        Admitted { ticket: ticket(old), class, shard, identity, deadline, cost, reply_limit, validated }
    }

    /// Sets the identity of the request. While the server holds a request, it drops others with the
    /// same identity, which end as `duplicate`: the client gets one answer. Requests without an
    /// identity are all served, even if they are equal: two equal payments are two.
    ///
    /// The key must be as good as random, like those of [`Arrival::identity`]. While the table of
    /// identities is full, the server serves repeats too. [`Once`](super::Once) also answers
    /// repeats that come after the answer.
    pub fn identity(self, key: u64) -> Admitted<T> {
        Admitted { identity: Some(key), ..self }
    }

    /// Sets the deadline: the time after arrival from which the answer is worthless.
    pub fn deadline(self, after: impl Into<Nanos>) -> Admitted<T> {
        Admitted { deadline: Some(after.into()), ..self }
    }

    /// Sets the expected CPU time. Once a request has waited for half of its deadline, the server
    /// begins it only if it can end in time. Without an expected CPU time, the server uses measured
    /// service times.
    pub fn cost(self, expected: impl Into<Nanos>) -> Admitted<T> {
        Admitted { cost: Some(expected.into()), ..self }
    }

    /// Sets the longest reply in bytes, which may be longer than the request, up to
    /// `--datagram-max`. `--amplification` limits what an address that is not
    /// [validated](Admitted::validated) gets. So a reply may have [less room](super::Reply::room),
    /// but never less than the request's length.
    pub fn reply_limit(self, bytes: usize) -> Admitted<T> {
        Admitted { reply_limit: Some(bytes), ..self }
    }

    /// States whether the request proves that its source address is genuine. A proof is a cookie
    /// that only the owner of the address can have received.
    pub fn validated(self, validated: bool) -> Admitted<T> {
        Admitted { validated, ..self }
    }
}

/// Why a datagram is not served, and whether its client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected<T = ()> {
    /// The datagram is not a request of this protocol. Counted by reason, never answered.
    Malformed(Malformed),
    /// A request that the handler does not serve. [`Handler::refuse`](super::Handler::refuse)
    /// answers it with [`Status::Refused`](crate::fate::Status::Refused).
    Refused(Admitted<T>, Refused),
    /// A request whose sender exceeds its rate. [`Handler::refuse`](super::Handler::refuse) answers
    /// it with [`Status::ShedRate`](crate::fate::Status::ShedRate).
    OverRate(Admitted<T>),
    /// A request that is neither served nor answered.
    Ignored,
    /// One of the other variants, counted under a reason of the handler's own; see
    /// [`Rejected::because`].
    Because(Because<T>),
}

impl<T> Rejected<T> {
    /// Counts this rejection under a reason of the handler's own. `reason` is an index into
    /// [`Handler::REASON_NAMES`](super::Handler::REASON_NAMES). With an index out of range, the
    /// rejection counts as `other`, or without a reason. `/metrics` shows the reason as a label of
    /// `forebay_datagrams_total`, `/latency` in `own_reasons`.
    ///
    /// ```
    /// use forebay::fate::Malformed;
    /// use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request};
    ///
    /// const OPCODE: u8 = 0;
    /// const NETWORK: u8 = 1;
    ///
    /// struct Lookup;
    ///
    /// impl Handler for Lookup {
    ///     type Ticket = ();
    ///
    ///     const REASON_NAMES: &'static [&'static str] = &["opcode", "network"];
    ///
    ///     fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
    ///         match arrival.bytes() {
    ///             _ if arrival.peer().ip().is_multicast() => Err(Rejected::Ignored.because(NETWORK)),
    ///             [1, ..] => Ok(Admitted::default()),
    ///             _ => Err(Rejected::Malformed(Malformed::Other).because(OPCODE)),
    ///         }
    ///     }
    ///
    ///     async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {}
    /// }
    /// ```
    pub fn because(self, reason: u8) -> Rejected<T> {
        let (fate, admitted) = match self {
            Rejected::Malformed(_) => (Fate::Malformed, None),
            Rejected::Refused(admitted, _) => (Fate::Refused, Some(admitted)),
            Rejected::OverRate(admitted) => (Fate::ShedRate, Some(admitted)),
            Rejected::Ignored => (Fate::Ignored, None),
            Rejected::Because(because) => (because.fate, because.admitted),
        };
        Rejected::Because(Because { fate, admitted, reason })
    }
}

impl<T> Rejected<T> {
    /// Replaces the ticket, for wrappers.
    pub fn with_ticket<U>(self, ticket: impl FnOnce(T) -> U) -> Rejected<U> {
        match self {
            Rejected::Malformed(reason) => Rejected::Malformed(reason),
            Rejected::Refused(admitted, reason) => Rejected::Refused(admitted.with_ticket(ticket), reason),
            Rejected::OverRate(admitted) => Rejected::OverRate(admitted.with_ticket(ticket)),
            Rejected::Ignored => Rejected::Ignored,
            Rejected::Because(Because { fate, admitted, reason }) => {
                let admitted = admitted.map(|admitted| admitted.with_ticket(ticket));
                Rejected::Because(Because { fate, admitted, reason })
            }
        }
    }
}

/// A rejection for a reason of the handler's own: see [`Rejected::because`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Because<T = ()> {
    pub(crate) fate: Fate,
    pub(crate) admitted: Option<Admitted<T>>,
    pub(crate) reason: u8,
}

/// A request that was admitted: its [`Arrival`], and the properties that
/// [`Handler::admit`](super::Handler::admit) gave it.
#[derive(Debug)]
pub struct Request<'a, T = ()> {
    pub(crate) arrival: Arrival<'a>,
    pub(crate) segment: u16,
    pub(crate) ecn: u8,
    pub(crate) ticket: &'a T,
    pub(crate) class: u8,
    pub(crate) expires_at: Option<Nanos>,
    pub(crate) worker: u16,
}

// Not derived: that would require the ticket to be `Copy`.
impl<T> Clone for Request<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Request<'_, T> {}

impl<'a, T> Deref for Request<'a, T> {
    type Target = Arrival<'a>;

    fn deref(&self) -> &Arrival<'a> {
        &self.arrival
    }
}

impl<'a, T> Request<'a, T> {
    /// A request of class 0 without a deadline, on worker 0; also for tests of handlers.
    pub fn new(arrival: &Arrival<'a>, ticket: &'a T) -> Request<'a, T> {
        Request { arrival: *arrival, segment: 0, ecn: 0, ticket, class: 0, expires_at: None, worker: 0 }
    }

    /// The datagrams of the request: several only if [`Service::joins`](super::Service::joins)
    /// joined them.
    pub fn segments(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, T> {
        let bytes = self.arrival.bytes();
        bytes.chunks(if self.segment > 0 { self.segment.into() } else { bytes.len().max(1) })
    }

    /// The ECN bits of the IP header (RFC 3168): 0 none, 1 ECT(1), 2 ECT(0), 3 CE (congestion
    /// experienced). Always 0 unless the service is
    /// a [transport protocol](super::Service::TRANSPORT).
    pub fn ecn(&self) -> u8 {
        self.ecn
    }

    /// When the answer becomes worthless; `None` = no deadline.
    pub fn expires_at(&self) -> Option<Instant> {
        self.expires_at.map(clock::instant)
    }

    /// The class that [`Handler::admit`](super::Handler::admit) put the request into.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// The number of the worker that began the request, from 0. Handlers use it to give each worker
    /// memory of its own, without contention. After a checkpoint, another worker may run the
    /// request.
    pub fn worker(&self) -> usize {
        self.worker.into()
    }

    /// The ticket that [`Handler::admit`](super::Handler::admit) gave the request.
    pub fn ticket(&self) -> &'a T {
        self.ticket
    }

    /// The same request with another ticket, for wrappers.
    pub fn with_ticket<U>(self, ticket: &'a U) -> Request<'a, U> {
        let Request { arrival, segment, ecn, ticket: _, class, expires_at, worker } = self;
        Request { arrival, segment, ecn, ticket, class, expires_at, worker }
    }
}
