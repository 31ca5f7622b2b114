//! Cancellation by agreement: whoever holds a token may ask, and the task looks when it suits.

use super::context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks tasks to end. Clones are one and the same token; a [child](CancellationToken::child) is cancelled with its
/// parent but not the other way round.
///
/// A task that has not begun when its token is cancelled never begins. One that runs goes on until it looks: at
/// [`CancellationToken::is_cancelled`], or, if it is a future, at its next
/// [`checkpoint`](crate::handler::checkpoint), which then never returns. A future that waits ends when it is woken.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    node: Arc<Node>,
}

#[derive(Debug, Default)]
struct Node {
    cancelled: AtomicBool,
    parent: Option<CancellationToken>,
}

impl CancellationToken {
    /// A token that nobody has cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// The token of the task that runs on this thread, if it has one: the one that it was spawned with, or else that of
    /// the task that spawned it.
    pub fn current() -> Option<CancellationToken> {
        context::current().and_then(|context| context.token())
    }

    /// A token that is cancelled when this one is, and can be cancelled alone. Looking at it costs one load more than
    /// looking at its parent.
    pub fn child(&self) -> CancellationToken {
        CancellationToken { node: Arc::new(Node { cancelled: AtomicBool::new(false), parent: Some(self.clone()) }) }
    }

    /// Asks every task with this token or a descendant of it to end. Asking again changes nothing.
    pub fn cancel(&self) {
        // Ordering: release, pairs with the acquire below: who sees the flag sees what was done before it was raised.
        self.node.cancelled.store(true, Ordering::Release);
    }

    /// Whether this token or an ancestor of it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        let mut token = self;
        loop {
            if token.node.cancelled.load(Ordering::Acquire) {
                return true;
            }
            let Some(parent) = &token.node.parent else { return false };
            token = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_goes_down_and_neither_up_nor_aside() {
        let root = CancellationToken::new();
        let (left, right) = (root.child(), root.child());
        let grandchild = left.child();
        left.cancel();
        assert_eq!([&root, &left, &right, &grandchild].map(|token| token.is_cancelled()), [false, true, false, true]);
        let same = root.clone();
        same.cancel();
        assert!(right.is_cancelled() && root.is_cancelled());
    }
}
