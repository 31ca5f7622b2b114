//! Tasks that end together, and may wait for one another: a graph without cycles, on a runtime or in a scope.

use super::error::JoinError;
use super::handle::JoinHandle;
use super::lock;
use super::options::Options;
use super::outcome::{Latch, Member};
use super::parallel::Chunks;
use super::spawner::Spawner;
use super::worker;
use crate::runtime::continuation::panic_message;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

/// Tasks that end together: nodes, which may wait for the results of earlier nodes, and all that descends from them.
///
/// Nodes come from the group and name only nodes that it made before: a cycle cannot be written. A node begins when all
/// nodes that it names are over. When a node panics, the nodes that depend on it are skipped, and no others. Once the
/// token of the group is cancelled no further node begins.
///
/// ```
/// use forebay::tasks::{Options, Runtime};
///
/// let runtime = Runtime::with_workers(2)?;
/// let group = runtime.group(Options::new());
/// let words = group.spawn(|| "work stealing and micropools".to_owned());
/// let longest = group.then(&words, |words| words.split(' ').map(str::len).max().unwrap_or(0));
/// let count = group.then(&words, |words| words.split(' ').count());
/// let text = group.both(&longest, &count, |longest, count| format!("{count} words of up to {longest} letters"));
/// group.close().join()?;
/// assert_eq!(text.result(), Some(Ok(&"4 words of up to 10 letters".to_owned())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group<'env> {
    run: Arc<Run<'env>>,
    /// Keeps the group open.
    _member: Member,
}

/// One node of a [`Group`], and its result. Clones are the same node.
pub struct Node<T> {
    latch: Arc<Latch>,
    number: usize,
    result: Arc<OnceLock<Result<T, JoinError>>>,
}

/// What a node does; an error is its panic, to be raised again when the dependents are released.
type Work<'env> = Box<dyn FnOnce() -> thread::Result<()> + Send + 'env>;

/// A node that was released: what a worker calls.
pub(super) type Released<'env> = Box<dyn FnOnce() + Send + 'env>;

/// What puts a node where a worker finds it.
pub(super) type Submit<'env> = Box<dyn Fn(Released<'env>) + Send + Sync + 'env>;

/// A group, as its nodes share it.
struct Run<'env> {
    nodes: Mutex<Vec<Vertex<'env>>>,
    latch: Arc<Latch>,
    submit: Submit<'env>,
}

struct Vertex<'env> {
    /// Empty once the node is released.
    work: Option<Work<'env>>,
    /// Nodes before this one that are not over.
    before: usize,
    dependents: Vec<usize>,
    over: bool,
}

impl Spawner {
    /// A group without nodes. `options` are those of every node. A task that makes a group within another one keeps
    /// that one open too.
    pub fn group(&self, options: Options) -> Group<'static> {
        let outer = worker::of(&self.scheduler).and_then(|place| place.membership.borrow().group.clone());
        let (latch, member) = Latch::new(self.scheduler.number, outer);
        let (spawner, of) = (self.clone(), Arc::clone(&latch));
        let submit = move |node| {
            let refused = spawner.spawn_with(Options { group: Some(of.enter()), ..options.clone() }, node).refusal();
            refused.into_iter().for_each(|error| of.fail(error));
        };
        Group::new(latch, member, Box::new(submit))
    }
}

impl<'env> Group<'env> {
    pub(super) fn new(latch: Arc<Latch>, member: Member, submit: Submit<'env>) -> Group<'env> {
        Group { run: Arc::new(Run { nodes: Mutex::default(), latch, submit }), _member: member }
    }

    /// A node that waits for nothing.
    pub fn spawn<T: Send + Sync + 'env>(&self, work: impl FnOnce() -> T + Send + 'env) -> Node<T> {
        self.add(&[], move || Some(work()))
    }

    /// A node that waits for `before`: one link of a chain, or one branch of a fan-out.
    ///
    /// # Panics
    /// If `before` is a node of another group.
    pub fn then<A: Send + Sync + 'env, T: Send + Sync + 'env>(
        &self,
        before: &Node<A>,
        work: impl FnOnce(&A) -> T + Send + 'env,
    ) -> Node<T> {
        let node = before.clone();
        self.add(&[before.id()], move || Some(work(node.value()?)))
    }

    /// A node that waits for two, which may be of different types.
    ///
    /// # Panics
    /// If one of them is a node of another group.
    pub fn both<A, B, T, F>(&self, first: &Node<A>, second: &Node<B>, work: F) -> Node<T>
    where
        A: Send + Sync + 'env,
        B: Send + Sync + 'env,
        F: FnOnce(&A, &B) -> T + Send + 'env,
        T: Send + Sync + 'env,
    {
        let ids = [first.id(), second.id()];
        let (first, second) = (first.clone(), second.clone());
        self.add(&ids, move || Some(work(first.value()?, second.value()?)))
    }

