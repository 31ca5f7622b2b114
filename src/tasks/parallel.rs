//! Loops whose chunks run in parallel.

use super::error::JoinError;
use super::job::guarded;
use super::spawner::Spawner;
use super::{context, lock};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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
        let context = context::of(&self.scheduler);
        let pool = context.as_ref().map_or(0, |context| context.place.pool);
        let workers = self.scheduler.shared.policy().topology().members(pool).len();
        let takes_part = context.is_some();
        let turns = Arc::new(Turns {
            chunks: Chunks { range, chunk },
            body,
            next: AtomicUsize::new(0),
            state: Mutex::new(State { open: chunks, panic: None }),
            done: Condvar::new(),
        });
        let helpers = workers.min(chunks) - usize::from(takes_part).min(chunks);
        let mut accepted = takes_part;
        for _ in 0..helpers {
            let turns = Arc::clone(&turns);
            // A helper that is over has been refused, or has found nothing left to do.
            let helper = self.spawn(move || turns.take_part());
            accepted |= !matches!(helper.try_join(), Ok(Err(JoinError::ShutDown)));
        }
        if !accepted {
            return Err(JoinError::ShutDown);
        }
        if takes_part {
            turns.take_part();
        }
        turns.wait()
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
    state: Mutex<State>,
    done: Condvar,
}

struct State {
    /// Chunks that are not done.
    open: usize,
    /// The first panic.
    panic: Option<JoinError>,
}

impl<F: Fn(Range<usize>)> Turns<F> {
    /// Takes chunk after chunk until none is left.
    fn take_part(&self) {
        // Ordering: relaxed, it only deals out numbers; results travel by the lock. It cannot wrap: each worker stops
        // at the first number behind the end.
        while let Some(part) = self.chunks.part(self.next.fetch_add(1, Ordering::Relaxed)) {
            let failed = lock(&self.state).panic.is_some();
            let result = if failed { Ok(()) } else { guarded(|| (self.body)(part)) };
            let mut state = lock(&self.state);
            state.open -= 1;
            if let Err(panic) = result {
                state.panic.get_or_insert(panic);
            }
            if state.open == 0 {
                self.done.notify_all();
            }
        }
    }

    fn wait(&self) -> Result<(), JoinError> {
        let state = lock(&self.state);
        let mut state = self.done.wait_while(state, |state| state.open > 0).unwrap_or_else(PoisonError::into_inner);
        state.panic.take().map_or(Ok(()), Err)
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
