//! What a server takes: objects that it makes at start, as sums over all holders, memory, and file
//! descriptors.

use super::error::ServeError;
use super::path::packet::Slot;
use super::path::repeats::Repeats;
use super::path::shards::Shards;
use crate::config::Config;
use crate::handler::builtin::Asked;
use crate::metrics::{CLASS_BYTES, Track, Unfinished};
use crate::net::{BATCH, Io, SEND_BATCH_MAX};
use crate::runtime::continuation::WaitSlot;
use crate::sched;
use crate::sched::bounds::{WAITING_PER_WORKER, packets_per_worker, set_aside_per_worker};
use crate::server::path::packet::{Packet, PacketBody};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{fmt, fs};

/// Packets held ready to receive the next batch into.
const SPARE: usize = BATCH;
/// Jobs in a worker's deque, whose smallest buffer has 64 places. It holds a received batch, the
/// loot of one steal, or the children of a request with the jobs that they woke. With GRO, a batch
/// is less than 32 datagrams plus one GRO batch, and a GRO batch has at most 128.
const DEQUE: usize = BATCH - 1 + 128;
/// Replies waiting to be sent.
const OUTBOX: usize = SEND_BATCH_MAX;
/// The running request, or the request that waits for the running child.
const RUNNING: usize = 1;
/// Packets that one worker holds.
const WORKER: usize = SPARE + DEQUE + OUTBOX + RUNNING;

/// Packets for the thread that stops the server: it receives the rest in the sockets while all
/// other packets may be in use.
const STOPPING: usize = BATCH;

// A job in a queue holds one packet: its own, or for a child the packet of the request that waits
// for it.
const _: () = assert!(WORKER + set_aside_per_worker(0) + STOPPING <= packets_per_worker(0));
// Requests that wait have no packets of their own. However many do, a worker has a whole batch to
// receive, and one to answer; with half-full queues it has all that it can hold.
const _: () = assert!(WAITING_PER_WORKER + set_aside_per_worker(0) + STOPPING + 2 * BATCH <= packets_per_worker(0));
const _: () = assert!(BATCH == sched::bounds::BATCH, "what is received at once fits into a worker's deque");

/// Packets of the whole server.
pub(super) fn packets(config: &Config) -> usize {
    config.workers * packets_per_worker(config.room)
}

/// Places for half-done requests, each with a wait slot. There is one for each packet, which may be
/// in a half-done request, and a spare one for each worker.
pub(super) fn slots(config: &Config) -> usize {
    packets(config) + config.workers
}

/// Memory that a server keeps, as far as its settings determine it; resident once it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    workers: usize,
    /// Bytes made at start for each worker: packets, places for half-done requests, its share of
    /// the repeats, and memory to receive and send.
    pub worker_bytes: usize,
    /// Bytes allocated for each worker when the first request of a class is answered. A class that
    /// never occurs takes none, and one of which every request is answered a seventh less.
    pub class_bytes: usize,
}

/// Bytes that the allocator adds to each allocation by header and rounding.
const PIECE: usize = 16;
/// Bytes of the future that runs a built-in handler, including the handler's own future.
const FUTURE: usize = 512;
/// The rest of a worker's memory, as measured: its stack, engine, deques, share of the queues, and
/// memory to receive from the first address.
const THREAD: usize = 320 << 10;

/// Memory for all workers together, as measured: the stacks of the other threads, and what a
/// request to the endpoint takes.
const TOGETHER_BYTES: usize = 20 << 20;

impl Memory {
    /// The memory of a server with these settings and a built-in handler.
    pub fn of(config: &Config) -> Memory {
        let Config { workers, datagram_max, io, room, .. } = *config;
        let packet = size_of::<PacketBody<Asked>>() + PIECE + 2 * (datagram_max + PIECE) + Unfinished::packet_bytes();
        let slot = size_of::<Slot<()>>() + PIECE + size_of::<WaitSlot>() + 2 * PIECE + FUTURE + PIECE;
        let packets = packets_per_worker(room);
        let place = Shards::<Packet<'_, Asked>>::PLACE_BYTES;
        // What a worker receives and sends with at each further address, as measured.
        let address = match io {
            Io::Batches => 200 << 10,
            Io::Gro => 256 << 10,
        };
        let further = (config.listen.len() - 1) * address;
        let objects = packets * (packet + place) + (packets + 1) * slot;
        let worker_bytes = objects + Repeats::bytes(packets) + further + Track::bytes(workers) + THREAD;
        Memory { workers, worker_bytes, class_bytes: CLASS_BYTES }
    }

    /// Asks the system for all of it and the stacks at once and gives it back: a start that fails
    /// half-way aborts without a word.
    ///
    /// # Errors
    /// [`ServeError::Unavailable`] when there is not as much.
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

/// Descriptors per worker besides its sockets. These are its readiness queue, that queue's second
/// handle, its wake-up, and the ring in which the kernel gives notices.
const PER_WORKER: u64 = 4;

/// Descriptors per worker and address: a socket, and the second handle by which it is watched.
const PER_ADDRESS: u64 = 2;

/// Descriptors for all workers together: the watch set, the admin endpoint with its 32 connections,
/// signals, and files read in between.
const TOGETHER: u64 = 64;

/// Assumed number of descriptors already open in a process where that cannot be read.
const USUAL: u64 = 8;

/// Raises the limit to what the kernel allows this process.
///
/// # Errors
/// [`ServeError::Unavailable`] when that is too little for `workers` workers on this many
/// addresses.
pub(super) fn provide_descriptors(workers: usize, addresses: usize) -> Result<(), ServeError> {
    let open = fs::read_dir("/proc/self/fd").map_or(USUAL, |entries| entries.count() as u64);
    let needed = open + workers as u64 * (PER_WORKER + PER_ADDRESS * addresses as u64) + TOGETHER;
    // A limit that cannot be read or raised shows when sockets are opened.
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
