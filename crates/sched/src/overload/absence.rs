//! Times in which a worker could not run, because it had no CPU or nothing to do. Waits in these
//! times do not count as overload.

use crate::time::{Nanos, ThreadUse};

/// The shortest absence that counts.
const ABSENT_MIN: Nanos = Nanos::from_millis(10);
/// How many absences with nothing to do a worker remembers.
const KNOWN: usize = 8;
/// How long an absence is remembered before a shorter one may replace it: as long as clients wait.
const KEPT: Nanos = Nanos::from_secs(1);

/// Remembers when a worker had no CPU, or nothing to do.
///
/// It checks only when the worker finds an old request. Wall-clock time minus the thread's CPU time
/// then gives the length of an absence. The absence is assumed to have just ended.
#[derive(Clone, Debug)]
pub struct Absence {
    /// Start and end of absences in which the worker had nothing to do, in no order.
    idle: [(Nanos, Nanos); KNOWN],
    /// Start and end of the longest absence of late in which the worker had work but no CPU. Only
    /// one counts. A host that takes the CPU again and again makes a slow server, and clients leave
    /// a slow server too. No two absences overlap.
    starved: [(Nanos, Nanos); 1],
    /// Since when the worker has had nothing to do; `None` once [`Absence::look`] has used it.
    rests_since: Option<Nanos>,
    /// Returns what the worker's thread has used until a given time.
    used: fn(Nanos) -> ThreadUse,
    /// The time of the last check for an absence, and what the thread had used then.
    looked: (Nanos, ThreadUse),
}

impl Absence {
    /// Remembers no absence yet. `used` reads the use of the worker's thread.
    pub(crate) fn new(used: fn(Nanos) -> ThreadUse) -> Absence {
        let (never, looked) = ((Nanos::ZERO, Nanos::ZERO), (Nanos::ZERO, ThreadUse::default()));
        Absence { idle: [never; KNOWN], starved: [never], rests_since: None, used, looked }
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
        let used = (self.used)(now);
        let without = passed.minus(used.cpu.minus(self.looked.1.cpu));
        self.looked = (now, used);
        let from = rested.unwrap_or(Nanos::MAX).min(now.minus(without));
        if now.minus(from) < ABSENT_MIN {
            return;
        }
        let known = if rested.is_some() { &mut self.idle[..] } else { &mut self.starved[..] };
        // A short absence does not replace a recent long one.
        let worth = |(from, until): &(Nanos, Nanos)| (now.minus(*until) < KEPT, until.minus(*from));
        if let Some(least) = known.iter_mut().min_by_key(|absence| worth(absence))
            && (rested.is_some() || worth(least) <= (true, now.minus(from)))
        {
            *least = (from, now);
        }
    }

    /// For how long the worker was absent after `time`, in total.
    pub(super) fn since(&self, time: Nanos) -> Nanos {
        let after = |(from, until): &(Nanos, Nanos)| until.minus(time.max(*from));
        self.idle.iter().chain(&self.starved).map(after).fold(Nanos::ZERO, Nanos::plus)
    }

    /// The part of a slice that the thread can have worked for: at most what it has worked for
    /// since the last check. The slice ends at `now` and took `time`. If the thread has waited for
    /// anything else than its CPU, or the slice is short, all of it counts.
    #[inline]
    pub(super) fn worked(&self, time: Nanos, now: Nanos) -> Nanos {
        if time < ABSENT_MIN {
            return time;
        }
        (self.used)(now).worked_since(&self.looked.1).map_or(time, |worked| time.min(worked))
    }
}
