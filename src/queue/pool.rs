//! A pool of objects: made at start, acquired, and returned when dropped, wherever that happens.

use crossbeam_queue::ArrayQueue;
use std::ops::{Deref, DerefMut};

/// A fixed number of objects, each either free or in use.
///
/// The queue of the free ones has as many places as there are objects, so a return always finds room.
pub struct ObjectPool<T> {
    free: ArrayQueue<Box<T>>,
}

impl<T> ObjectPool<T> {
    /// Makes `count` objects; `make` gets the number of each.
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

    /// The number of objects in use; exact while no object is acquired or returned.
    pub fn in_use(&self) -> usize {
        self.free.capacity() - self.free.len()
    }

    /// Number of objects, free or in use.
    pub fn capacity(&self) -> usize {
        self.free.capacity()
    }
}

/// An object in use: moves by ownership, and returns to its pool when dropped.
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
