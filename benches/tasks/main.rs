//! How much do small tasks cost: spawned, run and waited for, in Forebay, in rayon and in tokio?
//!
//! All tasks count down one latch, with two exceptions. Under `awake` each task is joined before
//! the next one is spawned. In Forebay, the last node of the graph awaits the other nodes.
//! `RESULTS.md` has the answers. `cargo test --benches` runs each case once as a check.

mod contenders;

use contenders::{Contender, Kind, Latch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::tasks::{Runtime, Spawner};
use forebay::time::clock;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Operations of one node of the graph.
const NODE: u64 = 200;

/// Tasks of `built`.
const BUILT: usize = 100;

/// Runs this many tasks on a runtime.
type Run = fn(&Contender, usize);

/// Cases on a runtime that is already running: name, workers, tasks of a run, and the function.
/// `awake`: one task after the other from within a task, joined at once. `batch`: from outside.
/// `fanout`: a task that spawns all others. `uneven`: 1 in 10 takes 100 times 23 us. `graph`: nodes
/// and a join.
const STANDING: [(&str, usize, usize, Run); 6] = [
    ("awake, 2 workers", 2, 1_000, awake),
    ("batch, 2 workers", 2, 1_000, batch),
    ("fanout, 1 worker", 1, 1_000, fanout),
    ("fanout, 2 workers", 2, 1_000, fanout),
    ("uneven, 2 workers", 2, 500, uneven),
    ("graph, 2 workers", 2, 200, graph),
];

fn tasks(criterion: &mut Criterion) {
    for (name, workers, tasks, run) in STANDING {
        // The runtime is started for this case only, because threads of an idle runtime would spin
        // beside it.
        compare(criterion, name, tasks, |kind, times| {
            let contender = kind.start(workers);
            timed(times, || run(&contender, tasks))
        });
    }
    compare(criterion, "asleep, 2 workers", 1, |kind, times| {
        let contender = kind.start(2);
        let one = |_| {
            std::thread::sleep(Duration::from_millis(3));
            timed(1, || fanout(&contender, 1))
        };
        (0..times).map(one).sum()
    });
    compare(criterion, "built, 100 tasks, ended", BUILT, |kind, times| timed(times, || fanout(&kind.start(2), BUILT)));
}

/// Measures a case on each runtime. `measure` runs it the given number of times and returns the
/// time.
fn compare(criterion: &mut Criterion, name: &str, tasks: usize, measure: impl Fn(Kind, u64) -> Duration) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(tasks as u64)).sample_size(20);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for kind in Kind::ALL {
        group.bench_function(format!("{kind:?}"), |bencher| bencher.iter_custom(|times| measure(kind, times)));
    }
    group.finish();
}

fn timed(times: u64, run: impl Fn()) -> Duration {
    let start = clock::now();
    (0..times).for_each(|_| run());
    clock::now().minus(start).into()
}

/// Work of about 1.3 ns for each operation: a chain of dependent multiplications. Returns a number
/// that depends on all of them.
fn operations(count: u64) -> u64 {
    (0..count).fold(count | 1, |value, _| black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
}

criterion_group!(benches, tasks);
criterion_main!(benches);

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

/// One task spawns `tasks` tasks, each of `cost` operations.
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

/// `nodes` tasks that wait for nothing, and one that waits for all of them.
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
