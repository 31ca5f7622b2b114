//! CPU time that went into requests which were not answered: expired, failed, cancelled, shed half-way, not sent.
//!
//! A policy that sizes itself must see this work too. It is counted by class in half octaves, which is as fine as the
//! decisions that rest on it (`sched::estimate`).

use super::tally::Tally;
use crate::fate::CLASSES;
use crate::time::Nanos;

/// Half octaves from a nanosecond to 18 minutes; more counts as that.
const BUCKETS: usize = 80;
const PER_OCTAVE: f64 = 2.0;

/// The counters of one worker, written by it alone.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// By class, then by bucket.
    counts: Box<[Tally]>,
}

impl Unanswered {
    pub(super) fn new() -> Unanswered {
        Unanswered { counts: (0..CLASSES * BUCKETS).map(|_| Tally::default()).collect() }
    }

    /// Counts a request of `class` that took this much CPU time; numbers from [`CLASSES`] on count as the last class.
    pub(super) fn count(&self, class: u8, spent: Nanos) {
        let bucket = ((spent.get().max(1) as f64).log2() * PER_OCTAVE) as usize;
        self.counts[usize::from(class).min(CLASSES - 1) * BUCKETS + bucket.min(BUCKETS - 1)].add(1);
    }
}

/// One reading of every worker's counters, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnansweredCounts(Vec<u64>);

impl UnansweredCounts {
    pub(super) fn read<'a>(workers: impl Iterator<Item = &'a Unanswered>) -> UnansweredCounts {
        let mut sums = vec![0; CLASSES * BUCKETS];
        for worker in workers {
            sums.iter_mut().zip(&worker.counts).for_each(|(sum, count)| *sum += count.read());
        }
        UnansweredCounts(sums)
    }

    /// What was counted since `before`: class, CPU time (the middle of its bucket) and number of requests.
    pub(super) fn since(&self, before: &UnansweredCounts) -> impl Iterator<Item = (usize, Nanos, u64)> {
        let counts = self.0.iter().zip(&before.0).map(|(now, before)| now - before).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(place, count)| {
            let middle = ((place % BUCKETS) as f64 + 0.5) / PER_OCTAVE;
            (place / BUCKETS, Nanos::new(middle.exp2().round() as u64), count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each time counted under its class, within a quarter octave, and only what has come since?
    #[test]
    fn what_was_spent_is_counted_by_class() {
        let workers = [Unanswered::new(), Unanswered::new()];
        let read = || UnansweredCounts::read(workers.iter());
        workers[0].count(0, Nanos::from_millis(5));
        let before = read();
        for ns in [0, 1, 700, 1_000_000, 900_000_000, u64::MAX] {
            let now = read();
            workers[1].count(3, Nanos::new(ns));
            let [(class, spent, count)] = read().since(&now).collect::<Vec<_>>()[..] else { panic!("{ns}: not once") };
            assert_eq!((class, count), (3, 1));
            let octaves = (spent.get() as f64).log2() - (ns.clamp(1, 1 << 40) as f64).log2();
            assert!(octaves.abs() <= 0.26, "{ns} ns counts as {spent}");
        }
        assert_eq!(read().since(&before).map(|(_, _, count)| count).sum::<u64>(), 6);
        workers[0].count(200, Nanos::from_micros(1));
        assert_eq!(read().since(&before).last().map(|(class, ..)| class), Some(CLASSES - 1));
    }
}
