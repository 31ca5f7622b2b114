//! How a datagram ends. Every received datagram ends in exactly one fate, or is still in flight.

use std::fmt;

/// The longest datagram a server receives: what an Ethernet frame carries and some room; more is
/// [`Malformed::Oversize`].
pub const DATAGRAM_MAX_BYTES: usize = 2_048;
/// Classes are numbered 0 to `CLASSES - 1`: enough for every standard workload, few enough for one label each.
pub const CLASSES: usize = 8;

/// Names of the classes, as metrics and reports show them.
pub const CLASS_NAMES: [&str; CLASSES] = ["short", "long", "class2", "class3", "class4", "class5", "class6", "class7"];

/// The end of a datagram that a server received. The names are those of `/latency` and of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fate {
    /// Served, and its reply handed to the kernel (or the handler chose not to reply).
    Answered,
    /// Not a request of the handler's protocol; the reason is a [`Malformed`].
    Malformed,
    /// Well-formed, but not served; the reason is a [`Refused`].
    Refused,
    /// A queue on its way was full.
    ShedQueueFull,
    /// Its deadline passed.
    ShedExpired,
    /// Its sender was over its rate.
    ShedRate,
    /// The server was stopping.
    ShedDraining,
    /// The handler did not come to a reply that can be sent; the reason is a [`Failed`].
    Failed,
    /// The handler's future stopped for a reason that the runtime cannot resume.
    Stalled,
    /// Served, but the kernel did not take the reply.
    Unsent,
}

impl Fate {
    /// Every fate, in the order of their numbers.
    pub const ALL: [Fate; 10] = [
        Fate::Answered,
        Fate::Malformed,
        Fate::Refused,
        Fate::ShedQueueFull,
        Fate::ShedExpired,
        Fate::ShedRate,
        Fate::ShedDraining,
        Fate::Failed,
        Fate::Stalled,
        Fate::Unsent,
    ];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::Malformed => "malformed",
            Fate::Refused => "refused",
            Fate::ShedQueueFull => "shed_queue_full",
            Fate::ShedExpired => "shed_expired",
            Fate::ShedRate => "shed_rate",
            Fate::ShedDraining => "shed_draining",
            Fate::Failed => "failed",
            Fate::Stalled => "stalled",
            Fate::Unsent => "unsent",
        }
    }

    /// What the client is told, `None` where it is told nothing.
    pub const fn status(self) -> Option<Status> {
        match self {
            Fate::Answered => Some(Status::Ok),
            Fate::Refused => Some(Status::Refused),
            Fate::ShedQueueFull => Some(Status::ShedQueueFull),
            Fate::ShedExpired => Some(Status::ShedExpired),
            Fate::ShedRate => Some(Status::ShedRate),
            Fate::ShedDraining => Some(Status::ShedDraining),
            Fate::Failed => Some(Status::Failed),
            Fate::Stalled => Some(Status::Stalled),
            Fate::Malformed | Fate::Unsent => None,
        }
    }
}

/// How a request ended, as its reply tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Served.
    Ok = 0,
    /// Well-formed, but not a request this server serves (cost above the cap, unknown class).
    Refused = 1,
    /// Not served: a queue on its way was full.
    ShedQueueFull = 2,
    /// Not served, or not to its end: its deadline had passed.
    ShedExpired = 3,
    /// Not served: its sender was over its rate.
    ShedRate = 4,
    /// Not served: the server was stopping.
    ShedDraining = 5,
    /// The handler panicked, or its reply did not fit.
    Failed = 6,
    /// The handler stopped for a reason that the runtime cannot resume.
    Stalled = 7,
}

impl Status {
    /// Every status, in the order of their numbers.
    pub const ALL: [Status; 8] = [
        Status::Ok,
        Status::Refused,
        Status::ShedQueueFull,
        Status::ShedExpired,
        Status::ShedRate,
        Status::ShedDraining,
        Status::Failed,
        Status::Stalled,
    ];
}

