//! What does a task that does nothing cost, spawned, run and joined: here, in rayon and in tokio?

use super::contenders::{Contender, Kind, Latch};
use super::harness::{Arm, Size, ns, threads};
use super::page::{Answer, Grid, against_both};
use forebay::tasks::{JoinHandle, Options, Runtime, Spawner};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

pub(crate) const QUESTION: &str =
    "What does a task that does nothing cost, spawned, run and joined: here, in rayon and in tokio?";

const COLUMNS: [&str; 5] = ["", "Forebay", "rayon", "rayon, latch", "tokio"];

/// One measurement: nanoseconds for each task.
type Measure = fn(Size, &Contender) -> f64;

pub(crate) fn ask(size: Size) -> Answer {
    let mut grid = Grid::new("ns for each task", &COLUMNS);
    let shapes: [(&str, [Measure; 2]); 4] = [
        ("asleep", [asleep, asleep_latch]),
        ("awake", [awake, awake]),
        ("batch", [batch, batch_latch]),
        ("fanout", [fanout, fanout_latch]),
    ];
    for (name, [own, latch]) in shapes {
        for workers in [1, 2] {
            let arms = [(Kind::Forebay, own), (Kind::Rayon, own), (Kind::Rayon, latch), (Kind::Tokio, own)];
            let arms = arms.map(|(kind, measure)| -> Arm<'_> {
                // Started for each measurement: a runtime that is not measured has no threads that spin.
                Box::new(move || [measure(size, &kind.start(workers))])
            });
            // The thread that spawns from outside waits, or is one more.
            grid.case(size, format!("{name}, {}", threads(workers, "worker")), "-", arms.into());
        }
    }
    let verdict = against_both(&[&grid]);
    Answer {
        tables: vec![grid.table],
        not_shown: "More workers than two; tasks with more than a few bytes of state. `rayon` sends results through a channel, \
            `rayon, latch` returns nothing and counts down, which is less than the others do. `asleep`: one task from outside, \
            3 ms after the last, so that every runtime's workers sleep; `awake`: one after the other from within a task, so \
            that none sleeps, joined at once; `batch`: a thousand from outside, joined at the end; `fanout`: a task that spawns \
            a thousand, joined as one.",
        verdict,
        failure: None,
    }
}

fn tasks(size: Size) -> usize {
    size.of(1_000, 50)
}

/// Calls `once`, which has `tasks` tasks, some times; returns nanoseconds for each task.
fn repeated(size: Size, tasks: usize, mut once: impl FnMut()) -> f64 {
    let times = size.of(20, 2);
    once();
    ns(|| (0..times).for_each(|_| once())) / (times * tasks) as f64
}

fn joined(handles: Vec<JoinHandle<usize>>) -> usize {
    handles.into_iter().map(|handle| handle.join().unwrap()).sum()
}

/// One task from outside, long after the last.
fn one_by_one(size: Size, mut once: impl FnMut()) -> f64 {
    let times = size.of(10, 1);
    let one = |_| {
        std::thread::sleep(Duration::from_millis(3));
        ns(&mut once)
    };
    (0..times).map(one).sum::<f64>() / f64::from(times)
}

fn asleep(size: Size, contender: &Contender) -> f64 {
    one_by_one(size, || match contender {
        Contender::Forebay(runtime) => assert_eq!(runtime.spawn(|| black_box(1)).join(), Ok(1)),
        Contender::Rayon(pool) => {
            let (sender, receiver) = channel();
            pool.spawn(move || sender.send(black_box(1)).unwrap());
            assert_eq!(receiver.recv(), Ok(1));
        }
        Contender::Tokio(runtime) => {
            assert_eq!(runtime.block_on(runtime.spawn(async { black_box(1) })).unwrap(), 1);
        }
    })
}

fn asleep_latch(size: Size, contender: &Contender) -> f64 {
    one_by_one(size, || contender.run(1, |_, latch| latch.count_down()))
}

/// A task that spawns others and joins each before it spawns the next.
fn awake(size: Size, contender: &Contender) -> f64 {
    let tasks = tasks(size);
    repeated(size, tasks, || {
        let sum = match contender {
            Contender::Forebay(runtime) => runtime
                .spawn(move || {
                    let spawner = Spawner::current().unwrap();
                    (0..tasks).map(|_| spawner.spawn(|| black_box(1)).join().unwrap()).sum::<usize>()
                })
                .join()
                .unwrap(),
            Contender::Rayon(pool) => pool.install(move || {
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
    })
}

fn batch(size: Size, contender: &Contender) -> f64 {
    let tasks = tasks(size);
    repeated(size, tasks, || {
        let sum: usize = match contender {
            Contender::Forebay(runtime) => joined((0..tasks).map(|_| runtime.spawn(|| black_box(1))).collect()),
            Contender::Rayon(pool) => {
                let (sender, receiver) = channel();
                for _ in 0..tasks {
                    let sender = sender.clone();
                    pool.spawn(move || sender.send(black_box(1)).unwrap());
                }
                receiver.into_iter().take(tasks).sum()
            }
            Contender::Tokio(runtime) => {
                let handles: Vec<_> = (0..tasks).map(|_| runtime.spawn(async { black_box(1) })).collect();
                handles.into_iter().map(|handle| runtime.block_on(handle).unwrap()).sum()
            }
        };
        assert_eq!(sum, tasks);
    })
}

fn batch_latch(size: Size, contender: &Contender) -> f64 {
    let tasks = tasks(size);
    repeated(size, tasks, || {
        let latch = Latch::new(tasks);
        for _ in 0..tasks {
            let latch = Arc::clone(&latch);
            contender.spawn(move || latch.count_down());
        }
        latch.wait();
    })
}

fn fanout(size: Size, contender: &Contender) -> f64 {
    let tasks = tasks(size);
    repeated(size, tasks, || match contender {
        Contender::Forebay(runtime) => fanout_with_children(runtime, tasks),
        Contender::Rayon(pool) => {
            let (sender, receiver) = channel();
            pool.spawn(move || {
                for _ in 0..tasks {
                    let sender = sender.clone();
                    rayon::spawn(move || sender.send(black_box(1)).unwrap());
                }
            });
            assert_eq!(receiver.into_iter().take(tasks).sum::<usize>(), tasks);
        }
        Contender::Tokio(runtime) => {
            let root = runtime.spawn(async move {
                let handles: Vec<_> = (0..tasks).map(|_| tokio::spawn(async { black_box(1) })).collect();
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.unwrap();
                }
                sum
            });
            assert_eq!(runtime.block_on(root).unwrap(), tasks);
        }
    })
}

fn fanout_with_children(runtime: &Runtime, tasks: usize) {
    let completed = || runtime.counters().total().completed;
    let before = completed();
    let root = runtime.spawn_with(Options::new().with_children(), move || {
        let spawner = Spawner::current().unwrap();
        (0..tasks).for_each(|_| drop(spawner.spawn(|| black_box(1))));
    });
    root.join().unwrap();
    // The worker counts a task before it delivers its result.
    assert_eq!(completed() - before, tasks as u64 + 1);
}

fn fanout_latch(size: Size, contender: &Contender) -> f64 {
    let tasks = tasks(size);
    repeated(size, tasks, || {
        contender.run(tasks, move |here, latch| {
            for _ in 0..tasks {
                let latch = Arc::clone(latch);
                here.spawn(move || latch.count_down());
            }
        });
    })
}
