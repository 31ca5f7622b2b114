//! Sockets and batches: all system calls about datagrams.
//!
//! A worker replies through a socket that it receives from, on the address that the request came
//! to. While that socket is in a readiness queue, the kernel notifies the queue of each reply sent,
//! which is 5 % of a send. A second socket for replies would be in no queue. But on the same
//! address it is a member of the reuseport group. It gets a share of the flows, unless a program
//! selects other members. That program sees members by index. An index changes its owner when a
//! member leaves, and an index out of range selects among all. So while sockets close, datagrams
//! would reach a socket that no worker receives from. No counter that we read would show that loss.
//! Instead, a busy worker removes its sockets from the queue that it would sleep on (`runtime`,
//! README.md 2). While other workers watch the sockets of busy workers, their queue stays attached.
//! The 5 % are then the cost of a watcher.

mod credit;
mod drops;
mod filter;
mod gate;
mod io;
mod link;
mod network;
mod probe;
mod receive;
mod send;
mod socket;

pub use credit::Credit;
pub use drops::{Drops, dropped_by_others};
pub use filter::{AddressFilter, AddressRules, HostAddresses};
pub use gate::{SourcePrefix, program};
pub use io::{BATCH, Io, RECV_BUFFER_BYTES, SEND_BATCH_MAX, SEND_BUFFER_BYTES};
pub use link::{KernelLink, Link};
pub use network::Network;
pub use probe::probe;
pub use receive::{Datagram, Joins, Receiver, receive_error};
pub use send::{Message, Outcomes};
pub use socket::{Group, Socket, by_address, complete};
