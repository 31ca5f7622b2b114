//! The table of what `forebay check --host` looks at: a row a setting of the host.

use super::host::{
    WAKE_US, backlog_drops, base_slice, buffer_drops, governors, idle_states, irqbalance, limit, number, receiving,
    squeezed,
};
use crate::net::BUFFER_LIMITS;
use std::path::PathBuf;

/// What is checked, and for what kind of server.
#[derive(Debug)]
pub(super) struct Host {
    /// The folder that has the host's `proc` and `sys`.
    pub root: PathBuf,
    pub workers: usize,
    /// Sockets of all workers.
    pub sockets: usize,
    /// The interfaces that datagrams come by, or why they are not known.
    pub interfaces: Result<Vec<String>, String>,
    pub page_bytes: usize,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Seen {
    pub number: u64,
    pub text: String,
    /// Files that would change it; a `*` stands for any number.
    pub places: Vec<String>,
}

impl Seen {
    pub(super) fn at(number: u64, text: String, place: &str) -> Seen {
        Seen { number, text, places: vec![place.to_owned()] }
    }
}

/// The bound that makes a value ok.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    AtLeast(fn(&Host) -> u64),
    AtMost(u64),
}

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
    pub read: fn(&Host, &str) -> Result<Seen, String>,
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
const SHARE_MAX: Wanted = Wanted::AtMost(SHARE_PARTS);
const SHARE: &str = "in a million";

const fn row(name: &'static str, path: &'static str, wanted: Wanted, unit: &'static str) -> Row {
    Row { name, path, read: number, wanted, unit, why: "", see: "", change: Change::Bound }
}

const fn buffer(at: usize, name: &'static str, path: &'static str, wanted: fn(&Host) -> u64, see: &'static str) -> Row {
    Row { why: BUFFER_LIMITS[at].consequence, see, ..row(name, path, Wanted::AtLeast(wanted), "bytes") }
}

