//! A request's way through one worker: that of `runtime/worker.rs`, and of the handler that burns a cost with a
//! checkpoint after each step.

use super::Incoming;
use super::driver::{Activity, Driver, Next};
use super::requests::RequestId;
use super::tally::Unanswered;
use crate::sched::{Event, Place, Running, Verdict, WorkerId};
use crate::time::Nanos;

/// A stretch for which a request runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    request: RequestId,
    /// CPU time of the request that is done at its end.
    work: Nanos,
    /// CPU time that it takes.
    ran: Nanos,
    end: End,
}

/// How a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Paused,
    Expired,
}

impl<I: Iterator<Item = Incoming>> Driver<'_, I> {
    /// Begins with a request from a queue.
    pub(super) fn start(&mut self, id: WorkerId, request: RequestId) -> Next {
        self.begin_work(id);
        let now = self.sight.now;
        self.sight.busy_since[id] = Some(now);
        self.flags[id] = false;
        let known = self.requests.of(request);
        let expired = now >= known.expires_at;
        let running = &mut self.workers[id].running;
        *running =
            Running { continuation: known.continuation, ran: Nanos::ZERO, flagged: false, waiting: false, ..*running };
        if expired {
            self.end(request, Unanswered::ShedExpired);
            return self.over(id, Nanos::ZERO);
        }
        self.slice(id, request, Nanos::ZERO)
    }

    /// Runs the request, after so long, until the policy wants to be asked or it ends.
    fn slice(&mut self, id: WorkerId, request: RequestId, after: Nanos) -> Next {
        let ask_after = self.policy.ask_after(&self.workers[id].running).unwrap_or(Nanos::MAX);
        let known = self.requests.of(request);
        let begins = self.sight.now.plus(after);
        let (step, checkpoint) = (self.setup.checkpoint_step, self.setup.overheads.checkpoint);
        let (work, ran, end) = stretch(known.left, step, checkpoint, ask_after, known.expires_at.minus(begins));
        (Activity::Running(Slice { request, work, ran, end }), Some(after.plus(ran)))
    }

    /// The slice is over.
    pub(super) fn pause(&mut self, id: WorkerId, slice: Slice) -> Next {
        match slice.end {
            End::Done => {
                let send = self.setup.overheads.send;
                let request = self.requests.remove(slice.request);
                self.packets += 1;
                let sent = self.sight.now.plus(send);
                self.tally.answered(request.class, request.cost, sent.minus(request.due), sent, request.counts);
                return self.over(id, send);
            }
            End::Expired => {
                self.end(slice.request, Unanswered::ShedExpired);
                return self.over(id, Nanos::ZERO);
            }
            End::Paused => {}
        }
        let request = self.requests.of(slice.request);
        request.left = request.left.minus(slice.work);
        let mut running = self.workers[id].running;
        running.ran = running.ran.plus(slice.ran);
        running.flagged = self.flags[id];
        let (waiting, took) = self.waits_for(&running);
        running.waiting = waiting;
        self.workers[id].running = running;
        let overheads = &self.setup.overheads;
        match self.policy.at_checkpoint(&running) {
            Verdict::Keep => self.slice(id, slice.request, took),
            Verdict::Yield => {
                let event = Event::Yielded { again: running.continuation };
                (Activity::Leaving(slice.request, event), Some(took.plus(overheads.yield_)))
            }
            Verdict::Hop(pool) => {
                (Activity::Leaving(slice.request, Event::Hopped(pool)), Some(took.plus(overheads.hop)))
            }
        }
    }

    /// Passes a continuation on.
    pub(super) fn leave(&mut self, id: WorkerId, request: RequestId, event: Event) -> Next {
        self.requests.of(request).continuation = true;
        match self.policy.place(self.workers[id].running.pool, event) {
            Place::Own => {
                self.sight.deques[id].push_back(request);
                self.waiting += 1;
            }
            Place::Queue(target) if self.queues.push(target, id, request) => {
                self.waiting += 1;
                self.wake_for(target);
            }
            Place::Queue(_) => self.end(request, Unanswered::ShedQueueFull),
        }
        self.over(id, Nanos::ZERO)
    }

    /// A request ends that is not answered; it has a packet.
    pub(super) fn end(&mut self, request: RequestId, why: Unanswered) {
        let request = self.requests.remove(request);
        self.packets += 1;
        self.tally.lost(request.class, why, request.counts);
    }

    /// The worker is in no job any more.
    fn over(&mut self, id: WorkerId, after: Nanos) -> Next {
        self.sight.busy_since[id] = None;
        (Activity::Searching, Some(after))
    }

    /// Whether requests wait that this worker would serve if `running` stepped aside, and how long it took to see that.
    fn waits_for(&mut self, running: &Running) -> (bool, Nanos) {
        let (id, pool) = (running.worker, running.pool);
        let queued = if self.policy.queue_is_fresh() { self.queues.len(pool) } else { 0 };
        let behind = self.sight.deques[id].len() + queued;
        let gives_way = self.policy.gives_way(running);
        let looks = self.policy.look_interval().filter(|_| gives_way).is_some_and(|interval| self.may_look(interval));
        let waiting = behind + if looks { self.arrivals_watched() } else { 0 };
        if waiting > 0 && !self.idle.any_asleep(pool) {
            let flags = &mut self.flags;
            self.policy.on_arrivals(&self.sight, id, waiting, gives_way, |other| flags[other] = true);
        }
        (gives_way && waiting > 0, if looks { self.setup.overheads.poll } else { Nanos::ZERO })
    }

    /// Of all who ask within `interval` one looks.
    fn may_look(&mut self, interval: Nanos) -> bool {
        let now = self.sight.now;
        let looks = self.looked_at.is_none_or(|last| now.minus(last) >= interval);
        if looks {
            self.looked_at = Some(now);
        }
        looks
    }
}

