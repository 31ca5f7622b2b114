//! The groups of one server: sets of workers that share queues, sleepers and a watch set. Also how
//! an idle group helps a full one, in which no worker sleeps. `sleep/README.md`, section 7, proves
//! that no job waits for ever in a full group.

use super::notice::Looks;
use super::{PARKED, Shared, Wait, Worker, deque};
use crate::sched::grouping::{HELP_EVERY, is_longer};
use crate::sched::{Policy, Topology, WorkerId};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// All groups of one server.
pub struct Groups<J> {
    groups: Box<[WorkerGroup<J>]>,
    /// Whether a sleeping worker *naps*: it sleeps for a bounded time, then looks for full groups,
    /// so that none goes unnoticed.
    napping: CachePadded<AtomicBool>,
}

/// Workers, each with the number of its group.
pub type Members<J> = Vec<(usize, Worker<J>)>;

struct WorkerGroup<J> {
    shared: Shared<J>,
    /// The number of the first worker within the server.
    first: WorkerId,
    /// When another group last looked at this one.
    helped_at: CachePadded<AtomicU64>,
}

/// Work that an idle worker finds in a full group.
pub(super) enum Found<J> {
    Job(J),
    /// The socket of a busy worker that holds datagrams. The numbers are the first worker of its
    /// group, and the worker within the group.
    Socket(WorkerId, WorkerId),
}

impl<J: Send> Groups<J> {
    /// Makes groups of these sizes, and their workers with the number of their group. `policy` is
    /// for the largest group; smaller ones get a version for their size. The other arguments are
    /// those of [`Shared::new`], for all groups together.
    ///
    /// # Errors
    /// As [`Shared::new`].
    pub fn new(
        policy: &Policy,
        sizes: &[usize],
        wait: Wait,
        ingress: &[BorrowedFd<'_>],
        queue_capacity: usize,
    ) -> io::Result<(Groups<J>, Members<J>)> {
        let all: usize = sizes.iter().sum();
        let (mut groups, mut workers, mut first) = (Vec::new(), Vec::new(), 0);
        for (number, size) in sizes.iter().enumerate() {
            let (each, capacity) = (ingress.len() / all, queue_capacity / all * size);
            let ingress = &ingress[first * each..(first + size) * each];
            let (shared, members) = Shared::new(policy.on(*size), wait, ingress, capacity)?;
            workers.extend(members.into_iter().map(|worker| (number, worker)));
            groups.push(WorkerGroup { shared, first, helped_at: CachePadded::default() });
            first += size;
        }
        Ok((Groups { groups: groups.into(), napping: CachePadded::default() }, workers))
    }

    /// Sets how jobs notice arrivals: by looks, and if `by_kernel` also by the kernel's notices. A
    /// look counts as costing `look_cost`, if that is more than measured on this host. On emulated
    /// cores, times are `time_scale` times as long.
    pub fn notice(&mut self, by_kernel: bool, look_cost: Nanos, time_scale: u64) {
        for WorkerGroup { shared, .. } in &mut self.groups {
            (shared.kernel_notices, shared.looks) = (by_kernel, Looks { cost: look_cost, time_scale });
        }
    }

    /// The shared state of each group.
    pub fn each(&self) -> impl Iterator<Item = &Shared<J>> {
        self.groups.iter().map(|group| &group.shared)
    }

    /// The shared state of `group`.
    pub(super) fn of(&self, group: usize) -> &Shared<J> {
        &self.groups[group].shared
    }

    /// The number of the first worker of `group` within the server.
    pub fn first(&self, group: usize) -> WorkerId {
        self.groups[group].first
    }

    /// The pools of all workers. Several groups are one pool.
    pub fn topology(&self) -> Topology {
        match &*self.groups {
            [one] => one.shared.policy().topology.clone(),
            groups => Topology::new(&[groups.iter().map(|group| group.shared.thieves.len()).sum()]),
        }
    }

    /// Switches every group to `policy`, which is for the largest one ([`Shared::switch`]).
    pub fn switch(&self, policy: &Policy) {
        self.each().for_each(|shared| shared.switch(policy.on(shared.thieves.len())));
    }

    /// Lets only `workers` workers work from now on, of each group its share. The others park.
    pub fn employ(&self, workers: usize) {
        let all: usize = self.each().map(|shared| shared.thieves.len()).sum();
        for WorkerGroup { shared, first, .. } in &self.groups {
            let [before, with] = [*first, first + shared.thieves.len()].map(|until| workers * until / all);
            shared.employ(with - before);
        }
    }

    /// Number of parked workers.
    pub fn parked(&self) -> usize {
        self.each().map(|shared| shared.parked.load(Ordering::Relaxed)).sum()
    }

    /// The longest recent piece of uninterrupted work, of any group; `None` before the first. Also
    /// how many workers may be in such pieces at the same time.
    pub fn uninterrupted(&self) -> Option<(Nanos, usize)> {
        let longest = |shared: &Shared<J>| Nanos::new(shared.longest_piece.load(Ordering::Relaxed));
        let workers = |shared: &Shared<J>| shared.policy().most_uninterrupted(longest(shared));
        let known = self.each().map(longest).filter(|longest| *longest != Nanos::MAX).max()?;
        Some((known, self.each().map(workers).sum()))
    }

    /// Whether `worker` is parked.
    pub fn is_parked(&self, worker: WorkerId) -> bool {
        let (shared, worker) = self.member(worker);
        shared.busy_since[worker].load(Ordering::Relaxed) == PARKED
    }

    /// Number of jobs in each queue, over all groups; exact when nothing moves.
    pub fn queue_lengths(&self) -> Vec<usize> {
        let mut sums = vec![0; self.of(0).queue_lengths().count()];
        self.each().for_each(|shared| sums.iter_mut().zip(shared.queue_lengths()).for_each(|(sum, one)| *sum += one));
        sums
    }

    /// Number of jobs in the deque of each worker; exact when nothing moves.
    pub fn deque_lengths(&self) -> impl Iterator<Item = usize> {
        self.each().flat_map(Shared::deque_lengths)
    }

    /// Number of workers whose `io_uring` has failed, so that they look for fresh requests
    /// themselves.
    pub fn without_ring(&self) -> usize {
        let of = |shared: &Shared<J>| shared.idle.readiness.watch_set.without_ring.load(Ordering::Relaxed);
        self.each().map(of).sum()
    }

    fn member(&self, worker: WorkerId) -> (&Shared<J>, WorkerId) {
        let group = self.groups.partition_point(|group| group.first <= worker) - 1;
        (self.of(group), worker - self.first(group))
    }

    /// Wakes `worker` for one turn of its loop if it sleeps.
    pub fn wake(&self, worker: WorkerId) {
        let (shared, worker) = self.member(worker);
        shared.wake(worker);
    }

    /// Whether `worker` sleeps or is parked.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        let (shared, number) = self.member(worker);
        shared.idle.is_asleep(number) || self.is_parked(worker)
    }

