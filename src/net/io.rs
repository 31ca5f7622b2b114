//! The backend of sockets, and the sizes of batches and buffers.

use crate::fate::labels;

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
