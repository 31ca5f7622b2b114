//! Tasks that wait for the results of others: a directed graph without cycles.

use super::handle::JoinHandle;
use super::lock;
use super::options::Options;
use super::spawner::Spawner;
use crate::runtime::continuation::panic_message;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Tasks and their prerequisites. A node begins when all its prerequisites have ended, and reads their results.
///
/// Nodes come from the graph and name only nodes that it made before: a cycle cannot be written.
///
/// ```
/// use forebay::tasks::{Runtime, TaskGraph};
///
/// let mut graph = TaskGraph::new();
/// let words = graph.task(|| "work stealing and micropools".to_owned());
/// let longest = graph.then(&words, |words| words.split(' ').map(str::len).max().unwrap_or(0));
/// let count = graph.then(&words, |words| words.split(' ').count());
/// let text = graph.both(&longest, &count, |longest, count| format!("{count} words of up to {longest} letters"));
///
/// let runtime = Runtime::with_workers(2)?;
/// graph.spawn_on(&runtime).join()?;
/// assert_eq!(text.result(), Ok(&"4 words of up to 10 letters".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct TaskGraph {
    number: Option<u64>,
    nodes: Vec<Vertex>,
}

/// One node of a [`TaskGraph`], and after the run its result. Clones are the same node.
pub struct Node<T> {
    graph: u64,
    number: usize,
    result: Arc<OnceLock<Result<T, NodeError>>>,
}

/// Why a node has no result.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The node has not run: the graph was not spawned, is not over yet, or was cancelled.
    #[error("the node has not run")]
    NotRun,
    /// The node panicked; this is the message of the panic.
    #[error("the node panicked: {0}")]
    Panicked(String),
    /// A prerequisite has no result.
    #[error("a prerequisite of the node has no result")]
    Skipped,
}

show_as_text!(NodeError);

/// The work of a node; a payload is its panic, to be raised again when the dependents are released.
type NodeWork = Box<dyn FnOnce() -> std::thread::Result<()> + Send>;

struct Vertex {
    work: Mutex<Option<NodeWork>>,
    prerequisites: AtomicUsize,
    dependents: Vec<usize>,
}

/// A graph on its way.
struct Run {
    nodes: Vec<Vertex>,
    spawner: Spawner,
    options: Options,
}

impl TaskGraph {
    /// A graph of no nodes.
    pub fn new() -> TaskGraph {
        TaskGraph::default()
    }

    /// A node that waits for nothing.
    pub fn task<T, F>(&mut self, work: F) -> Node<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + Sync + 'static,
    {
        self.add(&[], move || Some(work()))
    }

    /// A node that waits for `before`: one link of a chain, or one branch of a fan-out.
    ///
    /// # Panics
    /// If `before` is a node of another graph.
    pub fn then<A, T, F>(&mut self, before: &Node<A>, work: F) -> Node<T>
    where
        A: Send + Sync + 'static,
        F: FnOnce(&A) -> T + Send + 'static,
        T: Send + Sync + 'static,
    {
        let before = before.clone();
        self.add(&[before.place()], move || Some(work(before.value()?)))
    }

    /// A node that waits for two, which may be of different types.
    ///
    /// # Panics
    /// If one of them is a node of another graph.
    pub fn both<A, B, T, F>(&mut self, first: &Node<A>, second: &Node<B>, work: F) -> Node<T>
    where
        A: Send + Sync + 'static,
        B: Send + Sync + 'static,
        F: FnOnce(&A, &B) -> T + Send + 'static,
        T: Send + Sync + 'static,
    {
        let (first, second) = (first.clone(), second.clone());
        self.add(&[first.place(), second.place()], move || Some(work(first.value()?, second.value()?)))
    }

