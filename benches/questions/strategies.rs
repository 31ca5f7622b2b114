//! Which strategy is best for which tasks: one thread, a thread for each task, one queue behind a lock, or work stealing?

use super::contenders::{Contender, Kind, Latch};
use super::harness::{Arm, Size, interleaved, ns, operations, processors, text, threads};
use super::page::{Answer, Grid, Table};
use forebay::tasks::{Runtime, TaskGraph};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(crate) const QUESTION: &str = "Which strategy is best for which tasks: one thread, a thread for each task, one queue \
    behind a lock, or work stealing?";

const COLUMNS: [&str; 7] = ["", "one thread", "thread per task", "one queue", "Forebay", "rayon", "tokio"];

/// Tasks that wait for nothing: the operations of each.
type Load = Arc<Vec<u64>>;

pub(crate) fn ask(size: Size) -> Answer {
    let processors = processors();
    let mut grid = Grid::new(&format!("Four strategies, and two other runtimes, {processors} workers, ms"), &COLUMNS);
    let scale = size.of(1, 1_000);
    let uneven = |number| if number % 10 == 0 { 1_800_000 / scale } else { 18_000 / scale };
    let loads: [(&str, &str, Vec<u64>); 3] = [
        ("2,000 x 2 k operations", "4.96 / 21.6 / 1.40 / 1.93", vec![2_000 / scale; size.of(2_000, 50)]),
        ("64 x 2 M operations", "161.5 / 27.3 / 27.3 / 27.5", vec![2_000_000 / scale; 64]),
        ("500, 1 in 10 100 times heavier", "126.9 / 23.6 / 22.3 / 22.5", (0..size.of(500, 50)).map(uneven).collect()),
    ];
    for (name, published, load) in loads {
        let load = Arc::new(load);
        let arm = |strategy: Strategy| -> Arm<'static> {
            let load = Arc::clone(&load);
            Box::new(move || [strategy.standing(&|pool| pool.run(&load))])
        };
        grid.case(size, name, published, Strategy::ALL.map(arm).into());
    }
    let nodes = size.of(200, 10);
    let arm = |strategy: Strategy| -> Arm<'static> { Box::new(move || [strategy.standing(&|pool| pool.graph(nodes))]) };
    grid.case(size, "graph: 200 nodes and a join", "- / - / - / 0.30", Strategy::ALL.map(arm).into());

    let over = |case| text(grid.over_better(case));
    let queue = |case: &str| text(grid.at(case, "Forebay").over(grid.at(case, "one queue")).median());
    let many = "2,000 x 2 k operations";
    let verdict = format!(
        "Forebay takes {} times the better of rayon and tokio on many small tasks, {} on large, {} on uneven ones, {} on the \
         graph; and {} times one queue behind a lock on many small tasks.",
        over(many),
        over("64 x 2 M operations"),
        over("500, 1 in 10 100 times heavier"),
        over("graph: 200 nodes and a join"),
        queue(many)
    );
    Answer {
        tables: vec![grid.table, stolen(size)],
        not_shown: "Eight processors, which the published figures are from: there the lock of one queue is contended. The \
            graph is built in the time shown, by `TaskGraph` here, and by a count of what is left elsewhere.",
        verdict,
        failure: None,
    }
}

/// A way to run tasks.
#[derive(Clone, Copy)]
enum Strategy {
    Single,
    Threads,
    OneQueue,
    Runtime(Kind),
}

impl Strategy {
    const ALL: [Strategy; 6] = [
        Strategy::Single,
        Strategy::Threads,
        Strategy::OneQueue,
        Strategy::Runtime(Kind::Forebay),
        Strategy::Runtime(Kind::Rayon),
        Strategy::Runtime(Kind::Tokio),
    ];

    /// Milliseconds of `run` on what this strategy keeps standing.
    fn standing(self, run: &dyn Fn(&Standing)) -> f64 {
        let standing = match self {
            Strategy::Single => Standing::Single,
            Strategy::Threads => Standing::Threads,
            Strategy::OneQueue => Standing::OneQueue(OneQueue::start(processors())),
            Strategy::Runtime(kind) => Standing::Runtime(kind.start(processors())),
        };
        standing.run(&Arc::new(vec![1_000; 10]));
        ns(|| run(&standing)) / 1e6
    }
}

enum Standing {
    Single,
    Threads,
    OneQueue(OneQueue),
    Runtime(Contender),
}

impl Standing {
    fn run(&self, load: &Load) {
        match self {
            Standing::Single => load.iter().for_each(|task| run_alone(*task)),
            Standing::Threads => {
                let of = |task: &u64| {
                    let task = *task;
                    thread::spawn(move || run_alone(task))
                };
                let threads: Vec<_> = load.iter().map(of).collect();
                threads.into_iter().for_each(|thread| thread.join().expect("no task panics"));
            }
            Standing::OneQueue(queue) => {
                let latch = Latch::new(load.len());
                for task in load.iter().copied() {
                    let latch = Arc::clone(&latch);
                    queue.put(move || run(task, &latch));
                }
                latch.wait();
            }
            Standing::Runtime(contender) => {
                let load = Arc::clone(load);
                contender.run(load.len(), move |here, latch| {
                    for task in load.iter().copied() {
                        let latch = Arc::clone(latch);
                        here.spawn(move || run(task, &latch));
                    }
                });
            }
        }
    }

