//! Times in which a worker could not run, because it had no CPU or nothing to do. Waits in these
//! times do not count as overload.

use crate::time::Nanos;

/// The shortest time without a CPU that counts.
const ABSENT_MIN: Nanos = Nanos::from_millis(10);
/// How many absences a worker remembers: a long one, and the short ones that a shared host adds
/// after it. The number is small on purpose. If the host always gives too little CPU time, the
/// server is overloaded and must shed.
const KNOWN: usize = 8;
/// How long an absence is remembered before a shorter one may replace it: as long as clients wait.
const KEPT: Nanos = Nanos::from_secs(1);

/// Remembers when a worker had no CPU, or nothing to do.
///
/// It checks only when the worker finds an old request. Wall-clock time minus the thread's CPU time
/// then gives the length of an absence. The absence is assumed to have just ended.
#[derive(Clone, Debug)]
pub struct Absence {
    /// Start and end of each absence, in no order, without overlap.
    absences: [(Nanos, Nanos); KNOWN],
    /// Since when the worker has had nothing to do; `None` once [`Absence::look`] has used it.
    rests_since: Option<Nanos>,
    /// Returns the CPU time that the worker's thread has used until a given time.
    had: fn(Nanos) -> Nanos,
    /// The time of the last check for an absence, and the thread's CPU time then.
    looked: (Nanos, Nanos),
}

impl Absence {
    /// Remembers no absence yet. `had` returns the CPU time of the worker's thread.
    pub fn new(had: fn(Nanos) -> Nanos) -> Absence {
        let [never, looked] = [(Nanos::ZERO, Nanos::ZERO); 2];
        Absence { absences: [never; KNOWN], rests_since: None, had, looked }
    }

    /// Notes that the worker has nothing to do from `now` on.
    pub(super) fn on_rest(&mut self, now: Nanos) {
        self.rests_since = Some(now);
    }

    /// Checks whether the worker was absent just before `now`.
    pub(super) fn look(&mut self, now: Nanos) {
        let (rested, passed) = (self.rests_since.take(), now.minus(self.looked.0));
        if rested.is_none() && passed < ABSENT_MIN {
            return;
        }
        let had = (self.had)(now);
        let without = passed.minus(had.minus(self.looked.1));
        self.looked = (now, had);
        let from = rested.unwrap_or(Nanos::MAX).min(now.minus(without));
        if now.minus(from) < ABSENT_MIN {
            return;
        }
        // A short absence does not replace a recent long one.
        let worth = |(from, until): &(Nanos, Nanos)| (now.minus(*until) < KEPT, until.minus(*from));
        if let Some(least) = self.absences.iter_mut().min_by_key(|absence| worth(absence)) {
            *least = (from, now);
        }
    }

    /// For how long the worker was absent after `time`, in total.
    pub(super) fn since(&self, time: Nanos) -> Nanos {
        self.absences.iter().fold(Nanos::ZERO, |sum, (from, until)| sum.plus(until.minus(time.max(*from))))
    }
}
