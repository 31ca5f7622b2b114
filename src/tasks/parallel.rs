//! Loops whose chunks run in parallel.

use super::error::JoinError;
use super::spawner::Spawner;
use super::worker;
use crate::runtime::continuation::{guarded, lock};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

impl Spawner {
    /// Calls `body` for every part of `range`, each `chunk` long but perhaps the last. Returns when all parts are done. A
    /// calling task takes part itself, so it waits only for chunks that other workers have begun. After a panic no
    /// further chunk begins.
    ///
    /// The body lives as long as its tasks, so it cannot borrow; [`super::scope`] is for bodies that do.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with one of the panics, or why nothing ran.
    pub fn parallel_for<F>(&self, range: Range<usize>, chunk: NonZeroUsize, body: F) -> Result<(), JoinError>
    where
        F: Fn(Range<usize>) + Send + Sync + 'static,
    {
        let chunks = range.len().div_ceil(chunk.get());
        let left = Arc::new(Mutex::new(Some(parts(range, chunk))));
        let body = Arc::new(body);
        let take_part = move || -> Result<(), JoinError> {
            let next = || lock(&left).as_mut()?.next();
            while let Some(part) = next() {
                guarded(|| body(part)).inspect_err(|_| *lock(&left) = None)?;
            }
            Ok(())
        };
        let is_task = worker::of(&self.scheduler).is_some();
        let helpers = usize::from(is_task)..self.scheduler.shared.policy().topology().workers().min(chunks);
        let helpers: Vec<_> = helpers.map(|_| self.spawn(take_part.clone())).collect();
        let own = is_task.then(take_part);
        let ends = helpers.into_iter().map(|helper| helper.join().flatten());
        // Whichever has ended well has found no chunk left, so others may have been refused.
        let weight = |end: &Result<(), JoinError>| match end {
            Err(JoinError::Panicked(_)) => 2,
            Ok(()) => 1,
            Err(_) => 0,
        };
        own.into_iter().chain(ends).max_by_key(weight).unwrap_or(Ok(()))
    }
}

/// The parts of `range`, each `chunk` long but perhaps the last.
pub(super) fn parts(range: Range<usize>, chunk: NonZeroUsize) -> impl Iterator<Item = Range<usize>> + Send {
    let end = range.end;
    range.step_by(chunk.get()).map(move |start| start..start.saturating_add(chunk.get()).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_range_are_the_range() {
        for (range, chunk) in [(0..10, 3), (5..5, 1), (7..8, 100), (0..12, 4), (usize::MAX - 5..usize::MAX, 2)] {
            let parts: Vec<usize> = parts(range.clone(), NonZeroUsize::new(chunk).unwrap()).flatten().collect();
            assert_eq!(parts, range.collect::<Vec<_>>());
        }
    }
}
