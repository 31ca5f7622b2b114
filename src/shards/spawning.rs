//! Work that comes from no datagram: threads of the program spawn it, and events of shards begin
//! it. Both run on the workers, under the policy.

use crate::metrics::SpawnEnd;
use crate::runtime::continuation::{AbortCause, AnyChild, Child, Outside, Ready, lock, new_runtime_id};
use crate::sched::bounds::{BEGUN_PER_WORKER, SPAWNED_PER_WORKER, WAITING_PER_WORKER};
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, Weak};

/// Where work comes from. Each origin has a bound of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A thread or a task of the program.
    Thread,
    /// An event of a shard.
    Shard,
}

/// Why no work is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// As much of this origin is under way as may be.
    Full,
    /// The server drains or has ended.
    Stopping,
}

/// What a server shares with those that give it such work.
pub(crate) struct Spawning {
    pub(crate) runtime_id: u64,
    pub(crate) outside: Arc<Outside>,
    /// The most work under way of each [`Origin`].
    most: [usize; 2],
    state: Mutex<SpawnState>,
}

#[derive(Default)]
struct SpawnState {
    /// Number of pieces of work under way, of each [`Origin`].
    under_way: [usize; 2],
    /// The work that is under way, and some that has ended.
    accepted: Vec<Weak<dyn AnyChild>>,
    /// Whether no more work is accepted.
    closed: bool,
    /// Whether no worker will look for work any more.
    ended: bool,
    /// Numbers of pieces of work that ended, by result, in the order of [`SpawnEnd::ALL`].
    ends: [u64; SpawnEnd::ALL.len()],
}

impl Spawning {
    /// The state of a server with `workers` workers, none of which runs yet, and `slots` wait
    /// slots.
    pub(crate) fn new(workers: usize, slots: usize) -> Spawning {
        let most = [SPAWNED_PER_WORKER, BEGUN_PER_WORKER].map(|each| workers * each);
        let places = slots + most.iter().sum::<usize>() + 1;
        Spawning {
            runtime_id: new_runtime_id(),
            outside: Arc::new(Outside::new(places).waiting_at_most(workers * WAITING_PER_WORKER)),
            most,
            state: Mutex::default(),
        }
    }

    /// Accepts no more work. Accepted work is still to be finished.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
    }

    /// Number of accepted pieces of work that have not ended. It only falls after
    /// [`Spawning::close`].
    pub(crate) fn under_way(&self) -> usize {
        lock(&self.state).under_way.iter().sum()
    }

    /// The number of each [`SpawnEnd`] so far, in the order of [`SpawnEnd::ALL`].
    pub(crate) fn ends(&self) -> [u64; SpawnEnd::ALL.len()] {
        lock(&self.state).ends
    }

    /// Reserves room for one more piece of work.
    pub(crate) fn enter(self: &Arc<Self>, origin: Origin) -> Result<EndGuard, NoRoom> {
        let mut state = lock(&self.state);
        if !state.closed && state.under_way[origin as usize] < self.most[origin as usize] {
            state.under_way[origin as usize] += 1;
            if state.accepted.len() >= 2 * self.most.iter().sum::<usize>() {
                state.accepted.retain(|work| work.strong_count() > 0);
            }
            return Ok(EndGuard { spawning: Arc::clone(self), origin, finished: false });
        }
        state.ends[SpawnEnd::Refused as usize] += 1;
        // A stopping server has no room again, so the caller need not retry.
        Err(if state.closed { NoRoom::Stopping } else { NoRoom::Full })
    }

    /// Puts `work`, which has `entered`, where the workers find it.
    pub(crate) fn put<W>(self: &Arc<Self>, entered: EndGuard, work: W) -> Arc<Child<W::Output>>
    where
        W: Future + Send + 'static,
        W::Output: Send + 'static,
    {
        let origin = entered.origin;
        let counted = async move {
            // Moves the whole value in, not only the field.
            let mut entered = entered;
            let value = work.await;
            entered.finished = true;
            value
        };
        let child = Child::spawned(self.runtime_id, &self.outside, origin == Origin::Shard, Box::pin(counted));
        let mut state = lock(&self.state);
        state.accepted.push(Arc::downgrade(&child) as _);
        let ended = state.ended;
        drop(state);
        let work = Arc::clone(&child) as Arc<dyn AnyChild>;
        self.outside.put(if origin == Origin::Shard { Ready::Begun(work) } else { Ready::Spawned(work) });
        // Either this thread sees that the server has ended, or the server finds the work.
        if ended {
            self.abort_rest();
        }
        child
    }

    /// Accepts no more work, because no worker will look for it any more, and ends the rest.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        (state.closed, state.ended) = (true, true);
        // Ending work takes this lock.
        drop(state);
        self.abort_rest();
    }

    /// Ends work that no worker will take any more, new or waiting.
    pub(crate) fn abort_rest(&self) {
        let rest = mem::take(&mut lock(&self.state).accepted);
        rest.iter().filter_map(Weak::upgrade).for_each(|work| work.abort(AbortCause::Draining));
    }
}

/// A guard in the future of spawned work: counts the work's end when dropped.
pub(crate) struct EndGuard {
    spawning: Arc<Spawning>,
    origin: Origin,
    finished: bool,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.spawning.state);
        let end = match self.finished {
            true => SpawnEnd::Finished,
            false if std::thread::panicking() => SpawnEnd::Panicked,
            // Before the end of the drain, only a fault of its own ends it, which may also happen
            // just then.
            false if state.closed => SpawnEnd::Stopped,
            false => SpawnEnd::Aborted,
        };
        state.ends[end as usize] += 1;
        state.under_way[self.origin as usize] -= 1;
    }
}
