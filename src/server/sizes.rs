//! The resources of a server: objects made at the start, as sums over all holders, memory, and file
//! descriptors.

use super::error::ServeError;
use super::path::job::Slot;
use super::path::repeats::Repeats;
use crate::config::Config;
use crate::handler::builtin::Asked;
use crate::metrics::{CLASS_BYTES, Track, UnfinishedRequests};
use crate::net::{BATCH, Io, SEND_BATCH_MAX};
use crate::runtime::continuation::WaitSlot;
use crate::sched;
use crate::sched::bounds::{BEGUN_PER_WORKER, WAITING_PER_WORKER, packets_per_worker, set_aside_per_worker};
use crate::server::path::packet::{Packet, PacketBody};
use crate::shards::{Bounds, Turns};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{fmt, fs};

/// Packets that a worker keeps ready to receive the next batch into.
const SPARE: usize = BATCH;
/// The most jobs in a worker's deque, whose smallest buffer has 64 places. It holds a received
/// batch, the loot of one steal, or a request's children with the jobs that they woke. With GRO, a
/// batch is less than 32 datagrams plus one GRO batch of at most 128.
const DEQUE: usize = BATCH - 1 + 128;
/// Replies of a worker that wait to be sent.
const OUTBOX: usize = SEND_BATCH_MAX;
/// The running request, or the request that waits for the running child.
const RUNNING: usize = 1;
/// Packets that one worker holds.
const WORKER: usize = SPARE + DEQUE + OUTBOX + RUNNING;

/// Packets for the thread that stops the server. It receives the rest from the sockets while all
/// other packets may be in use.
const STOPPING: usize = BATCH;

// A job in a queue holds one packet: its own, or for a child that of the waiting request.
const _: () = assert!(WORKER + set_aside_per_worker(0) + STOPPING <= packets_per_worker(0));
// No packets are reserved for waiting requests. However many wait, a worker has a batch of packets
// to receive and one to answer. With half-full queues it has all that it can hold.
const _: () = assert!(WAITING_PER_WORKER + set_aside_per_worker(0) + STOPPING + 2 * BATCH <= packets_per_worker(0));
const _: () = assert!(BATCH == sched::bounds::BATCH, "what is received at once fits into a worker's deque");

/// Number of packets of the whole server.
pub(super) fn packets(config: &Config) -> usize {
    config.workers * packets_per_worker(config.room)
}

/// Number of places for half-done requests, each with a wait slot: one for each packet, and a spare
/// one for each worker.
pub(super) fn slots(config: &Config) -> usize {
    packets(config) + config.workers
}

/// What bounds the shards of a server with so many `sockets`. A shard has this `room`.
pub(super) fn shards(config: &Config, room: usize, sockets: usize) -> Bounds {
    Bounds {
        packets: packets(config),
        set_aside: config.workers * set_aside_per_worker(config.room),
        set_aside_of_shard: room.min(u16::MAX.into()),
        sockets,
        workers: config.workers + 1,
        begun: config.workers * BEGUN_PER_WORKER,
    }
}

/// Memory that a server keeps, as far as its settings determine it. Resident once used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    workers: usize,
    /// Bytes per worker made at the start: packets, places for half-done requests, its share of
    /// the repeats, and buffers to receive and send.
    pub worker_bytes: usize,
    /// Bytes per worker allocated when the first request of a class is answered. Zero for classes
    /// that never occur, and a seventh less for those of which every request is answered. A seventh
    /// more for those with work aside.
    pub class_bytes: usize,
}

/// Bytes that the allocator adds to each allocation, by header and rounding.
const PIECE: usize = 16;
/// Bytes of the future that runs a built-in handler, the handler's own future included.
const FUTURE: usize = 512;
/// The rest of a worker's memory, measured: its stack, engine, deque, share of the queues, and
/// receive buffers of the first address.
const THREAD: usize = 320 << 10;

/// Memory for all workers together, measured: the stacks of the other threads, and a request to the
/// endpoint.
const TOGETHER_BYTES: usize = 20 << 20;

