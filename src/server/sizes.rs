//! How much of everything a server makes at start: sums over all who may hold some of it at once.

use super::path::slot::Slot;
use crate::metrics::class_bytes;
use crate::net::{BATCH, SEND_BATCH_MAX};
use crate::runtime::continuation::WaitSlot;
use crate::sched::bounds::{PACKETS_PER_WORKER, QUEUED_PER_WORKER};
use crate::sched::{self};
use crate::server::path::packet::PacketBody;
use std::fmt;

/// Packets at hand to receive the next batch into.
const SPARE: usize = BATCH;
/// Jobs in a worker's deque, whose smallest buffer has 64 places: a batch that was received, or what one theft brought, or
/// the children of a request and what they woke. Where GRO batches are taken whole, a batch is less than 32 datagrams and a GRO batch,
/// and a GRO batch has at most 128.
const DEQUE: usize = BATCH - 1 + 128;
/// Replies that wait to be sent.
const OUTBOX: usize = SEND_BATCH_MAX;
/// The request that runs, or that waits for the child that does.
const RUNNING: usize = 1;
/// What one worker holds.
const WORKER: usize = SPARE + DEQUE + OUTBOX + RUNNING;

/// The thread that stops the server receives what is left in the sockets, when all other packets may be away.
const STOPPING: usize = BATCH;

// A job in a queue holds one packet: its own, or, if it is a child, that of the request that waits for it.
const _: () = assert!(WORKER + QUEUED_PER_WORKER + STOPPING <= PACKETS_PER_WORKER);
const _: () = assert!(BATCH == sched::bounds::BATCH, "what is received at once fits into a worker's deque");
const _: () = assert!(2 * QUEUED_PER_WORKER <= PACKETS_PER_WORKER, "at most half of the packets wait in queues");

/// How much a server makes at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) packets: usize,
    /// Jobs in all queues together, at most.
    pub(super) queued: usize,
    /// Places for half-done requests, each with a wait slot: one for each packet, for each may be in one, and
    /// one that each worker keeps at hand.
    pub(super) slots: usize,
}

impl Sizes {
    /// Those of a server of so many workers.
    pub(super) fn of(workers: usize) -> Sizes {
        let packets = workers * PACKETS_PER_WORKER;
        let sizes = Sizes { packets, queued: workers * QUEUED_PER_WORKER, slots: packets + workers };
        let held = workers * WORKER + sizes.queued + STOPPING;
        assert!(held <= sizes.packets, "{held} packets may be held, there are {}", sizes.packets);
        sizes
    }
}

/// Memory that a server keeps, as far as it follows from its settings; resident when it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    workers: usize,
    /// Bytes made at start for each worker: packets, and places for half-done requests.
    pub worker_bytes: usize,
    /// Bytes made for each worker when the first request of a class is answered: two sets of histograms, of which one is
    /// read while the other is filled. A class that never occurs takes none.
    pub class_bytes: usize,
}

/// What the allocator adds to each piece, and rounds up.
const PIECE: usize = 16;
/// The future that runs a built-in handler, and the handler's own, which it holds.
const FUTURE: usize = 512;
/// What is left of a worker's memory, as measured: its stack, engine, deques and share of the queues.
const THREAD: usize = 320 << 10;

impl Memory {
    /// Of a server of so many workers, with a built-in handler.
    pub fn of(workers: usize) -> Memory {
        let packet = size_of::<PacketBody>() + PIECE;
        let slot = size_of::<Slot<()>>() + PIECE + size_of::<WaitSlot>() + 2 * PIECE + FUTURE + PIECE;
        let sizes = Sizes::of(1);
        let worker_bytes = sizes.packets * packet + sizes.slots * slot + THREAD;
        Memory { workers, worker_bytes, class_bytes: 2 * class_bytes() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WORKERS_MAX;

    #[test]
    fn packets_suffice_for_all_holders_of_every_number_of_workers() {
        for workers in 1..=WORKERS_MAX {
            let Sizes { packets, queued, slots } = Sizes::of(workers);
            assert!(2 * queued <= packets && slots == packets + workers, "{workers} workers");
        }
    }
}
