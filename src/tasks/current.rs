//! The task that a worker runs at the moment: what its children inherit, and where its end is counted.

use super::counters::{End, Tally};
use super::error::JoinError;
use super::group::TaskGroup;
use super::options::Priority;
use crate::runtime::continuation::CancellationToken;
use crossbeam_utils::CachePadded;
use std::cell::RefCell;
use std::sync::Arc;

/// What one worker's tasks see of their worker.
pub(super) struct Current {
    tally: Arc<CachePadded<Tally>>,
    membership: RefCell<Membership>,
}

/// The priority, the token and the group of a task, which its children inherit.
#[derive(Clone, Default)]
pub(super) struct Membership {
    pub(super) priority: Priority,
    pub(super) token: Option<CancellationToken>,
    /// The group whose head the task is, or else the group of which it is a member.
    pub(super) group: Option<Arc<TaskGroup>>,
}

impl Current {
    /// No task runs yet; ends are going to be counted in `tally`.
    pub(super) fn new(tally: Arc<CachePadded<Tally>>) -> Current {
        Current { tally, membership: RefCell::default() }
    }

    /// Calls `call` as the task of that membership, and gives the membership back.
    pub(super) fn within<R>(&self, task: Membership, call: impl FnOnce() -> R) -> (R, Membership) {
        let outer = self.membership.replace(task);
        let result = call();
        (result, self.membership.replace(outer))
    }

    pub(super) fn priority(&self) -> Priority {
        self.membership.borrow().priority
    }

    pub(super) fn token(&self) -> Option<CancellationToken> {
        self.membership.borrow().token.clone()
    }

    pub(super) fn inherited(&self) -> Membership {
        self.membership.borrow().clone()
    }

    /// Counts how a task ended that ran here.
    pub(super) fn count<T>(&self, result: &Result<T, JoinError>) {
        self.tally.ended_here(End::of(result));
    }
}

impl Membership {
    pub(super) fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}
