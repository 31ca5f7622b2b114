//! Many independent computations on all CPUs.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

/// Applies `work` to each of `items`, in parallel on all CPUs; returns the results in the order of
/// the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(items.len());
    let left = Mutex::new(items.iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worked = || iter::from_fn(next).map(|(number, item)| (number, work(item))).collect::<Vec<_>>();
    let mut results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worked)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_their_items() {
        let items: Vec<u64> = (0..1_000).collect();
        assert!(super::map(&items, |item| item * item).into_iter().eq(items.iter().map(|item| item * item)));
        assert!(super::map(&[], |item: &u64| *item).is_empty());
    }
}
