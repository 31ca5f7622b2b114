//! Sockets and batches: everything that speaks to the kernel about datagrams.
//!
//! Replies leave through the socket that a worker receives from. While that stands in a readiness queue, the kernel calls the
//! queue for each reply that has left, which is 5 % of a send. A second socket for replies would stand in none, but on the
//! same address it is a member of the reuseport group and receives its share of flows, unless a program selects others;
//! that program sees members by their place, a place changes its owner whenever a member leaves, and one that is out of
//! range falls back to all of them. So while sockets close, datagrams would come to a socket that nobody receives from, and
//! be lost in no counter that we read. Instead a busy worker takes its one socket out of the queue that it would sleep on
//! (`runtime`, README.md 2). Where others watch the sockets of busy workers, their queue still stands behind it: those 5 % are
//! what a watcher costs.

mod addresses;
mod drops;
mod filter;
mod link;
mod receive;
mod send;
mod socket;
mod ways;

pub use addresses::HostAddresses;
pub use drops::Drops;
pub use filter::{AddressFilter, AddressRules};
pub use link::{KernelLink, Link};
pub use receive::{Datagram, Receiver, receive_error};
pub use send::{Message, Outcomes, Sender};
pub use socket::{Group, RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, Socket};
pub use ways::{NoWay, Refused, Ways};

/// How datagrams go to and from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Io {
    /// Many in one call, straight into packets.
    Batches,
    /// What one peer sends in a burst comes as one, and is cut apart here. Sent as in [`Io::Batches`].
    Gro,
    /// One by one, by calls that every system has: without the time they waited in the socket, and not on a socket
    /// that is bound to all addresses, since nobody tells which one a datagram came to.
    Portable,
}

impl Io {
    /// Every way, the preferred ones first; help and error messages list them in this order.
    pub const ALL: &[Io] = &[Io::Batches, Io::Gro, Io::Portable];

    /// The name used in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Io::Batches => "batches",
            Io::Gro => "gro",
            Io::Portable => "portable",
        }
    }
}

/// Datagrams in one system call. Batches of 8 to 128 differ by 1.5 %; a short one keeps the memory at hand small.
pub const BATCH: usize = 32;

/// Replies in one batch at most. More in one call saves nothing, but the more wait, the more of them go to one peer, and
/// those leave as one GSO batch: with 64 peers, 32 replies are 25 GSO batches, 128 are 55.
pub const SEND_BATCH_MAX: usize = 128;
