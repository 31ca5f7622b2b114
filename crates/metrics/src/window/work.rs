//! Measurements of a simulated server, in virtual time and on one thread. They have the same views
//! as those of a collector.

use super::{Bins, Series, Stage, Window, recent};
use crate::counters::{Counts, Spent};
use crate::time::Nanos;
use forebay_sched::Recent;

/// The measurements of one server in virtual time, over its last ten intervals.
#[derive(Debug)]
pub struct Work {
    workers: usize,
    counts: Counts,
    /// Values recorded since the last reading.
    gathered: Bins,
    last: Counts,
    window: Window,
}

impl Work {
    /// Empty measurements of `workers` workers, to be read at the interval `every`.
    pub fn new(workers: usize, every: Nanos) -> Work {
        let mut counts = Counts::default();
        counts.busy.push(Nanos::ZERO);
        // Slots get no memory in advance, because a simulated fleet has thousands of servers.
        let window = Window { width: every, slots: vec![Default::default(); Work::INTERVALS as usize].into(), mix: 0 };
        Work { workers, counts, gathered: Bins::default(), last: Counts::default(), window }
    }

    /// Number of intervals in the window.
    pub const INTERVALS: u64 = 10;

    /// Counts received datagrams.
    pub fn received(&mut self, datagrams: u64) {
        self.counts.received += datagrams;
    }

    /// Adds time in a handler. `interruptible` = the handler passed checkpoints, so it could have
    /// yielded.
    pub fn ran(&mut self, time: Nanos, interruptible: bool) {
        self.counts.busy[0] = self.counts.busy[0].plus(time);
        self.counts.spent_ns[Spent::Interruptible as usize] += if interruptible { time.get() } else { 0 };
    }

    /// Records the end of a request of `class` after `service` in the handler.
    pub fn ended(&mut self, class: u8, service: Nanos, answered: bool) {
        let class = usize::from(class);
        let series = if answered { Series::stage(class, Stage::Service) } else { Series::unanswered(class) };
        self.gathered.record(series, service.get());
    }

    /// The work of the last intervals, up to `now`. `idle` is the workers' idle time since the
    /// start; `running` is the length of each running slice. Call it once per interval.
    pub fn recent(&mut self, now: Nanos, idle: Nanos, running: &[Nanos]) -> Recent {
        self.counts.idle = idle.max(self.counts.idle);
        self.window.add(&self.last, now, &self.gathered);
        self.gathered.clear();
        self.last = Counts { at: now, ..self.counts.clone() };
        recent(&mut self.window, &self.last, running, self.workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a broken-off request count as if it had been served to its end, instead of as a short
    // one?
    #[test]
    fn what_was_broken_off_is_no_short_request() {
        let shortest = |answered| {
            let mut work = Work::new(1, Nanos::from_secs(1));
            for _ in 0..1_000 {
                work.ended(0, Nanos::from_millis(10), true);
                work.ended(0, Nanos::from_millis(1), answered);
            }
            let recent = work.recent(Nanos::from_secs(1), Nanos::ZERO, &[]);
            recent.service_times.iter().map(|(time, _)| *time).min().expect("two thousand").as_secs_f64()
        };
        assert!(shortest(true) < 1.2e-3, "{}", shortest(true));
        assert!(shortest(false) > 8e-3, "{}", shortest(false));
    }
}
