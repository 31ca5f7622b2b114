//! Tasks that end together, and may wait for one another: a graph without cycles.

use super::error::{JoinError, Latch, Outcome};
use super::handle::JoinHandle;
use super::spawner::Spawner;
use super::task::ClosureTask;
use super::worker;
use crate::runtime::continuation::{guarded, lock};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::{fmt, slice};

/// Tasks that end together: nodes, which may wait for the results of earlier nodes, and all that descends from them.
///
/// Nodes come from the group and name only nodes that it made before: a cycle cannot be written. A node begins when all
/// nodes that it names are over. When a node panics, the nodes that depend on it are skipped, and no others. Once the
/// token of the group is cancelled no further node begins.
///
/// ```
/// use forebay::tasks::Runtime;
///
/// let runtime = Runtime::with_workers(2)?;
/// let group = runtime.group();
/// let words = group.spawn(|| "work stealing and micropools".to_owned());
/// let longest = group.then(&words, |words| words.split(' ').map(str::len).max().unwrap_or(0));
/// let count = group.then(&words, |words| words.split(' ').count());
/// let text = group.both(&longest, &count, |longest, count| format!("{count} words of up to {longest} letters"));
/// group.close().join()?;
/// assert_eq!(text.result(), Some(Ok(&"4 words of up to 10 letters".to_owned())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group {
    run: Arc<Run>,
    latch: Arc<Latch>,
}

/// One node of a [`Group`], and its result. Clones are the same node.
pub struct Node<T> {
    group: Weak<Latch>,
    number: usize,
    result: Arc<OnceLock<Result<T, JoinError>>>,
}

/// What a node does. Returns the message of its panic, if there was one.
type Work = Box<dyn FnOnce() -> Option<String> + Send>;

/// A group, as its nodes share it.
struct Run {
    spawner: Spawner,
    nodes: Mutex<Vec<Vertex>>,
    latch: Weak<Latch>,
}

struct Vertex {
    /// Empty once the node is released.
    work: Option<Work>,
    /// Nodes before this one that are not over.
    before: usize,
    /// Nodes that wait for this one; `None` once it is over.
    dependents: Option<Vec<usize>>,
}

impl Spawner {
    /// A group without nodes, which it spawns as this spawner does. A task that makes a group within another one keeps
    /// that one open too.
    pub fn group(&self) -> Group {
        let outer = worker::of(&self.scheduler).and_then(|place| place.membership.borrow().group.clone());
        Group::new(self.clone(), outer)
    }
}

impl Group {
    fn new(spawner: Spawner, outer: Option<Arc<Latch>>) -> Group {
        let latch = Arc::new(Latch { failure: OnceLock::new(), outcome: Arc::new(Outcome::new()), _outer: outer });
        let run = Run { spawner, nodes: Mutex::default(), latch: Arc::downgrade(&latch) };
        Group { run: Arc::new(run), latch }
    }

    /// A node that waits for nothing.
    pub fn spawn<T: Send + Sync + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Node<T> {
        self.add(&[], move || Some(work()))
    }

    /// A node that waits for `before`: one link of a chain, or one branch of a fan-out.
    ///
    /// # Panics
    /// If `before` is a node of another group.
    pub fn then<A: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        before: &Node<A>,
        work: impl FnOnce(&A) -> T + Send + 'static,
    ) -> Node<T> {
        self.all(slice::from_ref(before), |values| work(values[0]))
    }

    /// A node that waits for two, which may be of different types.
    ///
    /// # Panics
    /// If one of them is a node of another group.
    pub fn both<A, B, T, F>(&self, first: &Node<A>, second: &Node<B>, work: F) -> Node<T>
    where
        A: Send + Sync + 'static,
        B: Send + Sync + 'static,
        F: FnOnce(&A, &B) -> T + Send + 'static,
        T: Send + Sync + 'static,
    {
        let numbers = [first.number_in(self), second.number_in(self)];
        let (first, second) = (first.clone(), second.clone());
        self.add(&numbers, move || Some(work(first.value()?, second.value()?)))
    }

    /// A node that waits for any number of nodes of one type, and reads their results in this order.
    ///
    /// # Panics
    /// If one of them is a node of another group.
    pub fn all<A: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        before: &[Node<A>],
        work: impl FnOnce(&[&A]) -> T + Send + 'static,
    ) -> Node<T> {
        let numbers: Vec<usize> = before.iter().map(|node| node.number_in(self)).collect();
        let nodes = before.to_vec();
        self.add(&numbers, move || {
            let values: Option<Vec<&A>> = nodes.iter().map(Node::value).collect();
            Some(work(&values?))
        })
    }

    /// Number of open tasks: nodes that were released, and all that descends from them. May be stale.
    pub fn open(&self) -> usize {
        Arc::strong_count(&self.latch) - 1
    }

    /// Ends the making of nodes. The handle is ready when all are over, with all that descends from them. Its error is
    /// the first panic of a node, or that the runtime refused one.
    pub fn close(self) -> JoinHandle<()> {
        JoinHandle::new(self.run.spawner.scheduler.number, Arc::clone(&self.latch.outcome) as _)
    }

    fn add<T: Send + Sync + 'static>(
        &self,
        before: &[usize],
        work: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Node<T> {
        let result = Arc::new(OnceLock::new());
        let cell = Arc::clone(&result);
        let work = move || {
            let (result, panic) = match guarded(work) {
                Ok(value) => (value.ok_or(JoinError::Skipped), None),
                Err(panic) => (Err(JoinError::Panicked(panic.message())), Some(panic.message())),
            };
            // The only writer, once.
            let _ = cell.set(result);
            panic
        };
        let (number, released) = self.run.add(before, Box::new(work));
        self.run.release(released.map(|work| (number, work)));
        Node { group: Arc::downgrade(&self.latch), number, result }
    }
}