    /// A node that waits for any number of nodes of one type, and reads their results in this order.
    ///
    /// # Panics
    /// If one of them is a node of another graph.
    pub fn join<A, T, F>(&mut self, before: &[Node<A>], work: F) -> Node<T>
    where
        A: Send + Sync + 'static,
        F: FnOnce(&[&A]) -> T + Send + 'static,
        T: Send + Sync + 'static,
    {
        let places: Vec<Place> = before.iter().map(Node::place).collect();
        let before = before.to_vec();
        self.add(&places, move || {
            let values: Option<Vec<&A>> = before.iter().map(Node::value).collect();
            Some(work(&values?))
        })
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Runs the graph; each node is a task. The handle is ready when all of them are over, and each [`Node`] then has
    /// its result. When a node panics, the nodes that depend on it are skipped, and no others.
    pub fn spawn_on(self, spawner: &Spawner) -> JoinHandle<()> {
        self.spawn_with(Options::default(), spawner)
    }

    /// Runs the graph as [`TaskGraph::spawn_on`] does, with options for every node. Once their token is cancelled no
    /// further node begins.
    pub fn spawn_with(self, options: Options, spawner: &Spawner) -> JoinHandle<()> {
        let run = Arc::new(Run { nodes: self.nodes, spawner: spawner.clone(), options: options.clone() });
        spawner.spawn_with(options.with_children(), move || {
            let free = |node: &usize| run.nodes[*node].prerequisites.load(Ordering::Relaxed) == 0;
            // All are found before any runs: a node that runs frees others.
            let free: Vec<usize> = (0..run.nodes.len()).filter(free).collect();
            free.into_iter().for_each(|node| run.spawn(node));
        })
    }

    fn add<T, F>(&mut self, before: &[Place], work: F) -> Node<T>
    where
        F: FnOnce() -> Option<T> + Send + 'static,
        T: Send + Sync + 'static,
    {
        static GRAPHS: AtomicU64 = AtomicU64::new(0);
        let graph = *self.number.get_or_insert_with(|| GRAPHS.fetch_add(1, Ordering::Relaxed));
        let number = self.nodes.len();
        for place in before {
            assert_eq!(place.graph, graph, "a prerequisite is a node of another graph");
            self.nodes[place.number].dependents.push(number);
        }
        let result = Arc::new(OnceLock::new());
        let cell = Arc::clone(&result);
        let work = move || {
            let (result, panic) = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(value) => (value.ok_or(NodeError::Skipped), Ok(())),
                Err(payload) => (Err(NodeError::Panicked(panic_message(payload.as_ref()))), Err(payload)),
            };
            // The only writer, once.
            let _ = cell.set(result);
            panic
        };
        self.nodes.push(Vertex {
            work: Mutex::new(Some(Box::new(work))),
            prerequisites: AtomicUsize::new(before.len()),
            dependents: Vec::new(),
        });
        Node { graph, number, result }
    }
}

impl Run {
    fn spawn(self: &Arc<Self>, node: usize) {
        let run = Arc::clone(self);
        // A node's own group is the graph; its result is in its cell.
        drop(self.spawner.spawn_with(self.options.clone(), move || run.work(node)));
    }

    fn work(self: &Arc<Self>, node: usize) {
        let vertex = &self.nodes[node];
        let Some(work) = lock(&vertex.work).take() else { return };
        let panic = work();
        for &dependent in &vertex.dependents {
            // Ordering: release and acquire: the dependent sees the results of all prerequisites.
            if self.nodes[dependent].prerequisites.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.spawn(dependent);
            }
        }
        if let Err(payload) = panic {
            // So that the task of the node counts as panicked.
            resume_unwind(payload);
        }
    }
}

/// The identity of a node, whatever its type.
#[derive(Clone, Copy)]
struct Place {
    graph: u64,
    number: usize,
}

impl<T> Node<T> {
    /// The result of the node.
    ///
    /// # Errors
    /// Why there is none.
    pub fn result(&self) -> Result<&T, NodeError> {
        match self.result.get() {
            Some(result) => result.as_ref().map_err(NodeError::clone),
            None => Err(NodeError::NotRun),
        }
    }

    fn value(&self) -> Option<&T> {
        self.result().ok()
    }

    fn place(&self) -> Place {
        Place { graph: self.graph, number: self.number }
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Node<T> {
        Node { graph: self.graph, number: self.number, result: Arc::clone(&self.result) }
    }
}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number).field("has_run", &self.result.get().is_some()).finish()
    }
}

impl fmt::Debug for TaskGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGraph").field("nodes", &self.nodes.len()).finish()
    }
}