    /// Makes a function that wakes a sleeping worker of any group ([`Shared::waker`]).
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wakers: Vec<_> = self.each().map(Shared::waker).collect();
        move || {
            let _ = wakers.iter().any(|wake| wake());
        }
    }

    /// A job that is left in a queue after all workers have ended ([`Shared::leftover`]).
    pub fn leftover(&self) -> Option<J> {
        self.each().find_map(Shared::leftover)
    }

    /// Takes a job of a full group other than `own`, or names a socket there. Each group is checked
    /// at most once per [`HELP_EVERY`].
    #[cold]
    pub(super) fn help(&self, own: usize, now: Nanos) -> Option<Found<J>> {
        let groups = self.groups.len();
        (1..groups).map(|further| &self.groups[(own + further) % groups]).find_map(|group| {
            if !group.is_full() || !group.is_due(now) {
                return None;
            }
            let shared = &group.shared;
            let job = held_by(shared);
            let socket = || shared.idle.readiness.watch_set.next_arrival().first();
            let found = job.map(Found::Job).or_else(|| Some(Found::Socket(group.first, socket()?)))?;
            if shared.queues.count() > 0 {
                // More jobs are left there, so wake one more worker of the own group.
                self.of(own).wake_one(0);
            }
            Some(found)
        })
    }

    /// Takes a job of the group with the most waiting jobs, if it has far more of them than `own`.
    #[cold]
    pub(super) fn balance(&self, own: usize) -> Option<J> {
        let held = |group: usize| self.of(group).queues.count() + self.of(group).deque_lengths().sum::<usize>();
        let longest = (0..self.groups.len()).max_by_key(|group| held(*group))?;
        is_longer(held(longest), held(own)).then(|| held_by(self.of(longest)))?
    }

    /// Whether a worker of `own` that has announced its sleep should nap: another group is full,
    /// and no worker naps.
    #[cold]
    pub(super) fn naps(&self, own: usize) -> bool {
        // Ordering: relaxed, because the announcement of the sleep ended with a fence. It pairs
        // with the fence in `call`.
        let others = self.groups.iter().enumerate().filter(|(number, _)| *number != own);
        others.into_iter().any(|(_, group)| group.is_full()) && !self.napping.swap(true, Ordering::Relaxed)
    }

    /// Ends the nap of the calling worker.
    pub(super) fn end_nap(&self) {
        // Ordering: relaxed, because a fence follows in this worker's next announcement or call.
        self.napping.store(false, Ordering::Relaxed);
    }

    /// Wakes a sleeper of any group, which then looks for full groups. Does nothing while a worker
    /// naps. A worker calls this before a job, if its group is full or if it has napped.
    #[cold]
    pub(super) fn call(&self) {
        // Ordering: this fence pairs with the fence of an announcement. Either the sleeper sees the
        // full group, or this worker sees the sleeper. After a nap, a worker looks at all groups
        // again before its next sleep.
        fence(Ordering::SeqCst);
        if !self.napping.load(Ordering::Relaxed) {
            let _ = self.each().any(|shared| shared.idle.wake_one(0));
        }
    }

    /// Whether there are several groups.
    pub(super) fn are_several(&self) -> bool {
        self.groups.len() > 1
    }
}

