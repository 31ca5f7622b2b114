//! Sockets and batches: all system calls about datagrams.
//!
//! A worker replies through the socket from which it received the request. While this socket is in
//! an epoll set, the kernel notifies the set of each reply sent, which costs 5 % of a send. So a
//! busy worker removes its sockets from its own epoll set (`runtime/sleep/README.md`, section 2).
//! They stay in the watch set, if other workers watch them; the 5 % are then the price of watching.
//!
//! A second socket for replies only, in no epoll set, would not work. On the same address it would
//! be a member of the `SO_REUSEPORT` group and get a share of the flows. A BPF program could select
//! the other members by their index. But indices change when a member closes, and an index out of
//! range selects among all members. So while sockets close, datagrams would reach a socket from
//! which no worker receives, and no counter would show the loss.

use forebay_clock as clock;

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
pub use forebay_base::source::SourcePrefix;
pub use gate::program;
pub use io::{BATCH, Io, RECV_BUFFER_BYTES, SEND_BATCH_MAX, SEND_BUFFER_BYTES};
pub use link::{KernelLink, Link};
pub use network::Network;
pub use probe::probe;
pub use receive::{Datagram, Joins, Receiver, receive_error};
pub use send::{Message, Outcomes};
pub use socket::{Group, Socket, by_address, complete};