impl Run {
    fn add(&self, before: &[usize], work: Work) -> (usize, Option<Work>) {
        let mut nodes = lock(&self.nodes);
        let number = nodes.len();
        let mut open = 0;
        for node in before {
            if let Some(dependents) = &mut nodes[*node].dependents {
                dependents.push(number);
                open += 1;
            }
        }
        nodes.push(Vertex { work: Some(work), before: open, dependents: Some(Vec::new()) });
        (number, nodes[number].release())
    }

    /// Puts nodes where workers find them.
    fn release(self: &Arc<Self>, nodes: impl IntoIterator<Item = (usize, Work)>) {
        for (number, work) in nodes {
            let member = self.latch.upgrade().expect("a member releases nodes");
            let run = Arc::clone(self);
            let make = |membership, _| ClosureTask::new(membership, move || run.work(number, work));
            if let Err(error) = self.spawner.submit(Some(member), make) {
                self.fail(error);
            }
        }
    }

    fn work(self: Arc<Self>, number: usize, work: Work) {
        let panic = work().inspect(|panic| self.fail(JoinError::Panicked(panic.clone())));
        self.release(self.end(number));
        if let Some(message) = panic {
            // So that the task of the node counts as panicked.
            resume_unwind(Box::new(message));
        }
    }

    /// The node is over; returns the nodes that waited for no other.
    fn end(&self, number: usize) -> Vec<(usize, Work)> {
        let mut nodes = lock(&self.nodes);
        let dependents = nodes[number].dependents.take().unwrap_or_default();
        let released = dependents.into_iter().filter_map(|node| {
            nodes[node].before -= 1;
            Some((node, nodes[node].release()?))
        });
        released.collect()
    }

    /// Makes `error` the result of the group, if it is the first.
    fn fail(&self, error: JoinError) {
        if let Some(latch) = self.latch.upgrade() {
            let _ = latch.failure.set(error);
        }
    }
}

impl Vertex {
    /// The work, if nothing is before it any more.
    fn release(&mut self) -> Option<Work> {
        if self.before == 0 { self.work.take() } else { None }
    }
}

impl<T> Node<T> {
    /// The result of the node, or why there is none. `None`: the node has not run yet, or was cancelled.
    pub fn result(&self) -> Option<Result<&T, JoinError>> {
        self.result.get().map(|result| result.as_ref().map_err(JoinError::clone))
    }

    fn value(&self) -> Option<&T> {
        self.result.get()?.as_ref().ok()
    }

    fn number_in(&self, group: &Group) -> usize {
        assert!(Weak::ptr_eq(&self.group, &group.run.latch), "a node before it is of another group");
        self.number
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Node<T> {
        Node { group: Weak::clone(&self.group), number: self.number, result: Arc::clone(&self.result) }
    }
}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number).field("has_run", &self.result.get().is_some()).finish()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("open", &self.open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Runtime;

    // Does the last member end its group, and only then leave the outer one?
    #[test]
    fn the_last_to_leave_ends_the_group_and_leaves_the_outer_one() {
        let runtime = Runtime::with_workers(1).expect("a worker");
        let outer = runtime.group();
        let inner = Group::new(Spawner::clone(&runtime), Some(Arc::clone(&outer.latch)));
        let outcomes = [&outer, &inner].map(|group| Arc::clone(&group.latch.outcome));
        let child = Arc::clone(&inner.latch);
        assert_eq!((outer.open(), inner.open()), (1, 1));
        inner.run.fail(JoinError::Cancelled);
        inner.run.fail(JoinError::ShutDown);
        drop((outer, inner));
        assert!(outcomes.iter().all(|outcome| !outcome.is_ready()));
        drop(child);
        assert_eq!(outcomes[1].take(), Some(Err(JoinError::Cancelled)), "the first failure");
        assert_eq!(outcomes[0].take(), Some(Ok(())));
    }
}
