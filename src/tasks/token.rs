//! The token of a task.

use super::context;
pub use crate::runtime::continuation::CancellationToken;

impl CancellationToken {
    /// The token of the task that runs on this thread, if it has one: the token that the task was spawned with, or else
    /// the token of the task that spawned it.
    pub fn current() -> Option<CancellationToken> {
        context::current().and_then(|context| context.token())
    }
}
