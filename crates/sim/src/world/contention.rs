//! Contention in virtual time: places that serve one worker at a time.
//!
//! A queue between workers, a socket and the watch set are *serial resources*. An operation holds
//! the resource for [`Overheads::serial`], plus [`Overheads::contend`] for each other worker that
//! uses it or waits for it when the operation begins. Workers are served in order of arrival, and
//! are busy while they wait.
//!
//! Nothing is charged twice. The cost of a step already includes the operations of a single worker.
//! These are the push and the pop of a hop or a yield, and the lock of a receive. So a worker pays
//! here only for other workers: for its wait, and [`Overheads::contend`] for each of them. It does
//! not pay its own [`Overheads::serial`] again, but others wait for it. A look that finds nothing
//! holds no resource.
//!
//! All shards of a queue are one resource, because every push and every pop changes the same
//! counter (`runtime/queues.rs`).

use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::{PoolId, WorkerId};

/// A serial resource of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serial {
    /// The queue of a pool.
    Queue(PoolId),
    /// The socket of a worker.
    Socket(WorkerId),
    /// The watch set: the sockets of busy workers.
    WatchSet,
}

/// The serial resources of one server, and the delays of the current step.
#[derive(Debug)]
pub(crate) struct Contention {
    serial: Nanos,
    contend: Nanos,
    queues: usize,
    /// The queues, the sockets and the watch set; empty if operations take no time.
    resources: Box<[Line]>,
    /// How long others have delayed the worker in this step.
    delay: Nanos,
    /// How long others have delayed all workers in earlier steps.
    total: Nanos,
}

/// The unfinished operations at one resource, in order. All operations of one step of a worker are
/// one entry.
type Line = Vec<Hold>;

#[derive(Clone, Copy, Debug)]
struct Hold {
    worker: WorkerId,
    /// When the step of the operation began.
    step_at: Nanos,
    until: Nanos,
}

impl Contention {
    /// The resources of a server with this many queues and workers, with the times in `overheads`.
    pub(crate) fn new(overheads: &Overheads, queues: usize, workers: usize) -> Contention {
        let Overheads { serial, contend, .. } = *overheads;
        // Operations that take no time never wait for one another.
        let resources = if serial == Nanos::ZERO { 0 } else { queues + workers + 1 };
        let resources = vec![Line::default(); resources].into();
        Contention { serial, contend, queues, resources, delay: Nanos::ZERO, total: Nanos::ZERO }
    }

    /// `worker` carries out `operations` on `place`, one after another, in a step that began at
    /// `now`.
    #[inline]
    pub(crate) fn hold(&mut self, place: Serial, worker: WorkerId, now: Nanos, operations: usize) {
        if !self.resources.is_empty() {
            self.hold_resource(place, worker, now, operations as u64);
        }
    }

    fn hold_resource(&mut self, place: Serial, worker: WorkerId, now: Nanos, operations: u64) {
        let last = self.resources.len() - 1;
        let line = &mut self.resources[match place {
            Serial::Queue(pool) => pool,
            Serial::Socket(owner) => self.queues + owner,
            Serial::WatchSet => last,
        }];
        let ready_at = now.plus(self.delay);
        let (begins_at, wait, others) = turn_of(line, worker, now, ready_at);
        let more = self.contend.times(others).times(operations);
        let until = begins_at.plus(self.serial.times(operations)).plus(more);
        match line.last_mut() {
            Some(last) if last.worker == worker => last.until = until,
            _ => line.push(Hold { worker, step_at: now, until }),
        }
        self.delay = self.delay.plus(wait).plus(more);
    }

    /// How long others delayed the worker in the step that has ended.
    #[inline]
    pub(crate) fn take_delay(&mut self) -> Nanos {
        let delay = std::mem::take(&mut self.delay);
        self.total = self.total.plus(delay);
        delay
    }

    /// How long others have delayed all workers so far.
    pub(crate) fn total(&self) -> Nanos {
        self.total
    }
}

