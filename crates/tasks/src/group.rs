//! Groups: wait until a set of tasks, and all that they spawn, has ended.

use super::error::{Latch, TaskOutcome};
use super::handle::JoinHandle;
use super::spawner::Spawner;
use super::worker;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Waits for the tasks that are spawned in it and for all their descendants. It dereferences to the
/// [`Spawner`] that spawns in the group; a clone of that spawner keeps the group open.
///
/// A task that needs other tasks' results should await their handles.
///
/// ```
/// # use forebay_tasks::Runtime;
///
/// let runtime = Runtime::with_workers(2)?;
/// let group = runtime.group();
/// let parts: Vec<_> = (0..10_u64).map(|part| group.spawn(move || part * part)).collect();
/// let sum = group.spawn_future(async {
///     let mut sum = 0;
///     for part in parts {
///         sum += part.await.expect("no part panics");
///     }
///     sum
/// });
/// group.close().join()?;
/// assert!(sum.is_over());
/// assert_eq!(sum.join(), Ok(285));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group {
    spawner: Spawner,
    latch: Arc<Latch>,
}

impl Spawner {
    /// Makes an empty group that spawns as this spawner does. A group made by a task of another
    /// group keeps that other group open.
    pub fn group(&self) -> Group {
        let inherited = || worker::of(&self.scheduler).and_then(|place| place.membership.borrow().group.clone());
        let outer = self.group.clone().or_else(inherited);
        let latch = Arc::new(Latch { outcome: Arc::new(TaskOutcome::default()), _outer: outer });
        Group { spawner: Spawner { group: Some(Arc::clone(&latch)), ..self.clone() }, latch }
    }
}

impl Group {
    /// Number of tasks in the group that have not ended, descendants included. May be stale.
    pub fn open(&self) -> usize {
        Arc::strong_count(&self.latch) - 2
    }

    /// Closes the group to new tasks. The handle is ready when all tasks have ended; their own
    /// handles tell how.
    pub fn close(self) -> JoinHandle<()> {
        JoinHandle::new(self.scheduler.number, Arc::clone(&self.latch.outcome) as _)
    }
}

impl Deref for Group {
    type Target = Spawner;

    fn deref(&self) -> &Spawner {
        &self.spawner
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("open", &self.open()).finish_non_exhaustive()
    }
}
