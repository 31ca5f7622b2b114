//! Sockets and batches: everything that speaks to the kernel about datagrams.

mod drops;
mod receive;
mod send;
mod socket;

pub use drops::Drops;
pub use receive::{Datagram, Receiver};
pub use send::{Message, Outcomes, Sender};
pub use socket::{Group, RECV_BUFFER_BYTES, Socket};

/// How datagrams go to and from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Many in one call, straight into packets.
    Batches,
    /// What one peer sends in a burst comes as one, and is cut apart here. Sent as in [`Io::Batches`].
    Trains,
    /// One by one, by calls that every system has: without the time they waited in the socket, and not on a socket
    /// that is bound to all addresses, since nobody tells which one a datagram came to.
    Portable,
}

/// Datagrams in one system call. Batches of 8 to 128 differ by 1.5 %; a short one keeps the memory at hand small.
pub const BATCH: usize = 32;
