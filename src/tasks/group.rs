//! Tasks that end together.

use super::error::{Latch, Outcome};
use super::handle::JoinHandle;
use super::spawner::Spawner;
use super::worker;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Tasks that end together: those that it spawns, and all that descends from them. It derefs to the
/// [`Spawner`] that spawns in it; a clone of that one keeps the group open.
///
/// A task that needs the results of others awaits their handles.
///
/// ```
/// use forebay::tasks::Runtime;
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
    /// A group without tasks, which it spawns as this spawner does. A task that makes a group
    /// within another one keeps that one open too.
    pub fn group(&self) -> Group {
        let inherited = || worker::of(&self.scheduler).and_then(|place| place.membership.borrow().group.clone());
        let outer = self.group.clone().or_else(inherited);
        let latch = Arc::new(Latch { outcome: Arc::new(Outcome::new()), _outer: outer });
        Group { spawner: Spawner { group: Some(Arc::clone(&latch)), ..self.clone() }, latch }
    }
}

impl Group {
    /// Number of open tasks: those that were spawned, and all that descends from them. May be
    /// stale.
    pub fn open(&self) -> usize {
        Arc::strong_count(&self.latch) - 2
    }

    /// Ends the spawning. The handle is ready when all tasks are over, however they ended: their
    /// own handles say that.
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