impl<J: Send> WorkerGroup<J> {
    fn is_full(&self) -> bool {
        self.shared.idle.asleep(0) == 0
    }

    /// Whether a check of this group is due at `now`. If so, it counts as made, so the caller must
    /// make it.
    fn is_due(&self, now: Nanos) -> bool {
        // Ordering: relaxed. The exchange only decides which worker looks.
        let last = self.helped_at.load(Ordering::Relaxed);
        now.minus(Nanos::new(last)) >= HELP_EVERY
            && self.helped_at.compare_exchange(last, now.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Takes a job of the group `shared`: from its queues, or if these are empty, from a worker's
/// deque.
fn held_by<J: Send>(shared: &Shared<J>) -> Option<J> {
    shared.leftover().or_else(|| shared.thieves.iter().find_map(deque::oldest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Tuning;
    use crate::tests::numbers::Numbers;
    use std::os::fd::AsFd;

    type Pipe = (mio::unix::pipe::Sender, mio::unix::pipe::Receiver);

    /// Two groups of two workers, and their ingresses.
    fn two() -> (Groups<usize>, Members<usize>, [Pipe; 4]) {
        let policy = Tuning::new(2, Nanos::ZERO).policy("global");
        let pipes = [(); 4].map(|()| mio::unix::pipe::new().expect("a pipe"));
        let ingress = pipes.each_ref().map(|(_, ingress)| ingress.as_fd());
        let (groups, workers) = Groups::new(&policy, &[2, 2], Wait::Park, &ingress, 4_000).expect("readiness queues");
        (groups, workers, pipes)
    }

    // Does an idle worker take jobs of a full group, from its queues and then its deques, one per
    // `HELP_EVERY`? Does it wake another worker if more jobs are queued there?
    #[test]
    fn an_idle_worker_helps_a_full_group() {
        let (groups, workers, _pipes) = two();
        let (own, full) = (groups.of(0), groups.of(1));
        [1, 2].into_iter().for_each(|job| assert_eq!(full.queues.push(0, 0, job), Ok(())));
        workers[3].1.deque.push(3);
        own.idle.announce(1, false);
        // Each row: the time in units of `HELP_EVERY`, the job that is found, and the number of
        // workers that still sleep.
        let help = |time: Nanos| match groups.help(0, time) {
            Some(Found::Job(job)) => (job, own.idle.asleep(0)),
            Some(Found::Socket(..)) => panic!("the sockets are empty"),
            None => (0, own.idle.asleep(0)),
        };
        assert_eq!([HELP_EVERY.minus(Nanos::new(1)), HELP_EVERY, HELP_EVERY].map(help), [(0, 1), (1, 0), (0, 0)]);
        own.idle.announce(1, false);
        assert_eq!([2, 3, 4].map(|time| help(HELP_EVERY.times(time))), [(2, 1), (3, 1), (0, 1)]);
        // Only one worker naps at a time, and none is called while it naps.
        assert_eq!([0, 0].map(|own| groups.naps(own)), [true, false]);
        groups.call();
        assert_eq!(own.idle.asleep(0), 1);
        groups.end_nap();
        groups.call();
        assert_eq!(own.idle.asleep(0), 0);
        // A group with a sleeper is not full.
        full.idle.announce(0, false);
        assert_eq!(full.queues.push(0, 0, 4), Ok(()));
        assert_eq!((help(Nanos::MAX), groups.naps(0), full.leftover()), ((0, 0), false, Some(4)));
    }

    // Does a worker that always has work take jobs of another group, if far more wait in its queues
    // and deques? Each job is the number of its group. One worker of the second group runs. Before
    // its first rare search it has done 59 jobs, and 141 are left.
    #[test]
    fn a_busy_worker_takes_from_far_longer_queues() {
        for (queued, in_deque, taken) in
            [([500, 200], 0, 41), ([300, 200], 0, 2), ([298, 200], 0, 0), ([0, 200], 500, 41), ([1, 200], 299, 2)]
        {
            let (groups, mut workers, _pipes) = two();
            for (group, count) in queued.into_iter().enumerate() {
                (0..count).for_each(|_| assert_eq!(groups.of(group).queues.push(0, 0, group), Ok(())));
            }
            (0..in_deque).for_each(|_| workers[0].1.deque.push(0));
            let mut done = Vec::new();
            let run = |group| {
                done.push(group);
                if done.len() == 100 {
                    groups.each().for_each(Shared::stop);
                }
            };
            let (group, worker) = workers.pop().expect("four");
            worker.run_in(&groups, group, &mut Numbers { run, flush: || {} });
            let others = done.iter().filter(|group| **group == 0).count();
            assert_eq!(others, taken, "{queued:?} and {in_deque}");
            while groups.leftover().is_some() {}
        }
    }
}
