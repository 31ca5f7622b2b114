//! Loops whose chunks run in parallel.

use super::error::JoinError;
use super::outcome::Outcome;
use super::spawner::Spawner;
use super::worker;
use crate::runtime::continuation::guarded;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

impl Spawner {
    /// Calls `body` for every part of `range`, each `chunk` long but perhaps the last, on the workers of one pool -
    /// that of the calling task, or the first - and returns when all of it is done. A calling task takes part itself,
    /// so it never waits for anything but chunks that others are in the middle of. After a panic no further chunk
    /// begins.
    ///
    /// The body lives as long as its tasks, so it cannot borrow; [`super::scope`] is for bodies that do.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with the first panic, [`JoinError::ShutDown`] if nothing ran.
    pub fn parallel_for<F>(&self, range: Range<usize>, chunk: NonZeroUsize, body: F) -> Result<(), JoinError>
    where
        F: Fn(Range<usize>) + Send + Sync + 'static,
    {
        let chunks = range.len().div_ceil(chunk.get());
        if chunks == 0 {
            return Ok(());
        }
        let place = worker::of(&self.scheduler);
        let pool = place.as_ref().map_or(0, |place| place.pool);
        let workers = self.scheduler.shared.policy().topology().members(pool).len();
        let turns = Arc::new(Turns {
            chunks: Chunks { range, chunk },
            body,
            next: AtomicUsize::new(0),
            open: AtomicUsize::new(chunks),
            panic: OnceLock::new(),
            done: Outcome::new(self.scheduler.number),
        });
        let mut accepted = place.is_some();
        for _ in usize::from(accepted)..workers.min(chunks) {
            let turns = Arc::clone(&turns);
            accepted |= self.spawn(move || turns.take_part()).refusal().is_none();
        }
        if !accepted {
            return Err(JoinError::ShutDown);
        }
        if place.is_some() {
            turns.take_part();
        }
        turns.done.wait().unwrap_or(Ok(()))
    }
}

/// A range in parts.
pub(super) struct Chunks {
    pub(super) range: Range<usize>,
    pub(super) chunk: NonZeroUsize,
}

impl Chunks {
    /// Part `number` of the range, counted from 0; `None` behind the last.
    pub(super) fn part(&self, number: usize) -> Option<Range<usize>> {
        let start = number.checked_mul(self.chunk.get())?.checked_add(self.range.start)?;
        let end = start.saturating_add(self.chunk.get()).min(self.range.end);
        (start < end).then_some(start..end)
    }
}

/// A loop on its way.
struct Turns<F> {
    chunks: Chunks,
    body: F,
    next: AtomicUsize,
    /// Chunks that are not done.
    open: AtomicUsize,
    /// The first panic.
    panic: OnceLock<JoinError>,
    done: Outcome<()>,
}

impl<F: Fn(Range<usize>)> Turns<F> {
    /// Takes chunk after chunk until none is left.
    fn take_part(&self) {
        // Ordering: relaxed, it only deals out numbers; results travel by `open`. It cannot wrap: each worker stops at
        // the first number behind the end.
        while let Some(part) = self.chunks.part(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.panic.get().is_none()
                && let Err(panic) = guarded(|| (self.body)(part))
            {
                let _ = self.panic.set(panic.into());
            }
            // Ordering: the last to leave acquires what the others did before they left.
            if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.done.complete(self.panic.get().cloned().map_or(Ok(()), Err));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_range_are_the_range() {
        for (range, chunk) in [(0..10, 3), (5..5, 1), (7..8, 100), (0..12, 4), (usize::MAX - 5..usize::MAX, 2)] {
            let chunks = Chunks { range: range.clone(), chunk: NonZeroUsize::new(chunk).unwrap() };
            let parts: Vec<usize> = (0..).map_while(|number| chunks.part(number)).flatten().collect();
            assert_eq!(parts, range.collect::<Vec<_>>());
        }
    }
}