    /// A node that waits for any number of nodes of one type, and reads their results in this order.
    ///
    /// # Panics
    /// If one of them is a node of another group.
    pub fn all<A: Send + Sync + 'env, T: Send + Sync + 'env>(
        &self,
        before: &[Node<A>],
        work: impl FnOnce(&[&A]) -> T + Send + 'env,
    ) -> Node<T> {
        let ids: Vec<NodeId<'_>> = before.iter().map(Node::id).collect();
        let nodes = before.to_vec();
        self.add(&ids, move || {
            let values: Option<Vec<&A>> = nodes.iter().map(Node::value).collect();
            Some(work(&values?))
        })
    }

    /// Calls `body` for every part of `range`, each `chunk` long but perhaps the last, before the group is over.
    pub fn parallel_for(
        &self,
        range: Range<usize>,
        chunk: NonZeroUsize,
        body: impl Fn(Range<usize>) + Send + Sync + 'env,
    ) {
        let (body, chunks) = (Arc::new(body), Chunks { range, chunk });
        for part in (0..).map_while(|number| chunks.part(number)) {
            let body = Arc::clone(&body);
            self.spawn(move || body(part));
        }
    }

    /// Number of open tasks: nodes that were released, and all that descends from them. May be stale.
    pub fn open(&self) -> usize {
        self.run.latch.open() - 1
    }

    /// Ends the making of nodes. The handle is ready when all are over, with all that descends from them. Its error is
    /// the first panic of a node, or that the runtime refused one.
    pub fn close(self) -> JoinHandle<()> {
        JoinHandle::new(Arc::clone(self.run.latch.outcome()) as _)
    }

    fn add<T: Send + Sync + 'env>(
        &self,
        before: &[NodeId<'_>],
        work: impl FnOnce() -> Option<T> + Send + 'env,
    ) -> Node<T> {
        let result = Arc::new(OnceLock::new());
        let cell = Arc::clone(&result);
        let work = move || {
            let (result, panic) = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(value) => (value.ok_or(JoinError::Skipped), Ok(())),
                Err(payload) => (Err(JoinError::Panicked(panic_message(payload.as_ref()))), Err(payload)),
            };
            // The only writer, once.
            let _ = cell.set(result);
            panic
        };
        let latch = &self.run.latch;
        assert!(before.iter().all(|id| Arc::ptr_eq(id.latch, latch)), "a node before it is of another group");
        let number = self.run.add(before, Box::new(work));
        Node { latch: Arc::clone(latch), number, result }
    }
}

impl<'env> Run<'env> {
    fn add(self: &Arc<Self>, before: &[NodeId<'_>], work: Work<'env>) -> usize {
        let mut nodes = lock(&self.nodes);
        let number = nodes.len();
        let open: Vec<usize> = before.iter().map(|id| id.number).filter(|node| !nodes[*node].over).collect();
        open.iter().for_each(|node| nodes[*node].dependents.push(number));
        let (work, released) = if open.is_empty() { (None, Some(work)) } else { (Some(work), None) };
        nodes.push(Vertex { work, before: open.len(), dependents: Vec::new(), over: false });
        drop(nodes);
        released.into_iter().for_each(|work| self.submit(number, work));
        number
    }

    fn submit(self: &Arc<Self>, number: usize, work: Work<'env>) {
        let run = Arc::clone(self);
        (self.submit)(Box::new(move || run.work(number, work)));
    }

    fn work(self: &Arc<Self>, number: usize, work: Work<'env>) {
        let panic = work();
        for (node, work) in self.end(number) {
            self.submit(node, work);
        }
        if let Err(payload) = panic {
            self.latch.fail(JoinError::Panicked(panic_message(payload.as_ref())));
            // So that the task of the node counts as panicked.
            resume_unwind(payload);
        }
    }

    /// The node is over; returns the nodes that waited for no other.
    fn end(&self, number: usize) -> Vec<(usize, Work<'env>)> {
        let mut nodes = lock(&self.nodes);
        nodes[number].over = true;
        let dependents = std::mem::take(&mut nodes[number].dependents);
        let released = dependents.into_iter().filter_map(|node| {
            let vertex = &mut nodes[node];
            vertex.before -= 1;
            if vertex.before == 0 { vertex.work.take().map(|work| (node, work)) } else { None }
        });
        released.collect()
    }
}

/// The identity of a node, whatever its type.
struct NodeId<'n> {
    latch: &'n Arc<Latch>,
    number: usize,
}

impl<T> Node<T> {
    /// The result of the node, or why there is none. `None`: the node has not run yet, or was cancelled.
    pub fn result(&self) -> Option<Result<&T, JoinError>> {
        self.result.get().map(|result| result.as_ref().map_err(JoinError::clone))
    }

    fn value(&self) -> Option<&T> {
        self.result.get()?.as_ref().ok()
    }

    fn id(&self) -> NodeId<'_> {
        NodeId { latch: &self.latch, number: self.number }
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Node<T> {
        Node { latch: Arc::clone(&self.latch), number: self.number, result: Arc::clone(&self.result) }
    }
}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number).field("has_run", &self.result.get().is_some()).finish()
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("open", &self.open()).finish_non_exhaustive()
    }
}
