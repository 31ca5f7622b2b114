//! Requests which were not answered, and the CPU time that went into them: expired, failed, cancelled, shed, not sent.
//!
//! A policy that sizes itself must see this work too, and a plan what was asked. It is counted by class in half octaves, which is as fine as the
//! decisions that rest on it (`sched::estimate`).

use super::tally::Tally;
use crate::fate::CLASSES;
use crate::time::Nanos;

/// Requests that took no time, and half octaves from a nanosecond to 18 minutes; more counts as that.
pub(in crate::metrics) const BUCKETS: usize = 81;
pub(in crate::metrics) const PER_OCTAVE: f64 = 2.0;

/// The bucket in which a request counts that took this long.
pub(in crate::metrics) fn bucket_of(spent: Nanos) -> usize {
    if spent == Nanos::ZERO {
        return 0;
    }
    (1 + ((spent.get() as f64).log2() * PER_OCTAVE) as usize).min(BUCKETS - 1)
}

/// The counters of one worker, written by it alone.
#[derive(Debug)]
pub(in crate::metrics) struct Unanswered {
    /// By class, then by bucket.
    counts: Box<[Tally]>,
}

impl Unanswered {
    pub(in crate::metrics) fn new() -> Unanswered {
        Unanswered { counts: (0..CLASSES * BUCKETS).map(|_| Tally::default()).collect() }
    }

    /// Counts a request of `class` that took this much CPU time; numbers from [`CLASSES`] on count as the last class.
    pub(in crate::metrics) fn count(&self, class: u8, spent: Nanos) {
        self.counts[usize::from(class).min(CLASSES - 1) * BUCKETS + bucket_of(spent)].add(1);
    }
}

/// One reading of every worker's counters, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::metrics) struct UnansweredCounts(Vec<u64>);

impl UnansweredCounts {
    pub(in crate::metrics) fn read<'a>(workers: impl Iterator<Item = &'a Unanswered>) -> UnansweredCounts {
        let mut sums = vec![0; CLASSES * BUCKETS];
        for worker in workers {
            sums.iter_mut().zip(&worker.counts).for_each(|(sum, count)| *sum += count.read());
        }
        UnansweredCounts(sums)
    }

    /// The number of requests of each class that were counted since `before`.
    pub(in crate::metrics) fn by_class_since(&self, before: &UnansweredCounts) -> [u64; CLASSES] {
        let mut sums = [0; CLASSES];
        let counts = self.0.iter().zip(&before.0).map(|(now, before)| now - before).enumerate();
        counts.for_each(|(place, count)| sums[place / BUCKETS] += count);
        sums
    }

    /// What took any time since `before`: class, CPU time (the middle of its bucket) and number of requests.
    pub(in crate::metrics) fn since(&self, before: &UnansweredCounts) -> impl Iterator<Item = (usize, Nanos, u64)> {
        let counts = self.0.iter().zip(&before.0).map(|(now, before)| now - before).enumerate();
        counts.filter(|(place, count)| *count > 0 && place % BUCKETS > 0).map(|(place, count)| {
            let middle = ((place % BUCKETS) as f64 - 0.5) / PER_OCTAVE;
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
        for ns in [1, 700, 1_000_000, 900_000_000, u64::MAX] {
            let now = read();
            workers[1].count(3, Nanos::new(ns));
            let [(class, spent, count)] = read().since(&now).collect::<Vec<_>>()[..] else { panic!("{ns}: not once") };
            assert_eq!((class, count), (3, 1));
            let octaves = (spent.get() as f64).log2() - (ns.clamp(1, 1 << 40) as f64).log2();
            assert!(octaves.abs() <= 0.26, "{ns} ns counts as {spent}");
        }
        workers[0].count(3, Nanos::ZERO);
        assert_eq!(read().since(&before).map(|(_, _, count)| count).sum::<u64>(), 5);
        assert_eq!(read().by_class_since(&before)[3], 6, "what took no time was asked too");
        workers[0].count(200, Nanos::from_micros(1));
        assert_eq!(read().since(&before).last().map(|(class, ..)| class), Some(CLASSES - 1));
    }
}
