//! A datagram as its handler sees it: when it has arrived, what the handler says of it then, and as
//! a request.

use crate::fate::{Fate, Malformed, Refused};
use crate::time::{Nanos, clock};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    bytes: &'a [u8],
    peer: SocketAddr,
    local: SocketAddr,
    arrived_at: Nanos,
}

impl<'a> Arrival<'a> {
    /// A datagram; for tests of handlers, too.
    pub fn new(bytes: &'a [u8], peer: SocketAddr, local: SocketAddr, arrived_at: Nanos) -> Arrival<'a> {
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

    /// An identity for [`Admitted::identity`], of what the source of the datagram calls `name`: its
    /// number for the request, or all of the bytes.
    // Apart from the way of requests that have no identity.
    #[inline(never)]
    pub fn identity(&self, name: impl Hash) -> u64 {
        // Keyed: no other source can make an identity that is in use.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // An address of IPv4 and its port are one word to hash.
        match self.peer {
            SocketAddr::V4(peer) => {
                KEYS.hash_one((u64::from(peer.ip().to_bits()) << 16 | u64::from(peer.port()), name))
            }
            SocketAddr::V6(peer) => KEYS.hash_one((peer, name)),
        }
    }

    /// When the datagram came to the socket, by the kernel's receive stamp, on the clock of
    /// [`clock::now`].
    pub fn arrived_at(&self) -> Nanos {
        self.arrived_at
    }

    /// When the datagram came to the socket, as a time of day: for protocols that send it, such as
    /// NTP.
    pub fn time_of_arrival(&self) -> SystemTime {
        UNIX_EPOCH + clock::realtime().minus(clock::now().minus(self.arrived_at)).into()
    }
}

/// A request to be served, as [`Handler::admit`](super::Handler::admit) describes it.
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
    pub(crate) shard: Option<Shard>,
    pub(crate) identity: Option<u64>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) cost: Option<Nanos>,
    pub(crate) reply_limit: Option<usize>,
    pub(crate) validated: bool,
}

impl<T> Admitted<T> {
    /// A request of class 0, without a deadline, whose reply is at most as long as itself.
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

    /// The class, below [`CLASSES`](crate::fate::CLASSES); larger numbers count as the largest. It
    /// labels metrics; a policy sees it only under `--classify header`.
    pub fn class(self, class: u8) -> Admitted<T> {
        Admitted { class, ..self }
    }

    /// The flow of the request, by a key that the handler makes: a connection ID, an account, a
    /// hash of either. Under every policy one request of a flow is served at a time, in the order
    /// of their admission. The next one begins after its end, however it ends. A request that
    /// waits, or gives way to others, has not ended. Requests without a flow, and those of
    /// different flows, are served independently of one another.
    ///
    /// A request whose flow is busy is set aside, where it keeps a packet and no worker; its
    /// deadline and `--max-wait` count meanwhile. There is room for 64 requests of one flow,
    /// and for 288 of all flows for each worker; what has no room ends as `shed_queue_full`.
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
        Admitted { shard: Some(Shard::Of(key)), ..self }
    }

    /// The number of the request's shard, modulo the number of shards of the
    /// [`Service`](super::Service). This is for protocols whose keys carry the number, as
    /// connection IDs of QUIC can. Clients choose the shard then; where they must not, name the
    /// [flow](Admitted::flow).
    pub fn shard(self, number: u32) -> Admitted<T> {
        Admitted { shard: Some(Shard::Number(number)), ..self }
    }

    /// The identity of the request. While one request is in the server, others with its identity
    /// are dropped and end as `duplicate`. The answer to the first is for all of them. Without an
    /// identity equal requests are different ones: two payments are two.
    ///
    /// An identity is a key as good as random, such as [`Arrival::identity`] makes. A full table
    /// lets repeats pass; [`Once`](super::Once) also answers those that come later.
    pub fn identity(self, key: u64) -> Admitted<T> {
        Admitted { identity: Some(key), ..self }
    }

    /// How long after the arrival of the request the answer is still worth something.
    pub fn deadline(self, after: Nanos) -> Admitted<T> {
        Admitted { deadline: Some(after), ..self }
    }

    /// CPU time that the request is expected to take: with a deadline, a request that could not end
    /// in time does not begin. Half of the deadline is for waiting: a request that has waited for
    /// less begins all the same. Without a cost, the measured service times are the expectation.
    pub fn cost(self, expected: Nanos) -> Admitted<T> {
        Admitted { cost: Some(expected), ..self }
    }

    /// The longest reply, in bytes, also where that is more than the request has; `--datagram-max`
    /// is the bound. `--amplification` bounds what goes to an address that is not
    /// [validated](Admitted::validated). Such a reply may have [less room](super::Reply::room), but
    /// never less than the request has bytes.
    pub fn reply_limit(self, bytes: usize) -> Admitted<T> {
        Admitted { reply_limit: Some(bytes), ..self }
    }

    /// Whether the request proves that its source address is not forged, as a cookie does that only
    /// the owner of the address can have received.
    pub fn validated(self, validated: bool) -> Admitted<T> {
        Admitted { validated, ..self }
    }
}