pub(super) const ROWS: [Row; 17] = [
    buffer(
        0,
        "receive buffer",
        "/proc/sys/net/core/rmem_max",
        |_| BUFFER_LIMITS[0].bytes as u64,
        "kernel_dropped on /latency grows",
    ),
    buffer(
        1,
        "send buffer",
        "/proc/sys/net/core/wmem_max",
        |_| BUFFER_LIMITS[1].bytes as u64,
        "forebay_unsent_total{reason=\"buffer_full\"} grows",
    ),
    Row {
        read: limit,
        why: "all sockets of the host share this memory; beyond it, the kernel drops whatever buffers have room for",
        see: "nstat -az UdpMemErrors grows",
        change: Change::Text(|host| host.replaced("/proc/sys/net/ipv4/udp_mem", 2, udp_pages(host))),
        ..row("UDP memory", "/proc/sys/net/ipv4/udp_mem", Wanted::AtLeast(udp_pages), "pages")
    },
    Row {
        why: "what waits for absent neighbours fills the send buffer, and no reply leaves",
        see: "forebay_unsent_total{reason=\"buffer_full\"} grows while ip neigh shows FAILED",
        ..row("neighbour queue, IPv4", "/proc/sys/net/ipv4/neigh/IF/unres_qlen_bytes", Wanted::AtMost(4_096), "bytes")
    },
    Row {
        why: "as for IPv4",
        see: "as for IPv4",
        ..row("neighbour queue, IPv6", "/proc/sys/net/ipv6/neigh/IF/unres_qlen_bytes", Wanted::AtMost(4_096), "bytes")
    },
    Row {
        read: receiving,
        why: "each receive queue has one CPU; all workers wait while it is the only busy one",
        see: "mpstat -P ALL 1 shows one CPU with %soft near 100",
        change: Change::Text(Host::cpu_mask),
        ..row("receive queues", "/sys/class/net/IF/queues", Wanted::AtLeast(receivers), "CPUs")
    },
    Row {
        why: "packets above it are dropped before any socket; RPS, veth and loopback pass through it",
        see: "the row of backlog drops",
        ..row(
            "backlog",
            "/proc/sys/net/core/netdev_max_backlog",
            Wanted::AtLeast(|host| raised(host, backlog_drops, 1_000, 4_000)),
            "packets",
        )
    },
    Row {
        read: backlog_drops,
        why: "lost before any counter of the server; clients see silence",
        see: "the second column of the file grows",
        change: Change::ByHand("raise the backlog, or spread datagrams over more receive queues"),
        ..row("backlog drops", "/proc/net/softnet_stat", SHARE_MAX, SHARE)
    },
    Row {
        why: "the most packets of one round of receiving; the rest waits for the next round",
        see: "the row of squeezed rounds",
        ..row(
            "receive budget",
            "/proc/sys/net/core/netdev_budget",
            Wanted::AtLeast(|host| raised(host, squeezed, 300, 600)),
            "packets",
        )
    },
    Row {
        read: squeezed,
        why: "rounds of receiving ended before their work; what waited came later",
        see: "the third column of the file grows",
        change: Change::ByHand("raise the receive budget, or spread datagrams over more receive queues"),
        ..row("squeezed rounds", "/proc/net/softnet_stat", SHARE_MAX, SHARE)
    },
    Row {
        read: buffer_drops,
        why: "sockets of this host had no room: the server was too slow, or a buffer too small",
        see: "nstat -az UdpRcvbufErrors grows",
        change: Change::ByHand("raise the receive buffer; if it is large enough, add workers"),
        ..row("buffer drops", "/proc/net/snmp", SHARE_MAX, SHARE)
    },
    Row {
        read: irqbalance,
        why: "it moves interrupts between CPUs every ten seconds, also to those of busy workers",
        see: "two readings of /proc/interrupts, a minute apart, grow on other CPUs",
        change: Change::ByHand("systemctl stop irqbalance, then spread the interrupts of the card by hand"),
        ..row("irqbalance", "/proc", Wanted::AtMost(0), "processes")
    },
    Row {
        read: governors,
        why: "after a pause a CPU is slow for some milliseconds",
        see: "p99 falls when the load rises",
        change: Change::Text(|_| Ok("performance".to_owned())),
        ..row(
            "CPU governor",
            "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            Wanted::AtMost(0),
            "CPUs not at performance",
        )
    },
    Row {
        read: idle_states,
        why: "a CPU that sleeps deeply wakes late; this adds to the first request after a pause",
        see: "p50 at 1 % load is far above p50 at 30 % load",
        change: Change::Text(|_| Ok("1".to_owned())),
        ..row("idle states", "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency", Wanted::AtMost(WAKE_US), "us")
    },
    Row {
        why: "workers wait by themselves (--wait); a wait of the kernel takes their CPU a second time",
        see: "forebay_worker_busy_seconds_total is far below process_cpu_seconds_total at low load",
        ..row("busy read", "/proc/sys/net/core/busy_read", Wanted::AtMost(0), "us")
    },
    Row {
        why: "as for busy read, where a worker sleeps",
        see: "as for busy read",
        ..row("busy poll", "/proc/sys/net/core/busy_poll", Wanted::AtMost(0), "us")
    },
    Row {
        read: base_slice,
        why: "a program beside the server keeps a worker waiting for as long",
        see: "forebay_worker_run_queue_wait_seconds_total grows",
        ..row("base slice", "/sys/kernel/debug/sched/base_slice_ns", Wanted::AtMost(3_000_000), "ns")
    },
];

/// The kernel's default `usual`, or `more` once the share that `counted` reads is worth a look.
fn raised(host: &Host, counted: fn(&Host, &str) -> Result<Seen, String>, usual: u64, more: u64) -> u64 {
    if counted(host, "/proc/net/softnet_stat").is_ok_and(|seen| seen.number > SHARE_PARTS) { more } else { usual }
}

/// Pages that all buffers take when they are full: the kernel counts its own share of each packet too, as much again.
fn udp_pages(host: &Host) -> u64 {
    let each: usize = BUFFER_LIMITS.iter().map(|limit| 2 * limit.bytes).sum();
    (host.sockets * each).div_ceil(host.page_bytes) as u64
}

/// One receiving CPU for four workers. A guess: of the 3 us that the kernel takes for a request, about 0.7 are before the
/// socket.
fn receivers(host: &Host) -> u64 {
    host.workers.div_ceil(4) as u64
}
