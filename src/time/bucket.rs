//! A token bucket: so many tokens come in each tick, and some ticks' worth of them is kept.

use super::Nanos;

/// The rate of a bucket, and what it holds. Its state is one word, zero at the start. The upper
/// half is the number of a tick, the lower half the tokens that are left in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket<const TICK_NS: u64> {
    /// Tokens that come in each tick.
    pub(crate) each: u32,
    /// The ticks' worth that is kept. A bucket that nothing has used is full.
    pub(crate) kept: u32,
}

impl<const TICK_NS: u64> TokenBucket<TICK_NS> {
    /// The number of the tick of `now`.
    pub(crate) fn tick(&self, now: Nanos) -> u32 {
        (now.get() / TICK_NS) as u32
    }

    /// The state after `seen`, where `change` makes a number of tokens out of what there is `now`.
    pub(crate) fn after(&self, seen: u64, now: Nanos, change: impl FnOnce(u32) -> u32) -> u64 {
        let (last, left, tick) = ((seen >> 32) as u32, seen as u32, self.tick(now).wrapping_add(self.kept));
        let tokens = if last == tick { left } else { self.refilled(left, tick.wrapping_sub(last)) };
        u64::from(tick) << 32 | u64::from(change(tokens))
    }

    /// What is kept of `left` tokens after so many `ticks`. Apart from the way within one tick.
    #[cold]
    fn refilled(&self, left: u32, ticks: u32) -> u32 {
        // A thread whose `now` is older than another's adds nothing.
        let ticks = if ticks > u32::MAX / 2 { 0 } else { ticks };
        self.each.saturating_mul(ticks).saturating_add(left).min(self.each.saturating_mul(self.kept))
    }
}
