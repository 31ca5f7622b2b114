//! A count of open tasks, and what is ready when it comes to zero.

use super::error::JoinError;
use super::outcome::Outcome;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::lock;

/// The open members of one group.
pub(super) struct Latch {
    /// At zero the group is over for good: only a member can bring in another.
    members: AtomicUsize,
    /// The membership in the group of the task that made this group, which waits for this group too.
    outer: Mutex<Option<Member>>,
    failure: OnceLock<JoinError>,
    outcome: Arc<Outcome<()>>,
}

/// One open member of a group; the last that is dropped ends the group.
pub(super) struct Member(Arc<Latch>);

impl Latch {
    /// A latch in the runtime of this number, and its first member.
    pub(super) fn new(runtime: u64, outer: Option<Member>) -> (Arc<Latch>, Member) {
        let latch = Arc::new(Latch {
            members: AtomicUsize::new(1),
            outer: Mutex::new(outer),
            failure: OnceLock::new(),
            outcome: Arc::new(Outcome::new(runtime)),
        });
        (Arc::clone(&latch), Member(latch))
    }

    /// One member more, which a member brings in.
    pub(super) fn enter(self: &Arc<Self>) -> Member {
        // Ordering: relaxed, the member that calls this keeps the count above zero.
        self.members.fetch_add(1, Ordering::Relaxed);
        Member(Arc::clone(self))
    }

    /// Makes `error` the result, if it is the first.
    pub(super) fn fail(&self, error: JoinError) {
        let _ = self.failure.set(error);
    }

    pub(super) fn failure(&self) -> Option<JoinError> {
        self.failure.get().cloned()
    }

    pub(super) fn outcome(&self) -> &Arc<Outcome<()>> {
        &self.outcome
    }

    /// Number of open members.
    pub(super) fn open(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }
}

impl Clone for Member {
    fn clone(&self) -> Member {
        self.0.enter()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let latch = &self.0;
        // Ordering: release, so that the last one acquires what the others did before they left, and a thread that sees
        // the result sees it too.
        if latch.members.fetch_sub(1, Ordering::AcqRel) == 1 {
            latch.outcome.complete(latch.failure().map_or(Ok(()), Err));
            let outer = lock(&latch.outer).take();
            drop(outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the last member end its group, and only then leave the outer one?
    #[test]
    fn the_last_to_leave_ends_the_group_and_leaves_the_outer_one() {
        let (outer, outer_member) = Latch::new(0, None);
        let (inner, inner_member) = Latch::new(0, Some(outer.enter()));
        let child = inner_member.clone();
        assert_eq!((outer.open(), inner.open()), (2, 2));
        drop(outer_member);
        drop(inner_member);
        assert!(!inner.outcome().is_ready() && !outer.outcome().is_ready());
        inner.fail(JoinError::Cancelled);
        inner.fail(JoinError::ShutDown);
        drop(child);
        assert_eq!(inner.outcome().take(), Some(Err(JoinError::Cancelled)), "the first failure");
        assert_eq!(outer.outcome().take(), Some(Ok(())));
    }
}
