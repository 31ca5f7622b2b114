//! The bench protocol, which `loadgen` and a Forebay server speak.
//!
//! One datagram is one message: a header of [`HEADER_BYTES`] bytes, then the payload. All integers
//! are little-endian.
//!
//! | offset | bytes | field | request | reply |
//! |---|---|---|---|---|
//! | 0 | 4 | magic | `46 42 41 59` ("FBAY") | same |
//! | 4 | 1 | version | 1 | 1 |
//! | 5 | 1 | kind | 1, or 3 if it may come again with the same id | 2 |
//! | 6 | 1 | class | 0 = `short`, 1 = `long`, 2 = `class2` .. 7 = `class7` | echoed |
//! | 7 | 1 | status | 0 | see [`Status`] |
//! | 8 | 8 | id | chosen by the client | echoed |
//! | 16 | 8 | stamp | opaque to the server | echoed |
//! | 24 | 8 | cost, ns | the CPU time to burn | echoed |
//! | 32 | 4 | deadline, us | after arrival at the server; 0 = none | echoed |
//! | 36 | 2 | worker | 0 | the worker that finished the request |
//! | 38 | 1 | pool | 0 | the pool of that worker |
//! | 39 | 1 | hops | 0 | times the request changed pool, at most 255 |
//! | 40 | 8 | kernel wait, ns | 0 | from the kernel's receive stamp to the batch that received it |
//! | 48 | 8 | queue wait, ns | 0 | from there to the finish, less the service time; of what was shed: retry after |
//! | 56 | 8 | service time, ns | 0 | in the handler |
//! | 64 | .. | payload | any | chosen by the handler |
//!
//! The reply to a shed request has no times. Its queue wait field holds the time to wait before
//! sending the request again ([`Header::retry_after`]); 0 = unknown.
//!
//! A reply is never longer than its request, and is never answered. In a request, the server
//! ignores status, worker, pool, hops and times. A datagram that breaks a rule is not answered; the
//! server counts it under its [`Malformed`] reason.
//!
//! [`Header::parse`] reverses [`Header::emit`].

pub use crate::fate::{CLASS_NAMES, CLASSES, DATAGRAM_MAX_BYTES, Malformed, Status};
pub use crate::handler::Served;

use crate::fate::Ending;
use crate::time::Nanos;

/// Length of the header in bytes; no datagram is shorter.
pub const HEADER_BYTES: usize = 64;
/// The protocol version this crate speaks.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"FBAY";

/// Whether a message is a request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request, from client to server.
    Request = 1,
    /// A reply, from server to client.
    Reply = 2,
    /// A request that its client may send again. Requests with one id from one source count once.
    Repeatable = 3,
}

/// A parsed header. The table of the module says what each field means in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether the message is a request or a reply.
    pub kind: Kind,
    /// The class that the client states. Any byte parses, but a server refuses values from
    /// [`CLASSES`] on.
    pub class: u8,
    /// How the request ended; [`Status::Ok`] in a request.
    pub status: Status,
    /// The client's number for this request; the reply repeats it.
    pub id: u64,
    /// Any value of the client's; the reply repeats it.
    pub stamp: u64,
    /// CPU time for the server to burn.
    pub cost: Nanos,
    /// Microseconds after arrival from which the answer is worthless; 0 = no deadline.
    pub deadline_us: u32,
    /// Where and how the request was served; all zero in a request.
    pub served: Served,
}

impl Header {
    /// A request without stamp and deadline.
    pub fn request(id: u64, class: u8, cost: Nanos) -> Header {
        Header {
            kind: Kind::Request,
            class,
            status: Status::Ok,
            id,
            stamp: 0,
            cost,
            deadline_us: 0,
            served: Served::default(),
        }
    }

    /// Reads the header at the front of `datagram`.
    ///
    /// # Errors
    /// The first rule that `datagram` breaks, in the order of [`Malformed`]. A reply is no error
    /// here.
    pub fn parse(datagram: &[u8]) -> Result<Header, Malformed> {
        if datagram.is_empty() {
            return Err(Malformed::Empty);
        }
        let Some(bytes) = datagram.first_chunk::<HEADER_BYTES>() else {
            return Err(Malformed::Truncated);
        };
        if bytes[0..4] != MAGIC {
            return Err(Malformed::Magic);
        }
        if bytes[4] != VERSION {
            return Err(Malformed::Version);
        }
        let kind = match bytes[5] {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Repeatable,
            _ => return Err(Malformed::Kind),
        };
        // A request's status means nothing, so only a reply's is checked.
        let (mut status, mut served) = (Status::Ok, Served::default());
        if kind == Kind::Reply {
            status = *Status::ALL.get(usize::from(bytes[7])).ok_or(Malformed::Kind)?;
            served = Served {
                worker: u16::from_le_bytes(field(bytes, 36)),
                pool: bytes[38],
                hops: bytes[39],
                kernel_wait: Nanos::new(u64::from_le_bytes(field(bytes, 40))),
                queue_wait: Nanos::new(u64::from_le_bytes(field(bytes, 48))),
                service: Nanos::new(u64::from_le_bytes(field(bytes, 56))),
            };
        }
        Ok(Header {
            kind,
            class: bytes[6],
            status,
            id: u64::from_le_bytes(field(bytes, 8)),
            stamp: u64::from_le_bytes(field(bytes, 16)),
            cost: Nanos::new(u64::from_le_bytes(field(bytes, 24))),
            deadline_us: u32::from_le_bytes(field(bytes, 32)),
            served,
        })
    }

    /// How long the client should wait before it sends a shed request again. Zero if the server did
    /// not say, or the request was not shed.
    pub fn retry_after(&self) -> Nanos {
        if self.status.ending() == Ending::Shed { self.served.queue_wait } else { Nanos::ZERO }
    }

    /// The header as bytes on the wire.
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6] = self.class;
        bytes[7] = self.status as u8;
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.cost.get().to_le_bytes());
        bytes[32..36].copy_from_slice(&self.deadline_us.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.served.worker.to_le_bytes());
        bytes[38] = self.served.pool;
        bytes[39] = self.served.hops;
        bytes[40..48].copy_from_slice(&self.served.kernel_wait.get().to_le_bytes());
        bytes[48..56].copy_from_slice(&self.served.queue_wait.get().to_le_bytes());
        bytes[56..64].copy_from_slice(&self.served.service.get().to_le_bytes());
        bytes
    }
}

/// The `N` bytes at `offset`, which must lie inside the header.
fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}
