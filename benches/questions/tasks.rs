//! What do tasks cost that do little: spawned, run and waited for, here, in rayon and in tokio?
//!
//! All count down one latch, with two exceptions. Under `awake` each task is joined before the next is spawned. The
//! last node of the graph awaits the others here.

use super::contenders::{Contender, Kind, Latch};
use super::harness::{Arm, Size, ns, operations};
use super::page::{Answer, Grid};
use forebay::tasks::{Runtime, Spawner};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const QUESTION: &str =
    "What do tasks cost that do little: spawned, run and waited for, here, in rayon and in tokio?";

/// Operations of a node of the graph.
const NODE: u64 = 200;

/// Runs this many tasks on a runtime.
type Run = fn(&Contender, usize);

pub(crate) fn ask(size: Size) -> Answer {
    let mut grid = Grid::new("ns for each task");
    let tasks = size.of(1_000, 50);
    let standing: [(&str, usize, usize, Run); 6] = [
        ("awake, 2 workers", 2, tasks, awake),
        ("batch, 2 workers", 2, tasks, batch),
        ("fanout, 1 worker", 1, tasks, fanout),
        ("fanout, 2 workers", 2, tasks, fanout),
        ("uneven, 2 workers", 2, size.of(500, 50), uneven),
        ("graph, 2 workers", 2, size.of(200, 10), graph),
    ];
    for (name, workers, tasks, run) in standing {
        grid.case(size, name, arms(move |kind| on_standing(size, kind, workers, tasks, run)));
    }
    grid.case(size, "asleep, 2 workers", arms(move |kind| asleep(size, kind)));
    grid.case(size, "built, 100 tasks, ended", arms(move |kind| built_and_ended(size, kind)));
    Answer {
        verdict: grid.against_both(),
        table: grid.table,
        not_shown: "More workers than two; tasks with more than a few bytes of state. `awake`: one after the other from within a \
            task, joined at once; `batch`: a thousand from outside; `fanout`: a task that spawns a thousand; `uneven`: 500, \
            1 in 10 takes 100 times 23 us; `graph`: 200 nodes and a join; `asleep`: one from outside, 3 ms after the last; \
            `built`: threads started and ended too.",
        failure: None,
    }
}

/// An arm for each runtime.
fn arms<'a>(measure: impl Fn(Kind) -> f64 + Copy + 'a) -> Vec<Arm<'a>> {
    Kind::ALL.map(|kind| -> Arm<'a> { Box::new(move || [measure(kind)]) }).into()
}

/// On a runtime that is started for this: one that is not measured has no threads that spin.
fn on_standing(size: Size, kind: Kind, workers: usize, tasks: usize, run: Run) -> f64 {
    let contender = kind.start(workers);
    let times = size.of(20, 2);
    run(&contender, tasks);
    ns(|| (0..times).for_each(|_| run(&contender, tasks))) / (times * tasks) as f64
}

/// One task from outside, long after the last.
fn asleep(size: Size, kind: Kind) -> f64 {
    let (contender, times) = (kind.start(2), size.of(10, 1));
    let one = |_| {
        std::thread::sleep(Duration::from_millis(3));
        ns(|| fanout(&contender, 1))
    };
    (0..times).map(one).sum::<f64>() / f64::from(times)
}

fn built_and_ended(size: Size, kind: Kind) -> f64 {
    const TASKS: usize = 100;
    let times = size.of(10, 1);
    ns(|| (0..times).for_each(|_| fanout(&kind.start(2), TASKS))) / (times * TASKS) as f64
}

/// A task that spawns others and joins each before it spawns the next.
fn awake(contender: &Contender, tasks: usize) {
    let sum = match contender {
        Contender::Forebay(runtime) => {
            let root = runtime.spawn(move || {
                let spawner = Spawner::current().expect("this is a task");
                (0..tasks).map(|_| spawner.spawn(|| black_box(1)).join().unwrap()).sum::<usize>()
            });
            root.join().unwrap()
        }
        Contender::Rayon(rayon) => rayon.pool().install(move || {
            let one = |_| {
                let mut result = 0;
                rayon::scope(|scope| scope.spawn(|_| result = black_box(1)));
                result
            };
            (0..tasks).map(one).sum::<usize>()
        }),
        Contender::Tokio(runtime) => {
            let root = runtime.spawn(async move {
                let mut sum = 0;
                for _ in 0..tasks {
                    sum += tokio::spawn(async { black_box(1) }).await.unwrap();
                }
                sum
            });
            runtime.block_on(root).unwrap()
        }
    };
    assert_eq!(sum, tasks);
}

fn batch(contender: &Contender, tasks: usize) {
    let latch = Latch::new(tasks);
    for _ in 0..tasks {
        let latch = Arc::clone(&latch);
        contender.spawn(move || latch.count_down());
    }
    latch.wait();
}

fn fanout(contender: &Contender, tasks: usize) {
    spawned_by_one(contender, tasks, |_| 0);
}

fn uneven(contender: &Contender, tasks: usize) {
    spawned_by_one(contender, tasks, |task| if task % 10 == 0 { 1_800_000 } else { 18_000 });
}

/// Tasks that one task spawns, each of this many operations.
fn spawned_by_one(contender: &Contender, tasks: usize, cost: fn(usize) -> u64) {
    contender.run(tasks, move |here, latch| {
        for task in 0..tasks {
            let latch = Arc::clone(latch);
            here.spawn(move || counted(cost(task), &latch));
        }
    });
}

fn counted(cost: u64, latch: &Latch) {
    black_box(operations(cost));
    latch.count_down();
}

/// `nodes` that wait for nothing, and one that waits for all.
fn graph(contender: &Contender, nodes: usize) {
    if let Contender::Forebay(runtime) = contender {
        return graph_of_ours(runtime, nodes);
    }
    contender.run(1, move |here, over| {
        let left = Latch::new(nodes);
        for _ in 0..nodes {
            let (left, over, inner) = (Arc::clone(&left), Arc::clone(over), here.clone());
            here.spawn(move || {
                black_box(operations(NODE));
                if left.is_last() {
                    inner.spawn(move || counted(NODE, &over));
                }
            });
        }
    });
}

fn graph_of_ours(runtime: &Runtime, nodes: usize) {
    let all: Vec<_> = (0..nodes).map(|_| runtime.spawn(|| operations(NODE))).collect();
    let last = runtime.spawn_future(async {
        let mut results = 0;
        for node in all {
            node.await.expect("no node panics");
            results += 1;
        }
        black_box(operations(NODE));
        results
    });
    assert_eq!(last.join(), Ok(nodes));
}
