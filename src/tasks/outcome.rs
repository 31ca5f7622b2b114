//! The place of a task's result, and what holds a group open.

use super::error::JoinError;
use crate::runtime::continuation;
use std::sync::{Arc, OnceLock};

/// The place of a task's result.
pub(super) type Outcome<T> = continuation::Outcome<Result<T, JoinError>>;

/// The open members of a group hold it; the last that drops it ends the group.
pub(super) struct Latch {
    /// The first failure, if there was one.
    pub(super) failure: OnceLock<JoinError>,
    pub(super) outcome: Arc<Outcome<()>>,
    /// The group of the task that made this one, which waits for this one too.
    pub(super) _outer: Option<Arc<Latch>>,
}

impl Drop for Latch {
    fn drop(&mut self) {
        self.outcome.complete(self.failure.take().map_or(Ok(()), Err));
    }
}
