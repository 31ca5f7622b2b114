//! The table of what `forebay check --host` looks at: a row a setting of the host.

use super::host::{
    GOVERNORS, Host, Seen, WAKE_US, backlog_drops, base_slice, buffer_drops, governors, idle_states, irqbalance, limit,
    number, receiving, squeezed,
};
use crate::net::BUFFER_LIMITS as BUFFERS;
use Change::{ByHand, Text};
use std::ops::RangeInclusive;

/// What changes a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The bound goes into the file.
    Bound,
    /// A text goes into each file.
    Text(fn(&Host) -> Result<String, String>),
    /// A command, or what to think about.
    ByHand(&'static str),
}

/// One setting of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub name: &'static str,
    /// Where it is read; `IF` is each interface.
    pub path: &'static str,
    pub read: Read,
    /// The values that are ok, with one bound: from 0 on, or without an end.
    pub wanted: Wanted,
    pub unit: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// How to see that it matters here.
    pub see: &'static str,
    pub change: Change,
}

/// More than this of what came, in a million, is worth a look: a p99.99 would show it.
const SHARE_PARTS: u64 = 100;
const SHARE_MAX: Wanted = |_| 0..=SHARE_PARTS;
const SHARE: &str = "in a million";

const UDP_MEM: &str = "/proc/sys/net/ipv4/udp_mem";
const SOFTNET: &str = "/proc/net/softnet_stat";

type Read = fn(&Host, &str) -> Result<Seen, String>;
type Wanted = fn(&Host) -> RangeInclusive<u64>;

const fn row(name: &'static str, path: &'static str, read: Read, wanted: Wanted, unit: &'static str) -> Row {
    Row { name, path, read, wanted, unit, why: "", see: "", change: Change::Bound }
}

impl Row {
    const fn why(self, why: &'static str) -> Row {
        Row { why, ..self }
    }

    const fn see(self, see: &'static str) -> Row {
        Row { see, ..self }
    }

    const fn by(self, change: Change) -> Row {
        Row { change, ..self }
    }
}

