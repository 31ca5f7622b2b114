//! Fates: how a datagram ended. Every received datagram has exactly one fate, or is in flight.
//!
//! ```
//! use forebay_base::fate::{Fate, Fates, Status};
//!
//! assert_eq!(Fate::ShedWaited.name(), "shed_waited"); // on `/latency` and `/metrics`
//! assert_eq!(Fate::ShedWaited.status(), Some(Status::ShedWaited)); // its client may be told
//! assert_eq!(Fate::Malformed.status(), None); // never answered
//!
//! let fates = Fates::default();
//! let ended: u64 = Fate::ALL.iter().map(|fate| fates.of(*fate)).sum();
//! assert_eq!(fates.received, ended + fates.in_flight);
//! ```

/// Default of `--datagram-max`, the longest datagram that a server receives, in bytes. A datagram
/// that fits an Ethernet frame is shorter.
#[cfg_attr(doc, doc(hidden))]
pub const DATAGRAM_MAX_BYTES: usize = 2_048;
/// Number of classes of requests, numbered from 0. It is enough for all standard workloads, and
/// keeps metrics small, which have one label per class.
pub const CLASSES: usize = 8;

/// The most reasons of its own that a handler may name in
/// `Rejected::because`. There is a limit because each reason
/// is a label of the metrics.
pub const REASONS: usize = 16;

/// Default names of the classes in metrics and reports.
pub const CLASS_NAMES: [&str; CLASSES] = ["short", "long", "class2", "class3", "class4", "class5", "class6", "class7"];

/// Makes enums whose values are labels of metrics or keys in JSON. One row is a value and its name.
#[macro_export]
#[doc(hidden)]
macro_rules! labels {
    ($($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:expr,)+ })+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$meaning])* $variant,)+
        }

        impl $type {
            /// Every value, in the order of the rows.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The name of each value, in the order of [`Self::ALL`].
            pub const NAMES: [&'static str; $type::ALL.len()] = [$($name),+];

            /// The value's name in metrics and JSON.
            pub const fn name(self) -> &'static str {
                $type::NAMES[self as usize]
            }
        }
    )+ };
}
#[doc(hidden)]
pub use labels;