    /// `nodes` that wait for nothing, and one that waits for all.
    fn graph(&self, nodes: usize) {
        const NODE: u64 = 200;
        match self {
            Standing::Single => self.run(&Arc::new(vec![NODE; nodes + 1])),
            Standing::Threads => {
                self.run(&Arc::new(vec![NODE; nodes]));
                self.run(&Arc::new(vec![NODE]));
            }
            Standing::OneQueue(queue) => {
                let (left, over) = (Latch::new(nodes), Latch::new(1));
                let put = queue.putter();
                for _ in 0..nodes {
                    let (left, over, put) = (Arc::clone(&left), Arc::clone(&over), put.clone());
                    queue.put(move || {
                        black_box(operations(NODE));
                        if left.is_last() {
                            put.put(Box::new(move || run(NODE, &over)));
                        }
                    });
                }
                over.wait();
            }
            Standing::Runtime(Contender::Forebay(runtime)) => graph_of_ours(runtime, nodes, NODE),
            Standing::Runtime(contender) => contender.run(1, move |here, over| {
                let left = Latch::new(nodes);
                for _ in 0..nodes {
                    let (left, over, inner) = (Arc::clone(&left), Arc::clone(over), here.clone());
                    here.spawn(move || {
                        black_box(operations(NODE));
                        if left.is_last() {
                            inner.spawn(move || run(NODE, &over));
                        }
                    });
                }
            }),
        }
    }
}

fn run_alone(task: u64) {
    black_box(operations(task));
}

fn run(task: u64, latch: &Latch) {
    run_alone(task);
    latch.count_down();
}

fn graph_of_ours(runtime: &Runtime, nodes: usize, operations_each: u64) {
    let mut graph = TaskGraph::new();
    let all: Vec<_> = (0..nodes).map(|_| graph.task(move || operations(operations_each))).collect();
    let join = graph.join(&all, move |results| {
        black_box(operations(operations_each));
        results.len()
    });
    graph.spawn_on(runtime).join().expect("no node panics");
    assert_eq!(join.result(), Ok(&nodes));
}

/// Threads that take tasks from one queue behind a lock.
struct OneQueue {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    /// Tasks, and whether there will be no more.
    queue: Mutex<(VecDeque<Task>, bool)>,
    some: Condvar,
}

impl Shared {
    fn put(&self, task: Task) {
        self.queue.lock().unwrap().0.push_back(task);
        self.some.notify_one();
    }

    fn work(&self) {
        loop {
            let mut queue =
                self.some.wait_while(self.queue.lock().unwrap(), |(tasks, over)| tasks.is_empty() && !*over);
            let Some(task) = queue.as_mut().unwrap().0.pop_front() else { return };
            drop(queue);
            task();
        }
    }
}

impl OneQueue {
    fn start(threads: usize) -> OneQueue {
        let shared = Arc::<Shared>::default();
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        };
        OneQueue { threads: (0..threads).map(start).collect(), shared }
    }

    fn put(&self, task: impl FnOnce() + Send + 'static) {
        self.shared.put(Box::new(task));
    }

    fn putter(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Drop for OneQueue {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap().1 = true;
        self.shared.some.notify_all();
        self.threads.drain(..).for_each(|thread| thread.join().expect("no task panics"));
    }
}

/// The share of tasks that a worker took straight from another's deque.
fn stolen(size: Size) -> Table {
    const WORKERS: usize = 8;
    let tasks = size.of(50_000, 500);
    let columns = ["50,000 trivial tasks", "stolen, %", "published"];
    let mut table = Table::new(format!("Share of direct steals, {}", threads(WORKERS, "worker")), &columns);
    for (name, published, from_one) in [("spawned by one task", "-", true), ("spawned from outside", "24", false)] {
        let arm: Arm<'_> = Box::new(move || {
            let contender = Kind::Forebay.start(WORKERS);
            if from_one {
                contender.run(tasks, move |here, latch| {
                    for _ in 0..tasks {
                        let latch = Arc::clone(latch);
                        here.spawn(move || latch.count_down());
                    }
                });
            } else {
                let latch = Latch::new(tasks);
                for _ in 0..tasks {
                    let latch = Arc::clone(&latch);
                    contender.spawn(move || latch.count_down());
                }
                latch.wait();
            }
            let Contender::Forebay(runtime) = &contender else { unreachable!("it was started as one") };
            [100.0 * runtime.counters().total().stolen as f64 / tasks as f64]
        });
        let [[share]] = <[_; 1]>::try_from(interleaved(size, vec![arm])).expect("one arm");
        table.row(vec![name.to_owned(), share.text(), published.to_owned()]);
    }
    table
}