pub(super) const ROWS: [Row; 17] = [
    row("receive buffer", "/proc/sys/net/core/rmem_max", number, |_| BUFFERS[0].bytes as u64..=u64::MAX, "bytes")
        .why(BUFFERS[0].consequence)
        .see("kernel_dropped on /latency grows"),
    row("send buffer", "/proc/sys/net/core/wmem_max", number, |_| BUFFERS[1].bytes as u64..=u64::MAX, "bytes")
        .why(BUFFERS[1].consequence)
        .see("forebay_unsent_total{reason=\"buffer_full\"} grows"),
    row("UDP memory", UDP_MEM, limit, |host| udp_pages(host)..=u64::MAX, "pages")
        .why("all sockets of the host share this memory; beyond it, the kernel drops what buffers have room for")
        .see("nstat -az UdpMemErrors grows")
        .by(Text(|host| host.replaced(UDP_MEM, 2, udp_pages(host)))),
    row("neighbour queue, IPv4", "/proc/sys/net/ipv4/neigh/IF/unres_qlen_bytes", number, |_| 0..=4_096, "bytes")
        .why("what waits for absent neighbours fills the send buffer, and no reply leaves")
        .see("forebay_unsent_total{reason=\"buffer_full\"} grows while ip neigh shows FAILED"),
    row("neighbour queue, IPv6", "/proc/sys/net/ipv6/neigh/IF/unres_qlen_bytes", number, |_| 0..=4_096, "bytes")
        .why("as for IPv4")
        .see("as for IPv4"),
    row("receive queues", "/sys/class/net/IF/queues", receiving, |host| receivers(host)..=u64::MAX, "CPUs")
        .why("each receive queue has one CPU; all workers wait while it is the only busy one")
        .see("mpstat -P ALL 1 shows one CPU with %soft near 100")
        .by(Text(Host::cpu_mask)),
    row("backlog", "/proc/sys/net/core/netdev_max_backlog", number, |host| backlog(host)..=u64::MAX, "packets")
        .why("packets above it are dropped before any socket; RPS, veth and loopback pass through it")
        .see("the row of backlog drops"),
    row("backlog drops", SOFTNET, backlog_drops, SHARE_MAX, SHARE)
        .why("lost before any counter of the server; clients see silence")
        .see("the second column of the file grows")
        .by(ByHand("raise the backlog, or spread datagrams over more receive queues")),
    row("receive budget", "/proc/sys/net/core/netdev_budget", number, |host| budget(host)..=u64::MAX, "packets")
        .why("the most packets of one round of receiving; the rest waits for the next round")
        .see("the row of squeezed rounds"),
    row("squeezed rounds", SOFTNET, squeezed, SHARE_MAX, SHARE)
        .why("rounds of receiving ended before their work; what waited came later")
        .see("the third column of the file grows")
        .by(ByHand("raise the receive budget, or spread datagrams over more receive queues")),
    row("buffer drops", "/proc/net/snmp", buffer_drops, SHARE_MAX, SHARE)
        .why("sockets of this host had no room: the server was too slow, or a buffer too small")
        .see("nstat -az UdpRcvbufErrors grows")
        .by(ByHand("raise the receive buffer; if it is large enough, add workers")),
    row("irqbalance", "/proc", irqbalance, |_| 0..=0, "processes")
        .why("it moves interrupts between CPUs every ten seconds, also to those of busy workers")
        .see("two readings of /proc/interrupts, a minute apart, grow on other CPUs")
        .by(ByHand("systemctl stop irqbalance, then spread the interrupts of the card by hand")),
    row("CPU governor", GOVERNORS, governors, |_| 0..=0, "CPUs not at performance")
        .why("after a pause a CPU is slow for some milliseconds")
        .see("p99 falls when the load rises")
        .by(Text(|_| Ok("performance".to_owned()))),
    row("idle states", "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency", idle_states, |_| 0..=WAKE_US, "us")
        .why("a CPU that sleeps deeply wakes late; this adds to the first request after a pause")
        .see("p50 at 1 % load is far above p50 at 30 % load")
        .by(Text(|_| Ok("1".to_owned()))),
    row("busy read", "/proc/sys/net/core/busy_read", number, |_| 0..=0, "us")
        .why("workers wait by themselves (--wait); a wait of the kernel takes their CPU a second time")
        .see("forebay_worker_busy_seconds_total is far below process_cpu_seconds_total at low load"),
    row("busy poll", "/proc/sys/net/core/busy_poll", number, |_| 0..=0, "us")
        .why("as for busy read, where a worker sleeps")
        .see("as for busy read"),
    row("base slice", "/sys/kernel/debug/sched/base_slice_ns", base_slice, |_| 0..=3_000_000, "ns")
        .why("a program beside the server keeps a worker waiting for as long")
        .see("forebay_worker_run_queue_wait_seconds_total grows"),
];

/// The kernel's default, or more once the share of drops is worth a look.
fn backlog(host: &Host) -> u64 {
    if backlog_drops(host, SOFTNET).is_ok_and(|seen| seen.number > SHARE_PARTS) { 4_000 } else { 1_000 }
}

/// The kernel's default, or more once the share of squeezed rounds is worth a look.
fn budget(host: &Host) -> u64 {
    if squeezed(host, SOFTNET).is_ok_and(|seen| seen.number > SHARE_PARTS) { 600 } else { 300 }
}

/// Pages that all buffers take when they are full: the kernel counts its own share of each packet too, as much again.
fn udp_pages(host: &Host) -> u64 {
    let each: usize = BUFFERS.iter().map(|limit| 2 * limit.bytes).sum();
    (host.sockets * each).div_ceil(host.page_bytes) as u64
}

/// One receiving CPU for four workers. A guess: of the 3 us that the kernel takes for a request, about 0.7 are before the
/// socket.
fn receivers(host: &Host) -> u64 {
    host.workers.div_ceil(4) as u64
}