impl Memory {
    /// The memory of a server with these settings and a built-in handler.
    pub fn of(config: &Config) -> Memory {
        let Config { workers, datagram_max, io, room, .. } = *config;
        let packet =
            size_of::<PacketBody<Asked>>() + PIECE + 2 * (datagram_max + PIECE) + UnfinishedRequests::packet_bytes();
        let slot = size_of::<Slot<()>>() + PIECE + size_of::<WaitSlot>() + 2 * PIECE + FUTURE + PIECE;
        let packets = packets_per_worker(room);
        let place = Turns::<Packet<'_, Asked>>::PLACE_BYTES;
        // Buffers for each further address, measured.
        let address = match io {
            Io::Batches => 200 << 10,
            Io::Gro => 256 << 10,
        };
        let further = (config.listen.len() - 1) * address;
        let objects = packets * (packet + place) + (packets + 1) * slot;
        let worker_bytes = objects + Repeats::bytes(packets) + further + Track::bytes(workers) + THREAD;
        Memory { workers, worker_bytes, class_bytes: CLASS_BYTES }
    }

    /// Asks the system for all memory and stacks at once, and gives it back. Otherwise a start that
    /// fails half-way would abort without a message.
    ///
    /// # Errors
    /// [`ServeError::Unavailable`] if there is not enough memory.
    pub(super) fn probe(self, stack_bytes: usize) -> Result<(), ServeError> {
        let bytes = self.workers * (self.worker_bytes + stack_bytes) + TOGETHER_BYTES;
        Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
            let (workers, mib) = (self.workers, bytes.div_ceil(1 << 20));
            ServeError::Unavailable(format!(
                "--workers {workers}: needs {mib} MiB of memory, which this system does not give; allowed: fewer workers, or \
                 a higher limit: `ulimit -v`, LimitAS= in a systemd unit, vm.overcommit_memory"
            ))
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let Memory { workers, worker_bytes, class_bytes } = *self;
        write!(
            f,
            "memory: {workers} workers x {:.1} MiB = {:.0} MiB at start, and {:.1} MiB per worker for each class that occurs",
            mib(worker_bytes),
            mib(workers * worker_bytes),
            mib(class_bytes)
        )
    }
}

/// Descriptors per worker besides its sockets: its readiness queue, a second handle of the queue,
/// its waker, and the ring for notices.
const PER_WORKER: u64 = 4;

/// Descriptors per worker and address: a socket, and a second handle to watch it.
const PER_ADDRESS: u64 = 2;

/// Descriptors for all workers together: the watch set, the admin endpoint with 32 connections,
/// signals, and files read now and then.
const TOGETHER: u64 = 64;

/// Assumed number of open descriptors if it cannot be read.
const USUAL: u64 = 8;

/// Raises the limit of open files to what the kernel allows this process.
///
/// # Errors
/// [`ServeError::Unavailable`] if that is too little for `workers` workers on `addresses`
/// addresses.
pub(super) fn provide_descriptors(workers: usize, addresses: usize) -> Result<(), ServeError> {
    let open = fs::read_dir("/proc/self/fd").map_or(USUAL, |entries| entries.count() as u64);
    let needed = open + workers as u64 * (PER_WORKER + PER_ADDRESS * addresses as u64) + TOGETHER;
    // If the limit cannot be read or raised, opening sockets fails later.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let allowed = if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err() { soft } else { hard };
    if allowed < needed {
        return Err(ServeError::Unavailable(format!(
            "--workers {workers}: needs {needed} file descriptors, and this process may open {allowed} (the hard limit of \
             RLIMIT_NOFILE); allowed: fewer workers, four descriptors each and two more for each address of --listen, or a \
             higher limit: LimitNOFILE={needed} in a systemd unit, --ulimit nofile={needed} for a container, `ulimit -Hn \
             {needed}` as root in a shell"
        )));
    }
    Ok(())
}
