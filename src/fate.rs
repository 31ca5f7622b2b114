//! How a datagram ends. Every received datagram ends in exactly one fate, or is still in flight.
//!
//! ```
//! use forebay::fate::{Fate, Fates, Status};
//!
//! assert_eq!(Fate::ShedWaited.name(), "shed_waited"); // on `/latency` and `/metrics`
//! assert_eq!(Fate::ShedWaited.status(), Some(Status::ShedWaited)); // its client may be told
//! assert_eq!(Fate::Malformed.status(), None); // never answered
//!
//! let fates = Fates::default();
//! let ended: u64 = Fate::ALL.iter().map(|fate| fates.of(*fate)).sum();
//! assert_eq!(fates.received, ended + fates.in_flight);
//! ```

/// The longest datagram that a server receives by default: what an Ethernet frame carries, and some
/// room.
pub const DATAGRAM_MAX_BYTES: usize = 2_048;
/// Classes are numbered 0 to `CLASSES - 1`: enough for every standard workload, few enough for one
/// label each.
pub const CLASSES: usize = 8;

/// The most reasons of its own for which a handler may reject: enough to tell clients' mistakes
/// apart, few enough for one label each.
pub const REASONS: usize = 16;

/// Names of the classes, as metrics and reports show them.
pub const CLASS_NAMES: [&str; CLASSES] = ["short", "long", "class2", "class3", "class4", "class5", "class6", "class7"];

/// Makes enums whose values are labels of metrics or keys in JSON: one row is a value and its name.
macro_rules! labels {
    ($($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:expr,)+ })+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$meaning])* $variant,)+
        }

        impl $type {
            /// Every value, in the order of their numbers.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The names, in the order of [`Self::ALL`].
            pub const NAMES: [&'static str; $type::ALL.len()] = [$($name),+];

            /// The name in metrics and JSON.
            pub const fn name(self) -> &'static str {
                $type::NAMES[self as usize]
            }
        }
    )+ };
}
pub(crate) use labels;