/// How far a request that still needs `left` comes until a checkpoint finds that `ask_after` or `expires_after` has
/// passed, or until it ends: what it has done by then, how long that takes, and how it ends.
fn stretch(left: Nanos, step: Nanos, checkpoint: Nanos, ask_after: Nanos, expires_after: Nanos) -> (Nanos, Nanos, End) {
    if left <= step {
        return (left, left, End::Done);
    }
    let until = ask_after.min(expires_after);
    if until == Nanos::MAX && checkpoint == Nanos::ZERO {
        return (left, left, End::Done);
    }
    // A checkpoint stands after each step but the last.
    let checkpoints = (left.get() - 1) / step.get();
    let each = step.plus(checkpoint);
    let asked = until.get().div_ceil(each.get()).max(1);
    if asked > checkpoints {
        return (left, left.plus(checkpoint.times(checkpoints)), End::Done);
    }
    let end = if each.times(asked) >= expires_after { End::Expired } else { End::Paused };
    (step.times(asked), each.times(asked), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    #[test]
    fn a_request_is_asked_at_the_first_checkpoint_after_the_time() {
        let never = Nanos::MAX;
        let plain = |left, ask_after| stretch(left, us(1), Nanos::ZERO, ask_after, never);
        assert_eq!(plain(us(500), never), (us(500), us(500), End::Done));
        assert_eq!(plain(us(500), Nanos::new(5_001)), (us(6), us(6), End::Paused));
        assert_eq!(plain(us(500), Nanos::ZERO), (us(1), us(1), End::Paused));
        assert_eq!(plain(us(5), us(5)), (us(5), us(5), End::Done), "there is none after the last step");
        assert_eq!(plain(Nanos::new(500), Nanos::ZERO), (Nanos::new(500), Nanos::new(500), End::Done));
    }

    #[test]
    fn checkpoints_take_their_time() {
        let ns = Nanos::new;
        assert_eq!(stretch(us(3), us(1), ns(20), Nanos::MAX, Nanos::MAX), (us(3), ns(3_040), End::Done));
        assert_eq!(stretch(us(9), us(1), ns(20), us(3), Nanos::MAX), (us(3), ns(3_060), End::Paused));
    }

    #[test]
    fn the_deadline_ends_it_at_the_next_checkpoint() {
        assert_eq!(stretch(us(9), us(1), Nanos::ZERO, us(7), Nanos::new(2_500)), (us(3), us(3), End::Expired));
        assert_eq!(stretch(us(9), us(1), Nanos::ZERO, us(2), Nanos::new(2_500)), (us(2), us(2), End::Paused));
    }
}
