//! Cooperative cancellation: the holder of a token asks, and what runs looks when it suits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to work to end. Clones are one and the same token; a [child](CancellationToken::child) is cancelled with
/// its parent but not the other way round.
///
/// A task of [`crate::tasks`] that has not begun when its token is cancelled never begins. A running closure goes on
/// until it asks [`CancellationToken::is_cancelled`]. A running future ends at its next
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
    /// A new token, which is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// A token that is cancelled when this one is, and can be cancelled alone. Looking at it costs one load more than
    /// looking at its parent.
    pub fn child(&self) -> CancellationToken {
        CancellationToken { node: Arc::new(Node { cancelled: AtomicBool::new(false), parent: Some(self.clone()) }) }
    }

    /// Asks everything with this token or a descendant of it to end. Asking again changes nothing.
    pub fn cancel(&self) {
        // Ordering: release, pairs with the acquire below: a thread that sees the flag sees what was done before it was
        // raised.
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
