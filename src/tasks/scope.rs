//! Tasks that borrow.
//!
//! Without `unsafe`, a closure that borrows can run only on a thread that the compiler sees end before the borrow does.
//! So a scope has threads of its own, which end with it.

use super::builder::BuildError;
use super::error::{JoinError, Latch};
use super::group::{Group, Released};
use crate::runtime::continuation::{guarded, lock};
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Nodes that wait for a thread of a scope. The thread that releases one more runs it: that of the scope's body, or a thread
/// that ends the node before it. A guess: enough that threads do not wait while the body runs a node.
const WAITING_MAX: usize = 256;

/// A node, and what keeps its scope open.
type Member<'env> = (Released<'env>, Arc<Latch>);

/// Runs `body` with a [`Group`] whose nodes may borrow whatever lives longer than the scope, on `workers` threads of the
/// scope's own. All nodes are over when this returns. Starting and ending a thread costs tens of microseconds, so many
/// loops belong in one scope.
///
/// ```
/// let mut squares = vec![0; 1_000];
/// forebay::tasks::scope(2, |scope| {
///     for (part, squares) in squares.chunks_mut(100).enumerate() {
///         scope.spawn(move || squares.iter_mut().enumerate().for_each(|(i, square)| *square = (part * 100 + i).pow(2)));
///     }
/// })?;
/// assert_eq!(squares[999], 998_001);
/// # Ok::<(), forebay::tasks::ScopeError>(())
/// ```
///
/// # Errors
/// When the threads cannot be started, or a node panicked.
pub fn scope<'env, R>(workers: usize, body: impl FnOnce(&Group<'env>) -> R) -> Result<R, ScopeError> {
    if workers == 0 {
        return Err(BuildError::NoWorkers("scope".to_owned()).into());
    }
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let receiver = Mutex::new(receiver);
    // The last sender goes with the last node, and with it the threads.
    let submit = move |node, member| {
        sender.try_send((node, member)).map_err(|refused| match refused {
            TrySendError::Full((node, _)) | TrySendError::Disconnected((node, _)) => node,
        })
    };
    let group = Group::new(0, None, Box::new(submit));
    let outcome = group.outcome();
    let from = &receiver;
    let result = thread::scope(move |threads| {
        // Moved in: whatever way out is taken, the threads end.
        let group = group;
        for _ in 0..workers {
            thread::Builder::new().spawn_scoped(threads, || work(from))?;
        }
        Ok(body(&group))
    });
    let result = result.map_err(BuildError::Kernel)?;
    match outcome.take() {
        Some(Err(panic)) => Err(ScopeError::Task(panic)),
        _ => Ok(result),
    }
}

/// Runs one node after the other, until no more can come.
fn work(nodes: &Mutex<Receiver<Member<'_>>>) {
    let next = || lock(nodes).recv();
    while let Ok((node, _member)) = next() {
        // The group has noted the panic.
        let _ = guarded(|| node.run());
    }
}

/// Why a scope has no result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The threads could not be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A node panicked: the first, if several did.
    #[error(transparent)]
    Task(JoinError),
}

crate::time::show_as_text!(ScopeError);
