//! The tasks of a connection, which the events of its shard poll.

use super::shared::{Shared, Task};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The most tasks of a connection. A client may open 64 streams, and a service may need several
/// tasks for each.
pub const TASKS_MAX: usize = 1_024;

/// The tasks of a connection that have not ended.
pub(crate) struct Tasks {
    running: FuturesUnordered<Task>,
    waker: Waker,
}

impl Tasks {
    /// None yet, of the connection that `shared` is.
    pub(crate) fn new(shared: &Shared) -> Tasks {
        Tasks { running: FuturesUnordered::new(), waker: Waker::from(Arc::new(shared.link.clone())) }
    }

    /// Polls each task that may go on, and those that they spawn. Some of them may be left: then
    /// the connection is woken.
    pub(crate) fn poll(&mut self, shared: &Shared) {
        for _ in 0..TASKS_MAX {
            self.running.extend(shared.lock().take_spawned(self.running.len()));
            // It polls each task about once, and wakes the connection if one is left.
            let polled = self.running.poll_next_unpin(&mut Context::from_waker(&self.waker));
            if !matches!(polled, Poll::Ready(Some(()))) && shared.lock().spawned.is_empty() {
                return;
            }
        }
        shared.link.wake_connection();
    }

    /// Whether all have ended.
    pub(crate) fn are_over(&self) -> bool {
        self.running.is_empty()
    }
}

/// Each task is dropped by itself: a panic on the way keeps no other one.
impl Drop for Tasks {
    fn drop(&mut self) {
        std::mem::take(&mut self.running).into_iter().for_each(discard);
    }
}

/// Drops a task. A panic of its destructor ends here, where no task is left to go on.
pub(crate) fn discard(task: Task) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
}
