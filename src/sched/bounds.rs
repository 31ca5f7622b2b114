//! The capacity of everything between workers: deques, queues, batches, packets. Threads and
//! virtual time use the same bounds. `server/sizes.rs` shows that there are packets for all of
//! them.

/// The most datagrams of one receive. Batches of 8 to 128 differ by 1.5 % in cost, and a short one
/// keeps the memory in use small.
pub const BATCH: usize = 32;

/// Capacity of a deque's first buffer. A deque that stays below it never reallocates.
pub const DEQUE_PLACES: usize = 64;

/// The most jobs that one steal takes. With them, or with a batch received into an empty deque, a
/// deque stays below [`DEQUE_PLACES`].
pub(super) const STEAL_MAX: usize = BATCH - 1;

/// A woken child or parent enters the worker's own deque only if it holds fewer jobs than this.
/// Even with what one steal adds, the deque then stays below [`DEQUE_PLACES`].
pub(super) const WOKEN_MAX: usize = 32;

/// Default of `--room`: jobs per worker in the queues between workers, over all pools. A begun
/// request that finds no room runs on, while others wait for its worker. With this much room that
/// takes at most 0.9 ms, because longer requests behind so many others are shed as too late.
pub const ROOM: usize = 1_024;

/// The most unfinished work items from other threads, per worker: a sixteenth of [`ROOM`].
pub const SPAWNED_PER_WORKER: usize = 64;

/// The most requests per worker that are set aside because their shard is busy. `room` is that of
/// the queues, per worker. 32 of these requests have packets of their own. The others take
/// packets that the queues may need: while both are full, requests wait in the sockets.
pub const fn set_aside_per_worker(room: usize) -> usize {
    room / 4 + 32
}

/// The most requests of one shard of flows that are set aside: the first packets of a few
/// connections. A longer backlog may not take over a quarter of one worker's set-aside places.
pub const SET_ASIDE_OF_SHARD: usize = 64;

/// The most requests per worker that wait for an outside event: a quarter of [`ROOM`]. Each keeps
/// its packet; with no more than these, a worker can still receive a whole batch.
pub const WAITING_PER_WORKER: usize = 256;

/// Workers per shard of a queue. Fewer shards keep the order closer to first come, first served.
/// More shards reduce contention for a cache line.
pub const WORKERS_PER_SHARD: usize = 16;

/// Packets (memory for one request each) per worker, if the queues have this `room` per worker. As
/// many as the worker and the queues can hold, so that a fresh request can always be received while
/// few requests are set aside.
pub const fn packets_per_worker(room: usize) -> usize {
    room + 384
}

/// The most sockets that one look at the watch set reports. The next look reports the others.
pub const LOOK_MAX: usize = 64;

const _: () = assert!(WOKEN_MAX + STEAL_MAX < DEQUE_PLACES && BATCH + STEAL_MAX < DEQUE_PLACES);
