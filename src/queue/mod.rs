//! The sharded queue that joins pools: several bounded queues that act as one.
//!
//! Producers spread over the shards, so they do not meet on one cache line; consumers begin at a shard of their own and
//! look at all of them, so nothing is overlooked. Order holds within a shard only.

mod pool;

pub use pool::{ObjectPool, Pooled};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

/// A bounded queue of several shards.
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

    /// Adds `item` to the shorter of two shards, which are counted around, or to any other that has room.
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

    /// Takes an item, looking first at the shard of `hint`, then at every other.
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

    /// The number of waiting items; exact while nothing is pushed or popped.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// True if nothing waits; exact while nothing is pushed or popped.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_is_an_outcome_and_returns_the_item() {
        let queue = Sharded::new(3, 6);
        for item in 0..6 {
            assert_eq!(queue.push([item; 2], item), Ok(()));
        }
        assert_eq!(queue.push([0, 1], 6), Err(6));
        assert_eq!(queue.len(), 6);
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
    fn one_producer_fills_shards_evenly() {
        let queue = Sharded::new(2, 100);
        (0..20).for_each(|item| assert_eq!(queue.push([0, 1], item), Ok(())));
        assert!(queue.shards.iter().all(|shard| shard.len() == 10));
    }
}
