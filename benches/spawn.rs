//! What does it cost to spawn, run and join a task that does nothing, here, in rayon and in tokio?
//!
//! Three shapes, each on one and on two worker threads: `single`, one task from outside, joined before the next one;
//! `batch`, a thousand from outside, all joined at the end; `fanout`, a task that spawns a thousand, joined as one. Every
//! round checks that all its tasks ran. Rayon's `spawn` has no handle. `rayon` sends the results through one channel for
//! all tasks of a round; `rayon-latch` returns nothing and counts down one latch, which is less than the others do. With fewer processors than workers and this thread
//! together the figures say as much about the kernel's scheduler as about these three.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use forebay::tasks::{Options, Runtime, Spawner};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const BATCH: usize = 1_000;

/// Opens when it has been counted down to zero.
struct Latch {
    left: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    fn new(count: usize) -> Arc<Latch> {
        Arc::new(Latch { left: AtomicUsize::new(count), open: Mutex::new(false), opened: Condvar::new() })
    }

    fn count_down(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.open.lock().unwrap() = true;
            self.opened.notify_one();
        }
    }

    fn wait(&self) {
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
    }
}

fn single(group: &mut BenchmarkGroup<'_, WallTime>, workers: usize) {
    let runtime = Runtime::with_workers(workers).unwrap();
    group.bench_function(format!("forebay/{workers}"), |bencher| {
        bencher.iter(|| assert_eq!(runtime.spawn(|| black_box(1)).join(), Ok(1)));
    });
    drop(runtime);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    group.bench_function(format!("rayon/{workers}"), |bencher| {
        bencher.iter(|| {
            let (sender, receiver) = channel();
            pool.spawn(move || sender.send(black_box(1)).unwrap());
            assert_eq!(receiver.recv(), Ok(1));
        });
    });
    group.bench_function(format!("rayon-latch/{workers}"), |bencher| {
        bencher.iter(|| {
            let latch = Latch::new(1);
            let theirs = Arc::clone(&latch);
            pool.spawn(move || {
                black_box(1);
                theirs.count_down();
            });
            latch.wait();
        });
    });
    drop(pool);
    let tokio = tokio(workers);
    group.bench_function(format!("tokio/{workers}"), |bencher| {
        bencher.iter(|| assert_eq!(tokio.block_on(tokio.spawn(async { black_box(1) })).unwrap(), 1));
    });
}

fn batch(group: &mut BenchmarkGroup<'_, WallTime>, workers: usize) {
    let runtime = Runtime::with_workers(workers).unwrap();
    group.bench_function(format!("forebay/{workers}"), |bencher| {
        bencher.iter(|| {
            let handles: Vec<_> = (0..BATCH).map(|_| runtime.spawn(|| black_box(1))).collect();
            let sum: usize = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
            assert_eq!(sum, BATCH);
        });
    });
    drop(runtime);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    group.bench_function(format!("rayon/{workers}"), |bencher| {
        bencher.iter(|| {
            let (sender, receiver) = channel();
            for _ in 0..BATCH {
                let sender = sender.clone();
                pool.spawn(move || sender.send(black_box(1)).unwrap());
            }
            assert_eq!(receiver.into_iter().take(BATCH).sum::<usize>(), BATCH);
        });
    });
    group.bench_function(format!("rayon-latch/{workers}"), |bencher| {
        bencher.iter(|| {
            let latch = Latch::new(BATCH);
            for _ in 0..BATCH {
                let theirs = Arc::clone(&latch);
                pool.spawn(move || {
                    black_box(1);
                    theirs.count_down();
                });
            }
            latch.wait();
        });
    });
    drop(pool);
    let tokio = tokio(workers);
    group.bench_function(format!("tokio/{workers}"), |bencher| {
        bencher.iter(|| {
            let handles: Vec<_> = (0..BATCH).map(|_| tokio.spawn(async { black_box(1) })).collect();
            let sum: usize = handles.into_iter().map(|handle| tokio.block_on(handle).unwrap()).sum();
            assert_eq!(sum, BATCH);
        });
    });
}

fn fanout(group: &mut BenchmarkGroup<'_, WallTime>, workers: usize) {
    let runtime = Runtime::with_workers(workers).unwrap();
    group.bench_function(format!("forebay/{workers}"), |bencher| {
        bencher.iter(|| {
            let root = runtime.spawn_with(Options::new().with_children(), || {
                let spawner = Spawner::current().unwrap();
                (0..BATCH).for_each(|_| drop(spawner.spawn(|| black_box(1))));
            });
            root.join().unwrap();
        });
    });
    drop(runtime);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    group.bench_function(format!("rayon/{workers}"), |bencher| {
        bencher.iter(|| {
            let (sender, receiver) = channel();
            pool.spawn(move || {
                for _ in 0..BATCH {
                    let sender = sender.clone();
                    rayon::spawn(move || sender.send(black_box(1)).unwrap());
                }
            });
            assert_eq!(receiver.into_iter().take(BATCH).sum::<usize>(), BATCH);
        });
    });
    group.bench_function(format!("rayon-latch/{workers}"), |bencher| {
        bencher.iter(|| {
            let latch = Latch::new(BATCH);
            let root = Arc::clone(&latch);
            pool.spawn(move || {
                for _ in 0..BATCH {
                    let theirs = Arc::clone(&root);
                    rayon::spawn(move || {
                        black_box(1);
                        theirs.count_down();
                    });
                }
            });
            latch.wait();
        });
    });
    drop(pool);
    let tokio = tokio(workers);
    group.bench_function(format!("tokio/{workers}"), |bencher| {
        bencher.iter(|| {
            let root = tokio.spawn(async {
                let handles: Vec<_> = (0..BATCH).map(|_| tokio::spawn(async { black_box(1) })).collect();
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.unwrap();
                }
                sum
            });
            assert_eq!(tokio.block_on(root).unwrap(), BATCH);
        });
    });
}

fn tokio(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap()
}

fn spawn(criterion: &mut Criterion) {
    for (name, tasks, bench) in [
        ("single", 1, single as fn(&mut BenchmarkGroup<'_, WallTime>, usize)),
        ("batch", BATCH, batch),
        ("fanout", BATCH, fanout),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(tasks as u64));
        group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500)).sample_size(40);
        for workers in [1, 2] {
            bench(&mut group, workers);
        }
        group.finish();
    }
}

criterion_group!(benches, spawn);
criterion_main!(benches);
