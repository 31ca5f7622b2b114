//! The socket buffers that a server asks for, and the kernel's settings that limit them.

/// The requested receive buffer. The kernel's default holds 256 small datagrams, 0.75 ms at full rate.
pub const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The requested send buffer. Replies to neighbours that do not exist wait in it for three seconds each. The kernel's
/// default holds 277 small ones, and then no reply leaves at all. It helps only together with
/// `net.ipv4.neigh.default.unres_qlen_bytes` and its IPv6 counterpart, which bound the replies waiting for each
/// neighbour.
pub const SEND_BUFFER_BYTES: usize = 4 << 20;

/// A buffer that a server asks for, and the kernel's setting that limits it.
#[derive(Debug)]
pub struct BufferLimit {
    /// Which buffer.
    pub name: &'static str,
    /// Bytes that a server asks for.
    pub bytes: usize,
    /// The setting, as `sysctl` names it.
    pub sysctl: &'static str,
    /// What follows where the kernel grants less.
    pub consequence: &'static str,
}

/// The limits of both buffers: receive, then send.
pub const BUFFER_LIMITS: [BufferLimit; 2] = [
    BufferLimit {
        name: "receive",
        bytes: RECV_BUFFER_BYTES,
        sysctl: "net.core.rmem_max",
        consequence: "bursts will be dropped sooner",
    },
    BufferLimit {
        name: "send",
        bytes: SEND_BUFFER_BYTES,
        sysctl: "net.core.wmem_max",
        consequence: "requests in the names of neighbours that do not exist can stop all replies",
    },
];
