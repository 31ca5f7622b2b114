//! Detects standing queues, queues that fill faster than they are served, after CoDel (RFC 8289).

use super::{Absence, WaitBounds};
use crate::time::{Nanos, SharedTimes};

/// A queue counts as shrinking if the age of its requests falls by more than a twentieth of the
/// passing time. Then at most 20 requests arrive for every 21 served.
const SHRINKS: u64 = 20;

/// The queues from which one worker takes jobs. Clones share the state with other workers that take
/// from the same queues. They must share it because one worker with many sockets rarely comes to
/// each of them.
#[derive(Clone, Debug)]
pub struct StandingQueues {
    /// The four times of each queue; the indices are below. If two workers write at once, one job
    /// may count as young or old wrongly, which does no harm.
    queues: SharedTimes<4>,
    /// When the worker last had nothing to do.
    rested_at: Nanos,
}

/// Index of a time: since when only old jobs have left the queue; [`Nanos::MAX`] after a young job.
const SINCE: usize = 0;
/// Index of a time: the age of the job that left the queue at [`SINCE`].
const AGE: usize = 1;
/// Index of a time: when an old job last left the queue.
const LAST: usize = 2;
/// Index of a time: when it was last known that the queue is a standing queue.
const STOOD: usize = 3;

impl StandingQueues {
    /// The state of this number of queues, none of them a standing queue.
    pub fn new(queues: usize) -> StandingQueues {
        let times = [Nanos::MAX, Nanos::ZERO, Nanos::ZERO, Nanos::ZERO];
        StandingQueues { queues: SharedTimes::new(queues, times), rested_at: Nanos::ZERO }
    }

    /// Notes that a job from `queue` begins that has waited less than the target.
    #[inline]
    pub fn on_young(&mut self, queue: usize) {
        if self.queues.get(queue)[SINCE] != Nanos::MAX {
            self.queues.set(queue, SINCE, Nanos::MAX);
        }
    }

    /// Notes that a job from `queue` has waited for `wait`, at least the target, and arrived `age`
    /// ago. Returns true if the job is to be shed.
    #[cold]
    pub fn on_old(
        &mut self,
        queue: usize,
        now: Nanos,
        wait: Nanos,
        age: Nanos,
        absence: &Absence,
        bounds: &WaitBounds,
    ) -> bool {
        let passed = |since: Nanos| now.minus(since).minus(absence.since(since));
        let [mut since, first_age, last, stood] = self.queues.get(queue);
        let stood_of_late = stood > Nanos::ZERO && passed(stood) < bounds.onset();
        let interval = if stood_of_late { bounds.interval } else { bounds.onset() };
        let lasted = passed(since);
        // A shrinking queue is served faster than it fills, so it is no standing queue. A queue
        // that already stands is not tested, because shedding shrinks it too.
        let shrinks = !stood_of_late && lasted >= interval && first_age.minus(age) > Nanos::new(lasted.get() / SHRINKS);
        // Observations from before this worker last rested, or from too long ago, do not prove that
        // the queue has stood since. But if this job was already in the queue at the last
        // observation, no younger job has left since then.
        let unseen = passed(last);
        let is_lost = unseen > bounds.interval && unseen > wait;
        if since == Nanos::MAX || since < self.rested_at || is_lost || shrinks {
            since = now;
            self.queues.set(queue, SINCE, since);
            self.queues.set(queue, AGE, age);
        }
        self.queues.set(queue, LAST, now);
        let stands = passed(since) >= interval;
        if stands {
            self.queues.set(queue, STOOD, now);
        }
        wait >= bounds.limit || stands && wait >= bounds.bound
    }

    /// Notes that the worker has nothing to do, so it has no standing queue.
    pub fn on_rest(&mut self, now: Nanos) {
        self.rested_at = now;
    }
}
