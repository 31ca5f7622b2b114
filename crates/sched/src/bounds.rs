//! The capacities of deques, queues, batches and packets. Threads and virtual time use the same
//! bounds. `server/sizes.rs` proves that there are enough packets for all of them together.

/// The most datagrams of one receive. Batches of 8 to 128 differ by only 1.5 % in cost, and a small
/// batch touches less memory.
pub const BATCH: usize = 32;

/// Capacity of a deque's first buffer. A deque that stays below it never reallocates.
pub const DEQUE_PLACES: usize = 64;

/// The most jobs that one steal takes. Stolen jobs together with one received batch fit into a
/// deque without reallocation.
pub(super) const STEAL_MAX: usize = BATCH - 1;

/// A woken child or parent enters the worker's own deque only if the deque holds fewer jobs than
/// this. So even a steal after it leaves the deque below [`DEQUE_PLACES`].
pub(super) const WOKEN_MAX: usize = 32;

/// Default of `--room`: jobs per worker in the queues between workers, over all pools. If a begun
/// request finds no room, it runs on, and other requests wait for its worker. With this default it
/// runs on for at most 0.9 ms: a longer request would wait too long behind 1,024 others, and is
/// shed.
pub const ROOM: usize = 1_024;

/// The most unfinished work items from other threads, per worker: a sixteenth of [`ROOM`].
pub const SPAWNED_PER_WORKER: usize = 64;

/// The most unfinished requests that shards have begun, per worker: a quarter of [`ROOM`]. A shard
/// that finds no room keeps its work, and begins it later.
pub const BEGUN_PER_WORKER: usize = 256;

/// The most requests per worker that are set aside because their shard is busy (a shard serves one
/// request at a time). `room` is the capacity of the queues, per worker. For 32 of these requests
/// there are extra packets. The others use packets of the queues. So if the queues are full too,
/// new requests wait in the sockets.
pub const fn set_aside_per_worker(room: usize) -> usize {
    room / 4 + 32
}

/// The most requests of one shard of flows that are set aside: enough for the first packets of a
/// few connections. It is less than a quarter of one worker's places, so that one busy shard cannot
/// take them all.
pub const SET_ASIDE_OF_SHARD: usize = 64;

/// The most requests per worker that wait for an outside event: a quarter of [`ROOM`]. Each keeps
/// its packet; with no more than these, a worker can still receive a whole batch.
pub const WAITING_PER_WORKER: usize = 256;

/// Workers per shard of a queue. Fewer shards keep the order closer to first come, first served.
/// More shards reduce contention for a cache line.
pub const WORKERS_PER_SHARD: usize = 16;

/// Number of packets (memory for one request each) per worker, if the queues have this `room` per
/// worker. It covers all that a worker and the queues can hold. So while few requests are set
/// aside, a fresh request can always be received.
pub const fn packets_per_worker(room: usize) -> usize {
    room + 384
}

/// The most sockets that one look at the watch set reports. The next look reports the others.
pub const LOOK_MAX: usize = 64;

const _: () = assert!(WOKEN_MAX + STEAL_MAX < DEQUE_PLACES && BATCH + STEAL_MAX < DEQUE_PLACES);