/// Why a datagram is not a message of this protocol. Each is a counter, and none is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// No bytes at all.
    Empty,
    /// Shorter than a header.
    Truncated,
    /// Longer than [`DATAGRAM_MAX_BYTES`].
    Oversize,
    /// Does not begin with the magic bytes.
    Magic,
    /// Another protocol version.
    Version,
    /// Neither a request nor a reply, or a status out of range.
    Kind,
    /// A reply, sent to a server: answering it could start an endless exchange between two servers.
    Reply,
    /// Sent from port 0, to which no answer can go.
    SourcePort,
    /// Sent from a port of `--reject-source-ports`, behind which services answer whatever they are sent.
    ReflectorPort,
    /// Sent from an address that is no single host's: unspecified, broadcast or multicast.
    SourceAddress,
    /// Sent from the server's own address and port: it would answer itself.
    OwnAddress,
    /// Sent to a broadcast or multicast address.
    Destination,
    /// Breaks a rule of the handler's own protocol.
    Other,
}

impl Malformed {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Malformed; 13] = [
        Malformed::Empty,
        Malformed::Truncated,
        Malformed::Oversize,
        Malformed::Magic,
        Malformed::Version,
        Malformed::Kind,
        Malformed::Reply,
        Malformed::SourcePort,
        Malformed::ReflectorPort,
        Malformed::SourceAddress,
        Malformed::OwnAddress,
        Malformed::Destination,
        Malformed::Other,
    ];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Malformed::Empty => "empty",
            Malformed::Truncated => "truncated",
            Malformed::Oversize => "oversize",
            Malformed::Magic => "magic",
            Malformed::Version => "version",
            Malformed::Kind => "kind",
            Malformed::Reply => "reply",
            Malformed::SourcePort => "source_port",
            Malformed::ReflectorPort => "reflector_port",
            Malformed::SourceAddress => "source_address",
            Malformed::OwnAddress => "own_address",
            Malformed::Destination => "destination",
            Malformed::Other => "other",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a well-formed request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refused {
    /// It asks for more CPU time than `--cost-cap` allows.
    CostCap,
    /// Its class is not one that the server knows.
    UnknownClass,
    /// A rule of the handler's own.
    Other,
}

impl Refused {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Refused; 3] = [Refused::CostCap, Refused::UnknownClass, Refused::Other];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Refused::CostCap => "cost_cap",
            Refused::UnknownClass => "unknown_class",
            Refused::Other => "other",
        }
    }
}

/// Why the handler did not come to a reply that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Failed {
    /// The handler panicked, or a child of its request did.
    Panic,
    /// The reply had no room for what the handler wrote.
    Overflow,
    /// The request waited for a child of its own that had been cancelled.
    Cancelled,
}

impl Failed {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Failed; 3] = [Failed::Panic, Failed::Overflow, Failed::Cancelled];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Failed::Panic => "panic",
            Failed::Overflow => "overflow",
            Failed::Cancelled => "cancelled",
        }
    }
}

/// Why a call to receive failed. It concerns no datagram: what waits in the socket stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReceiveError {
    /// A rule of the host forbids it.
    Denied,
    /// The system does not know the call.
    Unsupported,
    /// The kernel had no memory.
    NoMemory,
    /// The network is down.
    Network,
    /// Anything else.
    Other,
}

impl ReceiveError {
    /// Every reason, in the order of their numbers.
    pub const ALL: [ReceiveError; 5] = [
        ReceiveError::Denied,
        ReceiveError::Unsupported,
        ReceiveError::NoMemory,
        ReceiveError::Network,
        ReceiveError::Other,
    ];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ReceiveError::Denied => "denied",
            ReceiveError::Unsupported => "unsupported",
            ReceiveError::NoMemory => "no_memory",
            ReceiveError::Network => "network",
            ReceiveError::Other => "other",
        }
    }
}

/// Why the kernel did not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unsent {
    /// The socket's send buffer stayed full.
    BufferFull,
    /// The kernel had no memory. It says the same of a full device queue, but only to sockets that ask for the errors of
    /// all their peers (`IP_RECVERR`), as ours do not.
    QueueFull,
    /// Longer than the path takes; replies are never fragmented.
    TooLong,
    /// A rule of the host forbids it.
    Denied,
    /// There is no way to the peer.
    Unreachable,
    /// Anything else.
    Other,
}

impl Unsent {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Unsent; 6] =
        [Unsent::BufferFull, Unsent::QueueFull, Unsent::TooLong, Unsent::Denied, Unsent::Unreachable, Unsent::Other];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Unsent::BufferFull => "buffer_full",
            Unsent::QueueFull => "queue_full",
            Unsent::TooLong => "too_long",
            Unsent::Denied => "denied",
            Unsent::Unreachable => "unreachable",
            Unsent::Other => "other",
        }
    }
}
