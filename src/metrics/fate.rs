//! How a datagram ends. Every received datagram ends in exactly one fate, or is still in flight.

use crate::handler::builtin::wire::Status;

/// The end of a datagram that a server received. The names are those of `/latency` and of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fate {
    /// Served, and its reply handed to the kernel (or the handler chose not to reply).
    Answered,
    /// Not a request of the handler's protocol; the reason is a [`crate::handler::builtin::wire::Malformed`].
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
    /// The handler panicked, or a part of its request did.
    Panic,
    /// The reply had no room for what the handler wrote.
    Overflow,
    /// The request waited for a part of its own that had been cancelled.
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
