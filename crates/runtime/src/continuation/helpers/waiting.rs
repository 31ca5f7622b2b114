//! The work that waits for helpers, oldest first, and how long new work is expected to wait.

use crate::time::Nanos;
use std::collections::VecDeque;

/// Work that is expected to wait this long finds no room. Clients of UDP services repeat a request
/// after a second or more. The other half of that second is for the work itself, for what follows
/// it, and for errors of the estimate.
pub(super) const WAIT_MAX: Nanos = Nanos::from_millis(500);

/// The most pieces that wait for each helper: a bound of the memory that waits. Pieces of half a
/// millisecond reach [`WAIT_MAX`] first.
pub(super) const WAITING_PER_HELPER: usize = 1_024;

/// What a piece of work takes until that is measured: about as long as a signature.
const PACE: Nanos = Nanos::from_millis(1);

/// A new measurement counts as one part in this many of the pace.
const PACE_PARTS: u64 = 8;

/// Pieces of work that wait.
pub(super) struct Waiting<W> {
    pieces: VecDeque<QueuedPiece<W>>,
    /// When a helper last took a piece.
    taken_at: Nanos,
    /// The mean time from one take to the next, as long as pieces wait.
    pace: Nanos,
}

struct QueuedPiece<W> {
    work: W,
    came_at: Nanos,
    /// Whether others waited when the piece came. Then it also waited at the take before its own.
    was_behind: bool,
}

impl<W> Waiting<W> {
    /// Nothing waits.
    pub(super) const fn new() -> Waiting<W> {
        Waiting { pieces: VecDeque::new(), taken_at: Nanos::ZERO, pace: PACE }
    }

    /// How long a piece that comes at `now` is expected to wait. At their recent pace, helpers take
    /// this long for all that wait. If they have stopped, the time since then counts.
    pub(super) fn expected(&self, now: Nanos) -> Nanos {
        let Some(oldest) = self.pieces.front() else { return Nanos::ZERO };
        let since = now.minus(self.taken_at.max(oldest.came_at));
        self.pace.times(self.pieces.len() as u64).max(since)
    }

    /// Whether a piece that comes at `now` finds room before this number of helpers.
    pub(super) fn has_room(&self, now: Nanos, helpers: usize) -> bool {
        self.pieces.len() < helpers * WAITING_PER_HELPER && self.expected(now) < WAIT_MAX
    }

    pub(super) fn put(&mut self, work: W, now: Nanos) {
        let was_behind = !self.pieces.is_empty();
        self.pieces.push_back(QueuedPiece { work, came_at: now, was_behind });
    }

    /// Takes the oldest piece.
    pub(super) fn take(&mut self, now: Nanos) -> Option<W> {
        let piece = self.pieces.pop_front()?;
        if piece.was_behind {
            let others = Nanos::new(self.pace.get() / PACE_PARTS).times(PACE_PARTS - 1);
            self.pace = others.plus(Nanos::new(now.minus(self.taken_at).get() / PACE_PARTS));
        }
        self.taken_at = now;
        Some(piece.work)
    }

    /// When the oldest piece has waited for `patience`; `None` if nothing waits.
    pub(super) fn overdue_at(&self, patience: Nanos) -> Option<Nanos> {
        self.pieces.front().map(|oldest| oldest.came_at.plus(patience))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Puts pieces at `now` until one finds no room; returns how many fitted.
    fn fill(waiting: &mut Waiting<()>, now: Nanos, helpers: usize) -> usize {
        let before = waiting.pieces.len();
        while waiting.has_room(now, helpers) {
            waiting.put((), now);
        }
        waiting.pieces.len() - before
    }

    // Does as much find room as ends in time, at the pace that is measured? Is the last piece
    // that found room taken in time, after the pace has changed?
    #[test]
    fn room_follows_the_pace() {
        let (mut waiting, mut now) = (Waiting::new(), MS(1_000));
        assert_eq!(fill(&mut waiting, now, 1), 500, "unmeasured");
        for (pace, fits) in [(4, 125), (1, 500), (20, 25)] {
            for _ in 0..1_000 {
                now = now.plus(MS(pace));
                waiting.take(now).expect("others wait");
                fill(&mut waiting, now, 1);
            }
            let waits = waiting.pieces.len();
            assert!(waits.abs_diff(fits) <= fits / 8, "{pace} ms: {waits}");
            let oldest = now.minus(waiting.pieces[0].came_at);
            assert!(oldest <= WAIT_MAX.plus(MS(100)), "{pace} ms: {oldest}");
        }
    }

    // Has memory a bound where work is short? Is a single piece never refused?
    #[test]
    fn the_number_has_a_bound_and_an_empty_queue_has_room() {
        let (mut waiting, mut now) = (Waiting::new(), MS(1_000));
        waiting.put((), now);
        for _ in 0..1_000 {
            waiting.put((), now);
            now = now.plus(Nanos::from_micros(10));
            waiting.take(now);
        }
        assert_eq!(fill(&mut waiting, now, 2), 2 * WAITING_PER_HELPER - 1);
        for _ in 0..100 {
            now = now.plus(MS(10_000));
            waiting.take(now);
        }
        assert!(!waiting.has_room(now, 2));
        while waiting.take(now).is_some() {}
        assert!(waiting.has_room(now.plus(MS(10_000)), 2), "nothing waits");
    }

    // Is there no more room once helpers have stopped, and at once again when they go on? Does the
    // time before the oldest piece came count as a stop?
    #[test]
    fn stopped_helpers_have_no_room() {
        let mut waiting = Waiting::new();
        waiting.put((), MS(1_000));
        waiting.put((), MS(1_000));
        assert!(waiting.has_room(MS(1_499), 1) && !waiting.has_room(MS(1_500), 1));
        waiting.take(MS(1_500));
        assert!(waiting.has_room(MS(1_501), 1));
        waiting.take(MS(1_502));
        waiting.put((), MS(9_000));
        assert!(waiting.has_room(MS(9_001), 1));
        assert_eq!(waiting.overdue_at(MS(20)), Some(MS(9_020)));
    }
}
