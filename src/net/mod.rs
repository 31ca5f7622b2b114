//! Sockets and batches: everything that speaks to the kernel about datagrams.
//!
//! Replies leave through a socket that their worker receives from, the one on the address that the
//! request came to. While that socket is in a readiness queue, the kernel calls the queue for each
//! reply that has left, which is 5 % of a send. A second socket for replies would be in no queue.
//! But on the same address it is a member of the reuseport group and receives its share of flows,
//! unless a program selects others. That program sees members by index. An index changes its owner
//! whenever a member leaves, and an index out of range falls back to all of them. So while sockets
//! close, datagrams would reach a socket that no worker receives from. No counter that we read
//! would show that loss. Instead a busy worker takes its sockets out of the queue that it would
//! sleep on (`runtime`, README.md 2). While other workers watch the sockets of busy workers, their
//! queue remains attached: those 5 % are the cost of a watcher.

mod credit;
mod drops;
mod filter;
mod gate;
mod link;
mod network;
mod probe;
mod receive;
mod send;
mod socket;

use crate::fate::labels;
pub use credit::Credit;
pub use drops::{Drops, dropped_by_others};
pub use filter::{AddressFilter, AddressRules, HostAddresses};
pub use gate::{SourcePrefix, program};
pub use link::{KernelLink, Link};
pub use network::Network;
pub use probe::probe;
pub use receive::{Datagram, Receiver, receive_error};
use send::Sender;
pub use send::{Message, Outcomes};
pub use socket::{Group, Socket, by_address, complete};

labels! {
    /// A backend: how datagrams come from the kernel. All send alike.
    Io {
        /// Many datagrams in one call, straight into packets.
        Batches = "batches",
        /// Receives the burst of one peer as one GRO batch, cut apart here.
        Gro = "gro",
    }
}

/// The number of datagrams in one system call. Batches of 8 to 128 differ by 1.5 %; a short one
/// keeps the memory at hand small.
pub const BATCH: usize = 32;

/// The largest batch of replies. More in one call saves nothing by itself. But the more replies
/// wait, the more of them go to one peer, and those leave as one GSO batch. With 64 peers, 32
/// replies are 25 GSO batches, and 128 are 55.
pub const SEND_BATCH_MAX: usize = 128;

/// The requested receive buffer. The kernel's default holds 256 small datagrams, 0.75 ms at full
/// rate.
pub const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The requested send buffer. Replies to neighbours that do not exist wait in it for three seconds
/// each. The kernel's default holds 277 small ones, and then no reply leaves at all. It helps only
/// together with `net.ipv4.neigh.default.unres_qlen_bytes` and its IPv6 counterpart, which bound
/// the replies waiting for each neighbour.
pub const SEND_BUFFER_BYTES: usize = 4 << 20;
