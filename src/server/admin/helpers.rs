//! Detects that the helpers make no progress: each has been busy with the same work for long, and
//! other work waits.
//!
//! Work aside has no checkpoints, so a helper that is busy for long is no sign of trouble by
//! itself. Hashes of passwords take up to about a second of CPU time. Time in which a helper waits
//! for a CPU does not count. Busy workers take the CPUs then, which is overload, and not a fault of
//! the work.

use crate::time::Nanos;

/// The pool is stuck if each helper has been busy with the same work for this long. Other work must
/// also have waited for as long. It is three times what the longest usual work takes, and what
/// clients wait for an answer.
const STILL_MAX: Nanos = Nanos::from_secs(3);

/// The most shards that a reason names: it is one line. `/slow` has further ones.
const NAMED: usize = 8;

/// What a helper does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Helper {
    /// When it began its present work; `None` = it does none.
    pub(crate) began_at: Option<Nanos>,
    /// How long it has waited for a CPU since its start.
    pub(crate) waited: Nanos,
}

/// Observations of the helpers that are kept from one check to the next. For each helper it has
/// what the helper was busy with, as of the first check that saw this work.
#[derive(Debug, Default)]
pub(super) struct HelperObservations(Vec<Helper>);

impl HelperObservations {
    /// Checks the helpers at `now`, while `waiting` pieces of work wait for them, the oldest for
    /// `oldest_waiting`. If the helpers are stuck, returns for how long, and a reason in words.
    pub(super) fn look(
        &mut self,
        helpers: &[Helper],
        waiting: usize,
        oldest_waiting: Nanos,
        now: Nanos,
    ) -> Option<(Nanos, String)> {
        self.0.resize(helpers.len(), Helper::default());
        let mut still = if waiting > 0 { oldest_waiting } else { Nanos::ZERO };
        for (helper, seen) in helpers.iter().zip(&mut self.0) {
            if helper.began_at != seen.began_at {
                *seen = *helper;
            }
            let off_cpu = helper.waited.minus(seen.waited);
            still = still.min(helper.began_at.map_or(Nanos::ZERO, |began_at| now.minus(began_at).minus(off_cpu)));
        }
        (still >= STILL_MAX && !helpers.is_empty()).then(|| {
            let (count, seconds, oldest) = (helpers.len(), still.as_secs_f64(), oldest_waiting.as_secs_f64());
            let reason = format!(
                "stuck: each of the {count} helper threads is busy with the same work aside for {seconds:.1} s or longer; \
                 {waiting} pieces of work wait, the oldest for {oldest:.1} s"
            );
            (still, reason)
        })
    }
}

/// The end of a reason: the `shards` that are held up.
pub(super) fn named(shards: &[u32]) -> String {
    if shards.is_empty() {
        return String::new();
    }
    let some: Vec<String> = shards.iter().take(NAMED).map(u32::to_string).collect();
    let more = shards.len().checked_sub(NAMED + 1).map_or(String::new(), |more| format!(" and {} more", more + 1));
    format!("; held up: shard {}{more}", some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Whether the helpers are stuck. Each has the time at which it began its work (0: none), and
    /// its wait for a CPU.
    fn still(seen: &mut HelperObservations, helpers: [(u64, u64); 2], oldest: Option<u64>, now: u64) -> Option<Nanos> {
        let helper = |(began_at, waited)| Helper { began_at: (began_at > 0).then(|| MS(began_at)), waited: MS(waited) };
        let (waiting, oldest) = (usize::from(oldest.is_some()) * 5, MS(oldest.map_or(0, |since| now - since)));
        seen.look(&helpers.map(helper), waiting, oldest, MS(now)).map(|(still, reason)| {
            assert!(reason.contains("each of the 2 helper threads is busy") && reason.contains("5 pieces"), "{reason}");
            still
        })
    }

    // Are helpers stuck only if all of them are busy with the same work for long, and other work
    // waits for as long?
    #[test]
    fn helpers_are_stuck_when_none_ends_what_it_does() {
        let mut seen = HelperObservations::default();
        let mut look = |began: [u64; 2], oldest, now| still(&mut seen, began.map(|began| (began, 0)), oldest, now);
        assert_eq!(look([1_000, 1_500], None, 90_000), None, "nothing else waits");
        assert_eq!(look([1_000, 1_500], Some(88_000), 90_000), None, "not for long");
        assert_eq!(look([1_000, 1_500], Some(86_000), 90_000), Some(MS(4_000)), "as long as the work has waited");
        assert_eq!(look([1_000, 1_500], Some(2_000), 5_000), Some(MS(3_000)), "exactly");
        assert_eq!(look([1_000, 1_501], Some(1_000), 4_500), None, "one has begun later");
        assert_eq!(look([1_000, 0], Some(1_000), 90_000), None, "one is free, and about to take it");
        assert_eq!(HelperObservations::default().look(&[], 0, Nanos::ZERO, MS(90_000)), None, "there are none");
    }

    // Are the shards named that wait, as many as fit?
    #[test]
    fn shards_that_wait_are_named() {
        assert_eq!(named(&[]), "");
        assert_eq!(named(&[7, 3]), "; held up: shard 7, 3");
        let shards: Vec<u32> = (0..10).collect();
        assert_eq!(named(&shards[..8]), "; held up: shard 0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(named(&shards[..9]), "; held up: shard 0, 1, 2, 3, 4, 5, 6, 7 and 1 more");
        assert_eq!(named(&shards), "; held up: shard 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }

    // Are helpers that workers keep off the CPUs not stuck, however long their work takes?
    #[test]
    fn helpers_without_a_cpu_are_not_stuck() {
        let mut seen = HelperObservations::default();
        // Since they began at 1,000, both have waited for 19 of 20 ms.
        let starved = |now: u64| [(1_000, 700 + (now - 1_000) * 19 / 20), (1_000, 900 + (now - 1_000) * 19 / 20)];
        for now in (1_000..60_000).step_by(1_000) {
            assert_eq!(still(&mut seen, starved(now), Some(1_000), now), None, "{now}");
        }
        let since = starved(59_000);
        assert_eq!(
            still(&mut seen, since, Some(1_000), 60_000),
            Some(MS(3_900)),
            "2.9 s, and now they have their CPUs"
        );
    }
}
