//! The most of everything that a worker and the queues between workers hold. Threads and virtual
//! time have the same bounds; `server/sizes.rs` shows that the packets suffice for all their
//! holders.

/// Datagrams that one receive takes, at most. Batches of 8 to 128 differ by 1.5 % in cost; a short
/// one keeps the memory at hand small.
pub const BATCH: usize = 32;

/// Places of a deque's smallest buffer. As long as no deque holds more, none reallocates.
pub const DEQUE_PLACES: usize = 64;

/// Jobs taken from a victim at once, at most. With the batch of a receive, which comes into empty
/// deques, they stay below [`DEQUE_PLACES`].
pub(super) const STEAL_MAX: usize = BATCH - 1;

/// A woken child or parent goes to a worker's own deque only below this length. With what one steal
/// brings, the deque stays below [`DEQUE_PLACES`].
pub(super) const WOKEN_MAX: usize = 32;

/// Jobs in the queues between workers, of all pools together, for each worker, where `--room` says
/// nothing else. A begun request that finds no room goes on, and those that wait for its worker
/// wait longer. With so much room that takes at most 0.9 ms, for what takes longer is not answered
/// in time behind so many others.
pub const ROOM: usize = 1_024;

/// Unfinished pieces of work from threads outside, for each worker: a sixteenth of what the queues
/// hold.
pub const SPAWNED_PER_WORKER: usize = 64;

/// Requests that are set aside because their shard is busy, for each worker with so much room.
/// They have packets of their own, so that others can be received.
pub const fn set_aside_per_worker(room: usize) -> usize {
    room / 4 + 32
}

/// Requests of one shard that are set aside, at most: the first packets of a few connections. A
/// shard that has more takes no more than a quarter of one worker's from the others.
pub const SET_ASIDE_OF_SHARD: usize = 64;

/// Requests that wait for an event outside of the workers, for each worker: a quarter of what the
/// queues hold. They have packets of their own, so that others can be received.
pub const WAITING_PER_WORKER: usize = 256;

/// Workers for each shard of a queue. With fewer shards the order is closer to first come, first
/// served. With more there is less contention for one cache line.
pub const WORKERS_PER_SHARD: usize = 16;

/// Packets for each worker with so much room: what it and the queues may hold. So however long the
/// queues are, fresh requests can be received.
pub const fn packets_per_worker(room: usize) -> usize {
    room + set_aside_per_worker(room) + 352
}

/// Sockets that one look at the watch set sees, at most; the next look sees the others.
pub const LOOK_MAX: usize = 64;

const _: () = assert!(WOKEN_MAX + STEAL_MAX < DEQUE_PLACES && BATCH + STEAL_MAX < DEQUE_PLACES);
