//! A task and all that descends from it, counted, so that its handle can wait for the last of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The open tasks below one that was spawned with [`super::Options::with_children`].
pub(super) struct TaskGroup {
    /// Two counts in one word, so that bringing in a member is one addition: in the lower half the members that are not
    /// over, the head among them, and in the upper half the descendants ever brought in (which may wrap). At zero open
    /// members the group is closed for good: only a member can bring in another.
    members: AtomicU64,
    /// The group that the head is a member of.
    outer: Option<Arc<TaskGroup>>,
    /// The head, whose result is held back until the group is closed; set when the head is over.
    head: OnceLock<Arc<dyn Release>>,
}

/// One open member.
const OPEN: u64 = 1;
/// One member that was brought in.
const SPAWNED: u64 = 1 << 32;

/// Number of open members in the word `members`.
fn open(members: u64) -> u64 {
    members % SPAWNED
}

/// A result that is held back.
pub(super) trait Release: Send + Sync {
    fn release(&self);
}

/// Number of tasks that descend from one that was spawned with [`super::Options::with_children`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descendants {
    /// Descendants spawned so far: children, their children, and so on; modulo 2^32.
    pub spawned: usize,
    /// Spawned descendants that are not over yet. May be stale by the time it is read, never less than what is still
    /// open then, unless more were spawned.
    pub open: usize,
}

impl TaskGroup {
    /// The group of a head that has not begun.
    pub(super) fn new(outer: Option<Arc<TaskGroup>>) -> Arc<TaskGroup> {
        Arc::new(TaskGroup { members: AtomicU64::new(OPEN), outer, head: OnceLock::new() })
    }

    /// Counts a new member, which a member brings in.
    pub(super) fn enter(&self) {
        // Ordering: relaxed, the member that calls this keeps the count above zero.
        self.members.fetch_add(OPEN + SPAWNED, Ordering::Relaxed);
    }

    /// Takes back the member that the caller brought in last.
    pub(super) fn retract(&self) {
        let before = self.members.fetch_sub(OPEN + SPAWNED, Ordering::Relaxed);
        debug_assert!(open(before) > 1, "the caller is a member too");
    }

    /// The head is over; its result is released once all descendants are.
    pub(super) fn head_is_over(&self, head: Arc<dyn Release>) {
        let first = self.head.set(head).is_ok();
        debug_assert!(first, "a head ends once");
        self.leave();
    }

    /// A member is over.
    pub(super) fn leave(&self) {
        let mut group = self;
        // Ordering: release, so that the last one to leave acquires what the others did before they left, and a thread
        // that sees the result sees it too.
        while open(group.members.fetch_sub(OPEN, Ordering::AcqRel)) == 1 {
            if let Some(head) = group.head.get() {
                head.release();
            }
            // With its group the head itself is over.
            let Some(outer) = &group.outer else { return };
            group = outer;
        }
    }

    pub(super) fn descendants(&self) -> Descendants {
        // Ordering: relaxed, figures to look at.
        let head = u64::from(self.head.get().is_none());
        let members = self.members.load(Ordering::Relaxed);
        let spawned = (members / SPAWNED) as usize;
        Descendants { spawned, open: (open(members).saturating_sub(head) as usize).min(spawned) }
    }

    /// The group that the head is a member of.
    pub(super) fn outer(&self) -> Option<&TaskGroup> {
        self.outer.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Released(AtomicUsize);

    impl Release for Released {
        fn release(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_to_leave_releases_the_head_and_leaves_the_outer_family() {
        let (outer_head, inner_head) = (Arc::new(Released::default()), Arc::new(Released::default()));
        let outer = TaskGroup::new(None);
        outer.enter();
        let inner = TaskGroup::new(Some(Arc::clone(&outer)));
        inner.enter();
        inner.enter();
        inner.leave();
        assert_eq!(inner.descendants(), Descendants { spawned: 2, open: 1 });
        inner.head_is_over(inner_head.clone());
        assert_eq!(inner_head.0.load(Ordering::Relaxed), 0);
        outer.head_is_over(outer_head.clone());
        assert_eq!(outer.descendants(), Descendants { spawned: 1, open: 1 });
        inner.leave();
        assert_eq!(inner_head.0.load(Ordering::Relaxed), 1);
        assert_eq!(outer_head.0.load(Ordering::Relaxed), 1);
    }
}
