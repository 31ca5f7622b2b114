//! `--io`, how datagrams are received, and the sizes of batches and buffers.

use forebay_base::fate::labels;

labels! {
    /// How datagrams are received from the kernel. Sending is the same for all.
    Io {
        /// Many datagrams in one system call, straight into packets.
        Batches = "batches",
        /// A burst from one peer in one system call, as a GRO batch that this process cuts into
        /// datagrams.
        Gro = "gro",
    }
}

/// The most datagrams of one system call. Batches of 8 to 128 differ by only 1.5 % in cost, and a
/// small batch touches less memory.
pub const BATCH: usize = 32;

/// The most replies of one batch. A longer batch is cheaper only because more of its replies go to
/// the same peer, and these leave as one GSO batch. With 64 peers, 32 replies make 25 GSO batches,
/// and 128 replies make 55.
pub const SEND_BATCH_MAX: usize = 128;

/// The requested receive buffer per socket. The kernel's default holds 256 small datagrams, 0.75 ms
/// at full rate.
pub const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The requested send buffer per socket. Replies to neighbours that do not exist wait in it for
/// three seconds each. The kernel's default holds 277 small replies; once they fill it, no other
/// reply leaves. It helps only together with `net.ipv4.neigh.default.unres_qlen_bytes` and its IPv6
/// counterpart, which bound the replies that wait for each neighbour.
pub const SEND_BUFFER_BYTES: usize = 4 << 20;
