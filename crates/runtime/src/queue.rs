//! [`Sharded`], a queue of several bounded queues that act as one, and [`ObjectPool`], a fixed set
//! of reusable objects.
//!
//! Producers spread their items over the shards, so they do not contend for one cache line.
//! Consumers look at all shards in turn, so no item is overlooked. Only items of one shard keep
//! their order; [`Sharded`] says how far the whole queue is from first come, first served.

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::ops::{Deref, DerefMut};

/// A bounded queue of several shards.
///
/// # How far from first come, first served
///
/// The *rank error* of an item is the number of earlier items that are still in the queue when a
/// consumer takes this one. The sum of all rank errors is the number of times that a later item
/// overtakes an earlier one.
///
/// Take an item of shard `A`, and another shard `B`. When the producer puts the item, `B` holds `L`
/// items more than `A` (fewer, if `L` is negative). While the item waits, consumers take `T` items
/// more from `A` than from `B`. Shards are first in, first out. When a consumer takes the item, `A`
/// holds no earlier item, and `B` holds at most `L + T` of them. So the rank error is at most the
/// sum of `max(0, L + T)` over all other shards. This holds for any producers and consumers, if
/// each operation takes effect at one moment.
///
/// - Let each of `C` consumers begin each search one shard further than its last. While no shard at
///   which a consumer begins is empty, it takes at most one item more from `A` than from `B`. So `T
///   <= C`.
/// - Let `P` producers put their items into the shards in turn. While no shard is full, each puts
///   at most one item more into `B` than into `A`. Together with these consumers, `L <= P + C` from
///   the last time when all shards were equally long. With `S` shards the rank error is then at
///   most `(S - 1) (P + 2C)`, however long the queue is.
/// - Let producers choose the shorter of two random shards ([`crate::sched::sharing::shards`]).
///   This bounds `L` only with high probability; `benches/RESULTS.md` has measurements. If they
///   chose one random shard, `L` would grow with the square root of the number of items.
/// - If each consumer always began at the same shard, `T` would have no bound. A shard at which no
///   consumer begins would be served only when others are empty, which never happens under
///   overload.
///
/// If there are fewer items than shards, a consumer finds some shards empty, and the number of
/// items bounds the error. If a thread is interrupted inside an operation, operations of other
/// threads in the meantime add to the error, as in any concurrent queue.
pub struct Sharded<T> {
    shards: Box<[CachePadded<ArrayQueue<T>>]>,
}

impl<T> Sharded<T> {
    /// A queue of `shards` shards with room for at least `capacity` items in all.
    ///
    /// # Panics
    /// If `shards` or `capacity` is zero.
    pub fn new(shards: usize, capacity: usize) -> Sharded<T> {
        assert!(shards > 0, "a sharded queue has at least one shard");
        let each = capacity.div_ceil(shards);
        Sharded { shards: (0..shards).map(|_| CachePadded::new(ArrayQueue::new(each))).collect() }
    }

    /// Adds `item` to the shorter of the two shards `between`, which are taken modulo the number of
    /// shards. If both are full, any other shard with room takes it.
    ///
    /// # Errors
    /// The item, when every shard is full.
    pub fn push(&self, between: [usize; 2], item: T) -> Result<(), T> {
        if let [only] = &*self.shards {
            return only.push(item);
        }
        let shards = self.shards.len();
        let [mut first, second] = between.map(|shard| shard % shards);
        if first != second && self.shards[second].len() < self.shards[first].len() {
            first = second;
        }
        let mut item = item;
        for offset in 0..shards {
            match self.shards[(first + offset) % shards].push(item) {
                Ok(()) => return Ok(()),
                Err(back) => item = back,
            }
        }
        Err(item)
    }

    /// Takes an item from the first shard that has one, beginning at shard `hint`. Consumers that
    /// increase their hint with each item serve all shards equally.
    pub fn pop(&self, hint: usize) -> Option<T> {
        if let [only] = &*self.shards {
            return only.pop();
        }
        let shards = self.shards.len();
        (0..shards).find_map(|offset| self.shards[(hint + offset) % shards].pop())
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Number of items in the queue; exact while nothing is pushed or popped.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether the queue is empty; exact while nothing is pushed or popped.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }
}

/// A pool with a fixed number of objects, each free or in use.
///
/// The queue of free objects has a place for each object, so a returned object always finds room.
pub struct ObjectPool<T> {
    free: ArrayQueue<Box<T>>,
}

impl<T> ObjectPool<T> {
    /// Makes `count` objects by calling `make` with 0, 1, and so on.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: usize, mut make: impl FnMut(usize) -> T) -> ObjectPool<T> {
        let free = ArrayQueue::new(count);
        for number in 0..count {
            if free.push(Box::new(make(number))).is_err() {
                unreachable!("the queue has one place for each object");
            }
        }
        ObjectPool { free }
    }

    /// A free object, or `None` when all are in use.
    pub fn acquire(&self) -> Option<Pooled<'_, T>> {
        self.free.pop().map(|item| Pooled { item: Some(item), pool: self })
    }

    /// Takes all free objects out, for good, and gives each to `end`.
    pub fn empty(&self, end: impl FnMut(Box<T>)) {
        std::iter::from_fn(|| self.free.pop()).for_each(end);
    }

    /// The number of objects in use; exact while no object is acquired or returned.
    pub fn in_use(&self) -> usize {
        self.free.capacity() - self.free.len()
    }

    /// Whether at least half of the objects are free; may be stale.
    pub fn is_half_free(&self) -> bool {
        self.free.len() >= self.free.capacity() / 2
    }
}

/// An object in use, owned by the holder. Dropping it returns the object to its pool.
pub struct Pooled<'p, T> {
    /// `None` only inside `drop`.
    item: Option<Box<T>>,
    pool: &'p ObjectPool<T>,
}

impl<T> Deref for Pooled<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("only drop takes the object out")
    }
}

impl<T> DerefMut for Pooled<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("only drop takes the object out")
    }
}

impl<T> Drop for Pooled<'_, T> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            let returned = self.pool.free.push(item);
            debug_assert!(returned.is_ok(), "the queue has one place for each object");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_producer_fills_shards_evenly_and_full_is_an_outcome() {
        let queue = Sharded::new(2, 20);
        (0..20).for_each(|item| assert_eq!(queue.push([0, 1], item), Ok(())));
        assert!(queue.shards.iter().all(|shard| shard.len() == 10));
        assert_eq!((queue.push([0, 1], 20), queue.len()), (Err(20), 20));
    }

    #[test]
    fn every_item_is_found_from_every_hint() {
        for hint in 0..5 {
            let queue = Sharded::new(4, 64);
            (0..64).for_each(|item| assert_eq!(queue.push([item; 2], item), Ok(())));
            let mut found: Vec<usize> = std::iter::from_fn(|| queue.pop(hint)).collect();
            found.sort_unstable();
            assert_eq!(found, (0..64).collect::<Vec<_>>());
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn objects_return_from_any_thread() {
        let pool = ObjectPool::new(4, |_| 0_u32);
        let acquired: Vec<_> = std::iter::from_fn(|| pool.acquire()).collect();
        assert_eq!((acquired.len(), pool.in_use()), (4, 4));
        assert!(pool.acquire().is_none());
        std::thread::scope(|scope| {
            for mut item in acquired {
                scope.spawn(move || *item += 1);
            }
        });
        assert_eq!(pool.in_use(), 0);
        let again: Vec<_> = std::iter::from_fn(|| pool.acquire()).collect();
        assert!(again.iter().all(|item| **item == 1));
    }
}