/// Makes [`Fate`], [`Fates`] and [`Status`]. One row is a fate, its name, and the reply to its
/// client, if there is one. The reply has what the client counts it as, the status, and the
/// status's number on the wire.
macro_rules! fates {
    ($($(#[$meaning:meta])* $variant:ident = $name:ident $(=> $ending:ident($status:ident = $number:literal))?,)+) => {
        labels! {
            /// The end of a datagram that a server received. The names are those of `/latency` and
            /// of the metrics.
            Fate {
                $($(#[$meaning])* $variant = stringify!($name),)+
            }
        }

        impl Fate {
            /// The status in the reply to the client; `None` if there is no reply.
            pub const fn status(self) -> Option<Status> {
                match self {
                    $(Fate::$variant => {
                        let status: &[Status] = &[$(Status::$status)?];
                        status.first().copied()
                    })+
                }
            }
        }

        /// The end of a request, as stated in its reply.
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

            /// What a client counts a reply with this status as.
            pub const fn ending(self) -> Ending {
                match self {
                    $($(Status::$status => Ending::$ending,)?)+
                }
            }
        }

        /// The number of datagrams by fate: `received` is the sum of all others but
        /// `kernel_dropped`, and arrivals are `received + kernel_dropped`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "admin", derive(serde::Deserialize, serde::Serialize))]
        #[non_exhaustive]
        pub struct Fates {
            /// Datagrams received from the sockets.
            pub received: u64,
            $($(#[$meaning])* pub $name: u64,)+
            /// Datagrams received and not ended yet.
            pub in_flight: u64,
            /// Datagrams dropped by the kernel at the server's sockets, and so never received.
            /// `None` (`null`) where that cannot be read.
            pub kernel_dropped: Option<u64>,
        }

        impl Fates {
            /// Fates from the number of datagrams that ended in each, in the order of
            /// [`Fate::ALL`].
            #[cfg_attr(doc, doc(hidden))]
            pub fn new(received: u64, ended: &[u64; Fate::ALL.len()], kernel_dropped: Option<u64>) -> Fates {
                let sum = ended.iter().sum();
                debug_assert!(sum <= received, "no reading sees more ends than arrivals");
                let in_flight = received.saturating_sub(sum);
                Fates { received, $($name: ended[Fate::$variant as usize],)+ in_flight, kernel_dropped }
            }

            /// The number of datagrams that met `fate`.
            pub const fn of(&self, fate: Fate) -> u64 {
                match fate {
                    $(Fate::$variant => self.$name,)+
                }
            }
        }
    };
}

fates! {
    /// Served, and its reply handed to the kernel.
    Answered = answered => Answered(Ok = 0),
    /// Served, and the handler chose not to reply.
    NoReply = no_reply,
    /// Neither served nor answered: the handler chose so when it came.
    Ignored = ignored,
    /// Not a request of the handler's protocol; the reason is a [`Malformed`].
    Malformed = malformed,
    /// Well-formed, but not served (cost above the cap, unknown class); the reason is a
    /// [`Refused`].
    Refused = refused => Refused(Refused = 1),
    /// A queue on its way was full.
    ShedQueueFull = shed_queue_full => Shed(ShedQueueFull = 2),
    /// Its deadline passed, before it was served or while it was, or would have before its end; the
    /// reason is an [`Expired`].
    ShedExpired = shed_expired => Shed(ShedExpired = 3),
    /// Its sender was over its rate.
    ShedRate = shed_rate => Shed(ShedRate = 4),
    /// The server was stopping.
    ShedDraining = shed_draining => Shed(ShedDraining = 5),
    /// The handler did not come to a reply that can be sent; the reason is a [`Failed`].
    Failed = failed => Failed(Failed = 6),
    /// The handler's future stopped for a reason that the runtime cannot resume.
    Stalled = stalled => Failed(Stalled = 7),
    /// It had waited for longer than `--max-wait`.
    ShedWaited = shed_waited => Shed(ShedWaited = 8),
    /// Served, but the kernel did not take the reply.
    Unsent = unsent,
    /// It repeats a request that was in the server, whose answer is for both.
    Duplicate = duplicate,
}

impl Fate {
    /// The fates of what a handler rejects, which its own reasons divide.
    pub const REJECTIONS: [Fate; 4] = [Fate::Ignored, Fate::Malformed, Fate::Refused, Fate::ShedRate];
}

/// What a client counts a reply as: fewer kinds than the server's fates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Served.
    Answered,
    /// The server does not serve such requests.
    Refused,
    /// The server was too busy, over its rate, too late or stopping.
    Shed,
    /// The handler panicked or stalled, or its reply did not fit.
    Failed,
}

// A status is read from the wire as an index into `Status::ALL`.
const _: () = {
    let mut number = 0;
    while number < Status::ALL.len() {
        assert!(Status::ALL[number] as usize == number, "statuses are numbered from 0, in the order of the rows");
        number += 1;
    }
};

impl Default for Fates {
    /// The fates of a server that has received nothing and whose kernel has dropped nothing.
    fn default() -> Fates {
        Fates::new(0, &[0; Fate::ALL.len()], Some(0))
    }
}

impl Fates {
    /// The number of datagrams that came to the server's sockets; `None` where the kernel's drops
    /// cannot be read.
    pub fn arrived(&self) -> Option<u64> {
        self.kernel_dropped.map(|dropped| self.received + dropped)
    }
}

labels! {
    /// Why a datagram is not a message of this protocol. Each is a counter, and none is answered.
    Malformed {
        /// No bytes at all.
        Empty = "empty",
        /// Shorter than a header.
        Truncated = "truncated",
        /// Longer than `--datagram-max`.
        Oversize = "oversize",
        /// Does not begin with the magic bytes.
        Magic = "magic",
        /// Another protocol version.
        Version = "version",
        /// Neither a request nor a reply, or a status out of range.
        Kind = "kind",
        /// A reply, sent to a server: answering it could start an endless exchange between two
        /// servers.
        Reply = "reply",
        /// Sent from port 0, to which no answer can go.
        SourcePort = "source_port",
        /// Sent from a port of `--reject-source-ports`, behind which services answer whatever they
        /// are sent.
        ReflectorPort = "reflector_port",
        /// Sent from an address that is no single host's: unspecified, broadcast or multicast.
        SourceAddress = "source_address",
        /// Sent from the server's own address and port: it would answer itself.
        OwnAddress = "own_address",
        /// Sent to a broadcast or multicast address.
        Destination = "destination",
        /// Breaks another rule of the handler's own protocol.
        Other = "other",
    }
    /// Why a well-formed request is not served.
    Refused {
        /// It asks for more CPU time than `--cost-cap` allows.
        CostCap = "cost_cap",
        /// Its class is not one that the server knows.
        UnknownClass = "unknown_class",
        /// Breaks a rule of the handler's own.
        Other = "other",
    }
    /// How a request and its deadline missed each other.
    Expired {
        /// The deadline had passed.
        Passed = "passed",
        /// The request had not begun, and was expected to take longer than what was left.
        TooLate = "too_late",
    }
    /// Why the age of a datagram, by the kernel's receive stamp, cannot be true: the clock was set
    /// meanwhile.
    ClockAnomaly {
        /// The stamp lies in the future; the age counts as zero.
        Ahead = "ahead",
        /// The stamp is older than anything that can be in the socket; the age counts as the
        /// longest that can be.
        Behind = "behind",
    }
    /// Why the handler did not come to a reply that can be sent.
    Failed {
        /// The handler panicked, or a child of its request did.
        Panic = "panic",
        /// The reply had no room for what the handler wrote.
        Overflow = "overflow",
    }
    /// Why a call to receive failed. It concerns no datagram: what waits in the socket stays there.
    ReceiveError {
        /// A rule of the host forbids it.
        Denied = "denied",
        /// The system does not know the call.
        Unsupported = "unsupported",
        /// The kernel had no memory.
        NoMemory = "no_memory",
        /// The network is down.
        Network = "network",
        /// Anything else.
        Other = "other",
    }
    /// Why the kernel did not take a message.
    Unsent {
        /// The socket's send buffer stayed full.
        BufferFull = "buffer_full",
        /// The kernel had no memory. It says the same of a full device queue, but only to sockets
        /// that ask for the errors of all their peers (`IP_RECVERR`). Ours do not ask.
        QueueFull = "queue_full",
        /// Longer than the path takes; replies are never fragmented.
        TooLong = "too_long",
        /// A rule of the host forbids it.
        Denied = "denied",
        /// There is no way to the peer.
        Unreachable = "unreachable",
        /// Anything else.
        Other = "other",
    }
}
