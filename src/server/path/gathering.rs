//! Whether finished replies may wait for those of the requests behind them, so that they leave in one call.
//!
//! How long the next request takes is unknown. Replies wait for its first checkpoint at most, and only while the last
//! requests were all over sooner than that; a request that keeps its worker without a checkpoint shows that this is no
//! bound here, and is remembered for long.

use crate::time::Nanos;

/// The longest time that a reply waits between two requests: some times what one call for many replies saves.
const WAIT_MAX: Nanos = Nanos::from_micros(8);

/// A time without a checkpoint that no reply should wait. The kernel and the hypervisor may take the processor for as
/// long as that, now and then.
const STRETCH_LONG: Nanos = Nanos::from_micros(100);

/// Requests whose replies leave one by one after one that came to a checkpoint, or to the bound of [`WAIT_MAX`].
const AFTER_PAUSE: u32 = 32;

/// Requests whose replies leave one by one after one that was long without a checkpoint.
const AFTER_LONG: u32 = 16_384;

/// What the last requests of one worker say of the next one.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// Requests until replies may wait again.
    one_by_one: u32,
}

impl Gathering {
    /// Whether replies may wait while another batch is received.
    pub(crate) fn is_on(&self) -> bool {
        self.one_by_one == 0
    }

    /// Whether replies may wait for a fresh request, the oldest of which has waited this long.
    pub(crate) fn may_wait(&self, oldest: Nanos) -> bool {
        self.one_by_one == 0 && oldest < WAIT_MAX
    }

    /// Notes that a fresh request ran for this long until it ended, or until it `paused`. While it ran, replies `waited`
    /// for its first checkpoint.
    pub(crate) fn on_first_run(&mut self, ran: Nanos, waited: bool, paused: bool) {
        self.one_by_one = match self.one_by_one {
            left if waited && !paused && ran >= STRETCH_LONG => left.max(AFTER_LONG),
            left if paused || ran >= WAIT_MAX => left.max(AFTER_PAUSE),
            left => left.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEF: Nanos = Nanos::new(300);

    /// Requests until replies may wait again, after one that ran for `ran`.
    fn one_by_one_after(ran: Nanos, waited: bool, paused: bool) -> u32 {
        let mut gathering = Gathering::default();
        gathering.on_first_run(ran, waited, paused);
        let mut requests = 0;
        while !gathering.is_on() {
            assert!(!gathering.may_wait(Nanos::ZERO));
            gathering.on_first_run(BRIEF, false, false);
            requests += 1;
        }
        requests
    }

    // Do replies wait while requests are brief, and how long not, after one that was not?
    #[test]
    fn replies_wait_for_brief_requests_only() {
        assert!(Gathering::default().may_wait(Nanos::ZERO) && !Gathering::default().may_wait(WAIT_MAX));
        assert_eq!(one_by_one_after(BRIEF, true, false), 0);
        assert_eq!(one_by_one_after(BRIEF, true, true), AFTER_PAUSE);
        assert_eq!(one_by_one_after(WAIT_MAX, true, false), AFTER_PAUSE);
        assert_eq!(one_by_one_after(STRETCH_LONG, true, false), AFTER_LONG);
        assert_eq!(one_by_one_after(STRETCH_LONG, true, true), AFTER_PAUSE, "its checkpoint came, only late");
        assert_eq!(one_by_one_after(STRETCH_LONG, false, false), AFTER_PAUSE, "it may have had checkpoints");
    }

    // Is a long request remembered though one that pauses follows?
    #[test]
    fn the_longer_memory_counts() {
        let mut gathering = Gathering::default();
        gathering.on_first_run(STRETCH_LONG, true, false);
        gathering.on_first_run(BRIEF, true, true);
        assert_eq!(gathering.one_by_one, AFTER_LONG);
    }
}