/// How a request names its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shard {
    /// By the key of its flow.
    Of(u64),
    /// By its number, modulo the number of shards.
    Number(u32),
}

/// Why a datagram is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected<T = ()> {
    /// Not a request of this protocol: counted by reason, never answered.
    Malformed(Malformed),
    /// A request, but not one to serve: answered through
    /// [`Handler::refuse`](super::Handler::refuse), with
    /// [`Status::Refused`](crate::fate::Status::Refused).
    Refused(Admitted<T>, Refused),
    /// A request whose sender is over its rate: answered through
    /// [`Handler::refuse`](super::Handler::refuse), with
    /// [`Status::ShedRate`](crate::fate::Status::ShedRate).
    OverRate(Admitted<T>),
    /// A request that is neither served nor answered.
    Ignored,
    /// Any of these for a reason of the handler's own; [`Rejected::because`] makes it.
    Because(Because<T>),
}

impl<T> Rejected<T> {
    /// The same rejection, counted under a reason of the handler's own in place of the server's:
    /// `reason` is the place of its name in
    /// [`Handler::REASON_NAMES`](super::Handler::REASON_NAMES). Where no name has that place, the
    /// rejection counts without a reason, or as `other`.
    ///
    /// ```
    /// use forebay::fate::Malformed;
    /// use forebay::handler::Rejected;
    ///
    /// let rejected: Rejected = Rejected::Malformed(Malformed::Other).because(0);
    /// # let _ = rejected;
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

/// A rejection for a reason of the handler's own: see [`Rejected::because`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Because<T = ()> {
    pub(crate) fate: Fate,
    pub(crate) admitted: Option<Admitted<T>>,
    pub(crate) reason: u8,
}

/// A request that was admitted: the [`Arrival`] that it came as, and what its handler said of it.
#[derive(Debug)]
pub struct Request<'a, T = ()> {
    pub(crate) arrival: Arrival<'a>,
    pub(crate) ticket: &'a T,
    pub(crate) class: u8,
    pub(crate) expires_at: Option<Nanos>,
    pub(crate) worker: usize,
}

// Not derived: a request is a reference, whatever its ticket is.
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
    /// A request of class 0 without a deadline, on worker 0; for tests of handlers, too.
    pub fn new(arrival: &Arrival<'a>, ticket: &'a T) -> Request<'a, T> {
        Request { arrival: *arrival, ticket, class: 0, expires_at: None, worker: 0 }
    }

    /// When the answer becomes worthless, on the clock of [`clock::now`](crate::time::clock::now);
    /// `None` without a deadline.
    pub fn expires_at(&self) -> Option<Nanos> {
        self.expires_at
    }

    /// The class that [`Handler::admit`](super::Handler::admit) put the request into.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// The worker on which the request began, counted from 0: for memory of the handler's own that
    /// workers do not contend for. After a checkpoint the request may be on another one.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The ticket that [`Handler::admit`](super::Handler::admit) gave the request.
    pub fn ticket(&self) -> &'a T {
        self.ticket
    }
}
