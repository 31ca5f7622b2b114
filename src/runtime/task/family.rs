//! A task and all that descends from it, counted, so that its handle can wait for the last of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The open tasks below one that was spawned with [`super::Options::with_children`].
pub(super) struct Family {
    /// Members that are not over, the head of the family among them. At zero it is closed for good: only a member can
    /// bring in another.
    open: AtomicUsize,
    /// Descendants ever brought in.
    spawned: AtomicUsize,
    /// The family that the head is a member of.
    outer: Option<Arc<Family>>,
    /// Whose result is held back until the family is closed.
    head: OnceLock<Arc<dyn Release>>,
}

/// A result that is held back.
pub(super) trait Release: Send + Sync {
    fn release(&self);
}

/// How many tasks descend from one that was spawned with [`super::Options::with_children`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descendants {
    /// Spawned so far: its children, their children, and so on.
    pub spawned: usize,
    /// Of those, not over yet. May be stale by the time it is read, never less than what is still open then, unless
    /// more were spawned.
    pub open: usize,
}

impl Family {
    /// The family of a head that has not begun.
    pub(super) fn new(outer: Option<Arc<Family>>) -> Arc<Family> {
        Arc::new(Family { open: AtomicUsize::new(1), spawned: AtomicUsize::new(0), outer, head: OnceLock::new() })
    }

    /// Somebody who is a member brings in another.
    pub(super) fn enter(&self) {
        // Ordering: relaxed, the member that calls this keeps the count above zero.
        self.open.fetch_add(1, Ordering::Relaxed);
        self.spawned.fetch_add(1, Ordering::Relaxed);
    }

    /// The member that was brought in last by the caller never was.
    pub(super) fn retract(&self) {
        self.spawned.fetch_sub(1, Ordering::Relaxed);
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 1, "the caller is a member too");
    }

    /// The head is over; its result is released once all descendants are.
    pub(super) fn head_is_over(&self, head: Arc<dyn Release>) {
        let first = self.head.set(head).is_ok();
        debug_assert!(first, "a head ends once");
        self.leave();
    }

    /// A member is over.
    pub(super) fn leave(&self) {
        let mut family = self;
        // Ordering: release, so that the last one to leave acquires what the others did before they left, and whoever
        // sees the result sees it too.
        while family.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Some(head) = family.head.get() {
                head.release();
            }
            // With its family the head itself is over.
            let Some(outer) = &family.outer else { return };
            family = outer;
        }
    }

    pub(super) fn descendants(&self) -> Descendants {
        // Ordering: relaxed, figures to look at. Open is read first, so that it is not above spawned.
        let open = self.open.load(Ordering::Relaxed);
        let head = usize::from(self.head.get().is_none());
        let spawned = self.spawned.load(Ordering::Relaxed);
        Descendants { spawned, open: open.saturating_sub(head).min(spawned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let outer = Family::new(None);
        outer.enter();
        let inner = Family::new(Some(Arc::clone(&outer)));
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