/// The turn of `worker` at a resource, for an operation that is ready at `ready_at` in a step that
/// began at `now`. Returns when the operation begins, how long others delay it, and how many others
/// use or await the resource.
fn turn_of(line: &mut Line, worker: WorkerId, now: Nanos, ready_at: Nanos) -> (Nanos, Nanos, u64) {
    // The last operation ends last. If it is over, all are.
    if line.last().is_none_or(|last| last.until <= now) {
        line.clear();
        return (ready_at, Nanos::ZERO, 0);
    }
    line.retain(|hold| hold.until > now);
    // A worker in a new step has completed the operations of its last step.
    line.pop_if(|hold| hold.worker == worker && hold.step_at < now);
    let (Some(first), Some(last)) = (line.first(), line.last()) else {
        return (ready_at, Nanos::ZERO, 0);
    };
    let begins_at = last.until.max(ready_at);
    // Further operations of one step follow the first without a wait. Their time is in the cost of
    // that step.
    let follows = last.worker == worker;
    let wait = if follows { Nanos::ZERO } else { begins_at.minus(ready_at) };
    // An entry of this worker from an earlier step can only be the first, as a worker waits for all
    // entries before its own.
    let is_first = line.len() > 1 && first.worker == worker;
    let others = line.len() as u64 - u64::from(follows) - u64::from(is_first);
    (begins_at, wait, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Serial = Serial::Queue(0);

    fn contention(serial: u64, contend: u64) -> Contention {
        let [serial, contend] = [serial, contend].map(Nanos::new);
        Contention::new(&Overheads { serial, contend, ..Overheads::NONE }, 1, 4)
    }

    /// The delay of a step of `worker` at `now`, with this number of operations on each of
    /// `places`.
    fn step(contention: &mut Contention, worker: WorkerId, now: u64, places: &[(Serial, usize)]) -> u64 {
        for (place, operations) in places {
            contention.hold(*place, worker, Nanos::new(now), *operations);
        }
        contention.take_delay().get()
    }

    #[test]
    fn workers_are_served_in_order_and_pay_for_each_other_one() {
        let mut contention = contention(10, 3);
        // The queue is held until 10, then for 13, then for 16. Of each, 10 are in the cost of the
        // worker's own step.
        let paid = [0, 1, 2].map(|worker| step(&mut contention, worker, 0, &[(QUEUE, 1)]));
        assert_eq!(paid, [0, 10 + 3, 23 + 6]);
        // At 11 the first operation is over, and worker 1 holds the queue until 23. So two
        // operations are ahead of the fourth.
        assert_eq!(step(&mut contention, 3, 11, &[(QUEUE, 1)]), 39 - 11 + 6);
        // The other places have been free all the time, and the queue is free from 55 on.
        assert_eq!(step(&mut contention, 0, 11, &[(Serial::Socket(1), 1), (Serial::WatchSet, 1)]), 0);
        assert_eq!(step(&mut contention, 0, 54, &[(QUEUE, 1)]), 1 + 3);
        assert_eq!(step(&mut contention, 1, 68, &[(QUEUE, 1)]), 0);
        assert_eq!(contention.total(), Nanos::new(13 + 29 + 34 + 4));
    }

    #[test]
    fn a_worker_that_meets_no_other_pays_nothing() {
        let mut contention = contention(10, 3);
        // A batch, a step that begins before the batch would end, and a second operation of that
        // step.
        assert_eq!(step(&mut contention, 1, 0, &[(QUEUE, 32)]), 0);
        assert_eq!(step(&mut contention, 1, 5, &[(QUEUE, 1), (QUEUE, 2)]), 0);
        // The queue is held until 35; the batch is no longer in the way.
        assert_eq!(step(&mut contention, 2, 6, &[(QUEUE, 1)]), 29 + 3);
    }

    #[test]
    fn operations_of_one_step_wait_once_and_one_after_the_other() {
        let mut contention = contention(10, 3);
        step(&mut contention, 0, 0, &[(QUEUE, 1), (Serial::WatchSet, 3)]);
        // The first step holds the queue until 10 and, with two operations, 13 longer each. When it
        // needs the watch set, at 16, another worker holds it until 30.
        assert_eq!(step(&mut contention, 1, 0, &[(QUEUE, 1), (QUEUE, 1), (Serial::WatchSet, 1)]), 10 + 6 + 14 + 3);
        assert_eq!(step(&mut contention, 2, 0, &[(QUEUE, 1)]), 10 + 2 * 13 + 2 * 3);
        // Its own operation is over, and two more are behind it. So the worker waits for those two,
        // and pays for two others.
        assert_eq!(step(&mut contention, 1, 35, &[(QUEUE, 1)]), 52 - 35 + 3);
    }
}
