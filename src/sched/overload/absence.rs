//! The time in which a worker could not serve anything. Nothing has waited then because work comes
//! too fast.

use crate::time::Nanos;

/// The least time without a CPU that counts.
const ABSENT_MIN: Nanos = Nanos::from_millis(10);
/// How many absences it knows: a long one, and the short ones that a shared host leaves after it.
/// Few, for a host that always gives too little time leaves the server overloaded.
const KNOWN: usize = 8;
/// How long an absence keeps its place from a longer one: as long as clients wait.
const KEPT: Nanos = Nanos::from_secs(1);

/// When a worker last had no CPU, or nothing to do.
///
/// It looks for that only when it finds something old. Of the time without a CPU it knows the
/// length, and takes it to have just ended.
#[derive(Clone, Debug)]
pub struct Absence {
    /// When each began and ended, in no order. None overlap.
    absences: [(Nanos, Nanos); KNOWN],
    /// Since when the worker had nothing to do, if it has not looked since.
    rests_since: Option<Nanos>,
    /// What its thread has had of a CPU until a time.
    had: fn(Nanos) -> Nanos,
    /// When it last looked, and what the thread had had until then.
    looked: (Nanos, Nanos),
}

impl Absence {
    /// That of a worker whose thread `had` so much of a CPU until a time.
    pub fn new(had: fn(Nanos) -> Nanos) -> Absence {
        let [never, looked] = [(Nanos::ZERO, Nanos::ZERO); 2];
        Absence { absences: [never; KNOWN], rests_since: None, had, looked }
    }

    /// Notes that the worker has nothing to do from `now` on.
    pub(super) fn on_rest(&mut self, now: Nanos) {
        self.rests_since = Some(now);
    }

    /// Looks whether the worker was away before `now`.
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
        // A short one does not make the worker forget a long one before it.
        let worth = |(from, until): &(Nanos, Nanos)| (now.minus(*until) < KEPT, until.minus(*from));
        if let Some(least) = self.absences.iter_mut().min_by_key(|absence| worth(absence)) {
            *least = (from, now);
        }
    }

    /// How long the worker was away after `time`.
    pub(super) fn since(&self, time: Nanos) -> Nanos {
        self.absences.iter().fold(Nanos::ZERO, |sum, (from, until)| sum.plus(until.minus(time.max(*from))))
    }
}