/// Makes [`Fate`], [`Fates`] and [`Status`]. Each row is a fate and its name. If the client gets a
/// reply, the row also has the [`Ending`], the [`Status`] and the number of the status on the wire.
macro_rules! fates {
    ($($(#[$meaning:meta])* $variant:ident = $name:ident $(=> $ending:ident($status:ident = $number:literal))?,)+) => {
        labels! {
            /// How a received datagram ended. `/latency` and the metrics use these names.
            #[non_exhaustive]
            Fate {
                $($(#[$meaning])* $variant = stringify!($name),)+
            }
        }

        impl Fate {
            /// The status that the reply tells the client; `None` if there is no reply.
            pub const fn status(self) -> Option<Status> {
                match self {
                    $(Fate::$variant => {
                        let status: &[Status] = &[$(Status::$status)?];
                        status.first().copied()
                    })+
                }
            }
        }

        /// How a request ended, as its reply tells the client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Status {
            $($(
                #[doc = concat!("The request ended as [`Fate::", stringify!($variant), "`].")]
                $status = $number,
            )?)+
        }

        impl Status {
            /// Every status, in the order of their numbers.
            pub const ALL: [Status; [$($($number,)?)+].len()] = [$($(Status::$status,)?)+];

            /// The kind of ending as which a client counts a reply with this status.
            pub const fn ending(self) -> Ending {
                match self {
                    $($(Status::$status => Ending::$ending,)?)+
                }
            }
        }

        /// Number of datagrams by fate. `received` is the sum of all fates and `in_flight`;
        /// arrivals are `received + kernel_dropped`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
        #[non_exhaustive]
        pub struct Fates {
            /// Datagrams received from the sockets. With shards also their events, and the requests
            /// that they began.
            pub received: u64,
            $(
                $(#[$meaning])*
                // A server that is older than the fate does not name it.
                #[cfg_attr(feature = "serde", serde(default))]
                pub $name: u64,
            )+
            /// Datagrams received and not ended yet.
            pub in_flight: u64,
            /// Datagrams that the kernel dropped at the server's sockets before they were received.
            /// `None` (`null`) if the host does not report this.
            pub kernel_dropped: Option<u64>,
        }

        impl Fates {
            /// Makes the counts. `ended` is the number of datagrams that ended in each fate, in the
            /// order of [`Fate::ALL`]. All other datagrams of `received` are in flight.
            #[cfg_attr(doc, doc(hidden))]
            pub fn new(received: u64, ended: &[u64; Fate::ALL.len()], kernel_dropped: Option<u64>) -> Fates {
                let sum = ended.iter().sum();
                debug_assert!(sum <= received, "no reading sees more ends than arrivals");
                let in_flight = received.saturating_sub(sum);
                Fates { received, $($name: ended[Fate::$variant as usize],)+ in_flight, kernel_dropped }
            }

            /// The number of datagrams that ended in `fate`.
            pub const fn of(&self, fate: Fate) -> u64 {
                match fate {
                    $(Fate::$variant => self.$name,)+
                }
            }
        }
    };
}

fates! {
    /// The handler served the request, and the kernel took the reply.
    Answered = answered => Answered(Ok = 0),
    /// The handler served the request and chose to send no reply.
    NoReply = no_reply,
    /// The handler rejected the datagram at admission, without an answer.
    Ignored = ignored,
    /// The datagram is not a request of the handler's protocol; [`Malformed`] has the reasons.
    Malformed = malformed,
    /// The request is well-formed, but the handler refused it at admission; [`Refused`] has the
    /// reasons.
    Refused = refused => Refused(Refused = 1),
    /// The request found a full queue.
    ShedQueueFull = shed_queue_full => Shed(ShedQueueFull = 2),
    /// The request's deadline passed, or would have passed before its end; [`Expired`] has the
    /// reasons.
    ShedExpired = shed_expired => Shed(ShedExpired = 3),
    /// The handler shed the request, because its sender exceeded the handler's rate.
    ShedRate = shed_rate => Shed(ShedRate = 4),
    /// The server was stopping and no longer served new requests.
    ShedDraining = shed_draining => Shed(ShedDraining = 5),
    /// The handler produced no reply that could be sent; [`Failed`] has the reasons.
    Failed = failed => Failed(Failed = 6),
    /// The handler's future was pending, and nothing was left that could wake it.
    Stalled = stalled => Failed(Stalled = 7),
    /// The request waited longer than `--max-wait`.
    ShedWaited = shed_waited => Shed(ShedWaited = 8),
    /// The handler served the request, but the kernel did not take the reply.
    Unsent = unsent,
    /// The datagram repeats a request that the server already held. One answer serves both.
    Duplicate = duplicate,
    /// No request with a client: a packet of a transport protocol, an event of a shard, or work
    /// that a shard began. It ended by itself.
    Handled = handled,
}

impl Fate {
    /// The fates of datagrams that a handler rejects at admission. The handler may name reasons of
    /// its own for these.
    pub const REJECTIONS: [Fate; 4] = [Fate::Ignored, Fate::Malformed, Fate::Refused, Fate::ShedRate];

    /// All fates for which a handler may name reasons of its own. These are [`Fate::REJECTIONS`],
    /// and the fates of requests that it gives up.
    #[cfg_attr(doc, doc(hidden))]
    pub const WITH_OWN_REASONS: [Fate; 6] =
        [Fate::Ignored, Fate::Malformed, Fate::Refused, Fate::ShedRate, Fate::ShedQueueFull, Fate::Failed];
}

/// How a client counts a reply. Several fates share one ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(doc, doc(hidden))]
pub enum Ending {
    /// The request was served.
    Answered,
    /// The server never serves requests like this one.
    Refused,
    /// The server shed the request: too busy, over the rate, too late or stopping.
    Shed,
    /// The handler panicked or stalled, or its reply did not fit.
    Failed,
}

// `Status::ALL` is indexed by the number on the wire.
const _: () = {
    let mut number = 0;
    while number < Status::ALL.len() {
        assert!(Status::ALL[number] as usize == number, "statuses are numbered from 0, in the order of the rows");
        number += 1;
    }
};

impl Default for Fates {
    /// The counts of a server that has received nothing, and whose kernel has dropped nothing.
    fn default() -> Fates {
        Fates::new(0, &[0; Fate::ALL.len()], Some(0))
    }
}

impl Fates {
    /// Datagrams that reached the server's sockets, dropped ones included. `None` if the host does
    /// not report the kernel's drops.
    pub fn arrived(&self) -> Option<u64> {
        self.kernel_dropped.map(|dropped| self.received + dropped)
    }
}

labels! {
    /// Why a datagram is not a request of the handler's protocol. Each reason has a counter. A
    /// malformed datagram is never answered.
    #[non_exhaustive]
    Malformed {
        /// The datagram is empty.
        Empty = "empty",
        /// The datagram is shorter than the protocol's header.
        Truncated = "truncated",
        /// The datagram is longer than `--datagram-max`.
        Oversize = "oversize",
        /// The datagram does not begin with the protocol's magic bytes.
        Magic = "magic",
        /// The datagram has another protocol version.
        Version = "version",
        /// The number of the message's kind, or of its status, is out of range.
        Kind = "kind",
        /// The datagram is a reply. Answering replies could make two servers answer each other for
        /// ever.
        Reply = "reply",
        /// The datagram came from port 0, which cannot be answered.
        SourcePort = "source_port",
        /// The datagram came from a port of `--reject-source-ports`. Services at these ports answer
        /// every datagram, so replies would go back and forth without end.
        ReflectorPort = "reflector_port",
        /// The source address is unspecified, broadcast or multicast, so it names no single host.
        SourceAddress = "source_address",
        /// The datagram came from the server's own address and port; the server would answer
        /// itself.
        OwnAddress = "own_address",
        /// The datagram was sent to a broadcast or multicast address.
        Destination = "destination",
        /// The datagram breaks another rule of the handler's protocol.
        Other = "other",
    }
    /// Why a well-formed request is refused at admission.
    #[non_exhaustive]
    Refused {
        /// The request asks for more CPU time than `--cost-cap` allows.
        CostCap = "cost_cap",
        /// The server does not know the request's class.
        UnknownClass = "unknown_class",
        /// The request breaks another rule of the handler.
        Other = "other",
    }
    /// Why a request ended as [`Fate::ShedExpired`].
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] Expired {
        /// The request's deadline had passed.
        Passed = "passed",
        /// The request had not begun, and its expected time was longer than the time left.
        TooLate = "too_late",
    }
    /// Why a datagram's age, by the kernel's receive timestamp, is impossible. The cause is that
    /// the host's clock was set.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] ClockAnomaly {
        /// The stamp lies in the future; the age counts as zero.
        Ahead = "ahead",
        /// The stamp is older than the socket's buffer can hold; the age counts as the longest
        /// possible.
        Behind = "behind",
    }
    /// What counts as received, but comes from a shard and not from a socket. One event handles all
    /// that is due for its shard.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] ShardEvent {
        /// Timers of the shard are due.
        Timer = "timer",
        /// Messages to the shard wait, or the notice that the server starts or stops.
        Message = "message",
        /// The shard has begun a request.
        Begun = "begun",
    }
    /// What happened to a datagram that a shard sent besides its replies.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] ShardSend {
        /// A datagram that the kernel took.
        Sent = "sent",
        /// A datagram that the kernel did not take.
        Unsent = "unsent",
        /// A call to send was refused: the worker had no room.
        Full = "full",
        /// A call to send was refused: the address may be forged, and has used up its credit.
        Unproven = "unproven",
    }
    /// Why the handler produced no reply that could be sent.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] Failed {
        /// The handler, or a child of its request, panicked.
        Panic = "panic",
        /// The handler wrote more than the reply has room for.
        Overflow = "overflow",
        /// The handler gave the request up.
        GivenUp = "given_up",
    }
    /// Why a system call to receive failed. No datagram is lost: the socket keeps what it holds.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] ReceiveError {
        /// A rule of the host forbids the call.
        Denied = "denied",
        /// The kernel does not know the call.
        Unsupported = "unsupported",
        /// The kernel had no memory.
        NoMemory = "no_memory",
        /// The network is down.
        Network = "network",
        /// Anything else.
        Other = "other",
    }
    /// Why the kernel did not take a reply.
    #[non_exhaustive]
    #[cfg_attr(doc, doc(hidden))] Unsent {
        /// The socket's send buffer stayed full.
        BufferFull = "buffer_full",
        /// The kernel had no memory. A full device queue is not counted here: the kernel reports it
        /// only to sockets with `IP_RECVERR`, which the server does not set.
        QueueFull = "queue_full",
        /// The reply is longer than the path's MTU; replies are never fragmented.
        TooLong = "too_long",
        /// A rule of the host, such as a firewall, forbids it.
        Denied = "denied",
        /// The host has no route to the peer.
        Unreachable = "unreachable",
        /// Anything else.
        Other = "other",
    }
}
