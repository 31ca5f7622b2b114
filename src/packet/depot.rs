//! A depot: boxes made at start, lent out, and back home when dropped, wherever that happens.

use crossbeam_queue::ArrayQueue;
use std::ops::{Deref, DerefMut};

/// The home of a fixed number of boxes.
///
/// Its queue holds exactly as many places as there are boxes, so a box that comes home always finds room.
pub struct Depot<T> {
    home: ArrayQueue<Box<T>>,
}

impl<T> Depot<T> {
    /// Makes `count` boxes.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: usize, mut make: impl FnMut() -> T) -> Depot<T> {
        let home = ArrayQueue::new(count);
        for _ in 0..count {
            if home.push(Box::new(make())).is_err() {
                unreachable!("the queue has one place for each box");
            }
        }
        Depot { home }
    }

    /// A box, or `None` when all are away.
    pub fn lend(&self) -> Option<Lent<'_, T>> {
        self.home.pop().map(|item| Lent { item: Some(item), home: self })
    }

    /// How many boxes are away; exact when nothing moves.
    pub fn away(&self) -> usize {
        self.home.capacity() - self.home.len()
    }

    /// How many boxes there are.
    pub fn capacity(&self) -> usize {
        self.home.capacity()
    }
}

/// A box on loan: it moves by ownership and goes home when dropped.
pub struct Lent<'d, T> {
    /// `None` only inside `drop`.
    item: Option<Box<T>>,
    home: &'d Depot<T>,
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("a lent box is taken only by drop")
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("a lent box is taken only by drop")
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            let returned = self.home.home.push(item);
            debug_assert!(returned.is_ok(), "the depot has one place for each of its boxes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_come_home_from_any_thread() {
        let depot = Depot::new(4, || 0_u32);
        let lent: Vec<_> = std::iter::from_fn(|| depot.lend()).collect();
        assert_eq!((lent.len(), depot.away()), (4, 4));
        assert!(depot.lend().is_none());
        std::thread::scope(|scope| {
            for mut item in lent {
                scope.spawn(move || *item += 1);
            }
        });
        assert_eq!(depot.away(), 0);
        let again: Vec<_> = std::iter::from_fn(|| depot.lend()).collect();
        assert!(again.iter().all(|item| **item == 1));
    }
}
