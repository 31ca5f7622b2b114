//! A token bucket. It gains tokens in each tick, and holds at most the tokens of a few ticks.

use super::Nanos;

/// The rate and depth of a token bucket. The caller keeps the state: a `u64`, zero at the start.
/// Its upper half is the number of the last tick (plus `kept`), its lower half the tokens left
/// then.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket<const TICK_NS: u64> {
    /// Tokens gained in each tick.
    pub each: u32,
    /// The depth, in ticks: the bucket holds at most `each * kept` tokens. An unused bucket is
    /// full.
    pub kept: u32,
}

impl<const TICK_NS: u64> TokenBucket<TICK_NS> {
    /// The number of the tick of `now`.
    pub fn tick(&self, now: Nanos) -> u32 {
        (now.get() / TICK_NS) as u32
    }

    /// The next state, after the state `seen`. `change` gets the number of tokens at `now`, and
    /// returns how many remain.
    pub fn after(&self, seen: u64, now: Nanos, change: impl FnOnce(u32) -> u32) -> u64 {
        let (last, left, tick) = ((seen >> 32) as u32, seen as u32, self.tick(now).wrapping_add(self.kept));
        let tokens = if last == tick { left } else { self.refilled(left, tick.wrapping_sub(last)) };
        u64::from(tick) << 32 | u64::from(change(tokens))
    }

    /// The tokens after `ticks` further ticks, if `left` were left before. Not inlined, because
    /// most calls come in the same tick as the last one.
    #[cold]
    fn refilled(&self, left: u32, ticks: u32) -> u32 {
        // A thread with an older `now` than another thread adds nothing.
        let ticks = if ticks > u32::MAX / 2 { 0 } else { ticks };
        self.each.saturating_mul(ticks).saturating_add(left).min(self.each.saturating_mul(self.kept))
    }
}
