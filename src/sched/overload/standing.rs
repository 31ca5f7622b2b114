//! Whether more comes into a queue than is done, after CoDel (RFC 8289).

use super::{Absence, WaitBounds};
use crate::time::{Nanos, SharedTimes};

/// A queue shrinks if the age falls by this part of the time that passes, as its inverse. At most
/// 20 / 21 of what is done comes in.
const SHRINKS: u64 = 20;

/// The queues from which one worker takes jobs. Its clones are those of other workers that take
/// from the same ones: each sees what the others took. A worker with many sockets comes to each
/// once in a long while.
#[derive(Clone, Debug)]
pub struct StandingQueues {
    /// The times of each queue. Where two workers write at once, one job more or less counts as
    /// young.
    queues: SharedTimes<4>,
    /// When the worker last had nothing to do.
    rested_at: Nanos,
}

/// Since when nothing young has left a queue; [`Nanos::MAX`] after something young.
const SINCE: usize = 0;
/// The age of what left it then.
const AGE: usize = 1;
/// When something old last left it.
const LAST: usize = 2;
/// When it was last known to stand.
const STOOD: usize = 3;

impl StandingQueues {
    /// This many queues, none of which stands.
    pub fn new(queues: usize) -> StandingQueues {
        let times = [Nanos::MAX, Nanos::ZERO, Nanos::ZERO, Nanos::ZERO];
        StandingQueues { queues: SharedTimes::new(queues, times), rested_at: Nanos::ZERO }
    }

    /// Notes that a job from `queue` begins which had waited for less than the target.
    #[inline]
    pub fn on_young(&mut self, queue: usize) {
        if self.queues.get(queue)[SINCE] != Nanos::MAX {
            self.queues.set(queue, SINCE, Nanos::MAX);
        }
    }

    /// Notes that a job from `queue` is at hand which came `age` ago and has waited for `wait`, at
    /// least the target. True if it is to be shed.
    #[cold]
    pub fn on_old(
        &mut self,
        queue: usize,
        now: Nanos,
        (wait, age): (Nanos, Nanos),
        absence: &Absence,
        bounds: &WaitBounds,
    ) -> bool {
        let passed = |since: Nanos| now.minus(since).minus(absence.since(since));
        let [mut since, first_age, last, stood] = self.queues.get(queue);
        let stood_of_late = stood > Nanos::ZERO && passed(stood) < bounds.onset();
        let interval = if stood_of_late { bounds.interval } else { bounds.onset() };
        let lasted = passed(since);
        // More is done than comes in. Once it stands, what is shed makes it shorter.
        let shrinks = !stood_of_late && lasted >= interval && first_age.minus(age) > Nanos::new(lasted.get() / SHRINKS);
        // What workers saw before this one last rested, or too long ago, says nothing of a queue
        // that has stood since. An exception: this job was in the queue then, and nothing behind it
        // has left.
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

    /// Notes that the worker has nothing to do: none of its queues stands.
    pub fn on_rest(&mut self, now: Nanos) {
        self.rested_at = now;
    }
}
