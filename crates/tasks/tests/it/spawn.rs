//! Is every spawned task run once, counted once and delivered once, wherever it is spawned and
//! however it ends?

use super::*;

fn total(counters: &Counters) -> PoolCounters {
    let total = counters.total();
    assert_eq!(total.submitted, total.completed + total.panicked + total.cancelled + total.stalled, "{counters:?}");
    assert_eq!(total.waiting, 0);
    total
}

// The same from a task: it spawns more than its worker's deque and the queue hold, and does not
// wait.
#[test]
fn a_task_spawns_more_than_queues_hold() {
    let runtime = Runtime::builder().pool("main", 2).queue_capacity(16).build().unwrap();
    let spawner = runtime.spawner().clone();
    let group = runtime.group();
    drop(group.spawn(move || (0..20_000).for_each(|_| drop(spawner.spawn(|| {})))));
    group.close().join().unwrap();
    assert_eq!(total(&runtime.counters()).completed, 20_001);
}

#[test]
fn eight_producers_at_once_lose_nothing() {
    let runtime = Runtime::builder().pool("main", 2).queue_capacity(64).build().unwrap();
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for producer in 0..8_usize {
            let (start, spawner) = (&start, runtime.spawner());
            scope.spawn(move || {
                start.wait();
                let handles: Vec<_> = (0..2_000).map(|number| spawner.spawn(move || producer + number)).collect();
                for (number, handle) in handles.into_iter().enumerate() {
                    assert_eq!(handle.join(), Ok(producer + number));
                }
            });
        }
    });
    assert_eq!(total(&runtime.counters()).completed, 16_000);
}

#[test]
fn a_tree_is_over_when_its_last_leaf_is() {
    fn walk(depth: usize, leaves: &Arc<AtomicUsize>) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for _ in 0..6 {
            let leaves = Arc::clone(leaves);
            drop(here().spawn(move || walk(depth - 1, &leaves)));
        }
    }
    let runtime = Runtime::with_workers(2).unwrap();
    let leaves = Arc::new(AtomicUsize::new(0));
    let (release, held) = channel::<()>();
    let group = runtime.group();
    let inner = Arc::clone(&leaves);
    let root = group.spawn(move || {
        wait(&held);
        let group = here().group();
        drop(group.spawn(move || walk(5, &inner)));
    });
    assert_eq!(group.open(), 1);
    let group = group.close();
    assert!(!group.is_over());
    release.send(()).unwrap();
    group.join().unwrap();
    root.join().unwrap();
    assert_eq!(leaves.load(Ordering::Relaxed), 6_usize.pow(5));
    let nodes: usize = (0..=5).map(|depth| 6_usize.pow(depth)).sum();
    assert_eq!(total(&runtime.counters()).completed, nodes as u64 + 1);
}

#[test]
fn a_panic_is_a_value_and_the_worker_lives() {
    let runtime = Runtime::with_workers(1).unwrap();
    let panics: JoinHandle<()> = runtime.spawn(|| panic!("no {}", "luck"));
    assert_eq!(panics.join(), Err(JoinError::Panicked("no luck".to_owned())));
    let later: JoinHandle<()> = runtime.spawn_future(async {
        checkpoint().await;
        panic!("later")
    });
    assert_eq!(later.join(), Err(JoinError::Panicked("later".to_owned())));
    // A result that panics when it is dropped does no harm, either.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let release = hold(&runtime);
    drop(runtime.spawn(|| Bomb));
    release.send(()).unwrap();
    assert_eq!(runtime.spawn(|| 1).join(), Ok(1));
    let total = total(&runtime.counters());
    assert_eq!((total.panicked, total.completed), (2, 3));
}

// If the queue is full, does a thread outside wait for room, so that waiting tasks are bounded?
#[test]
fn a_full_queue_makes_submitters_wait() {
    let runtime = Runtime::builder().pool("main", 1).queue_capacity(4).build().unwrap();
    let release = hold(&runtime);
    let handles: Vec<_> = (0..4).map(|number| runtime.spawn(move || number)).collect();
    let spawner = runtime.spawner().clone();
    let late = thread::spawn(move || spawner.spawn(|| 4).join());
    await_until(|| runtime.counters().total().submitted == 6, "it does not submit");
    assert_eq!(runtime.counters().total().waiting, 4);
    release.send(()).unwrap();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).collect::<Vec<i32>>(), [0, 1, 2, 3]);
    assert_eq!(late.join().unwrap(), Ok(4));
    assert_eq!(total(&runtime.counters()).submitted, 6);
}

#[test]
fn pools_have_names_and_an_unknown_one_is_an_error_value() {
    let runtime = Runtime::builder().pool("front", 1).pool("heavy", 2).build().unwrap();
    assert_eq!((runtime.pool("front"), runtime.pool("heavy"), runtime.pool("other")), (Some(0), Some(1), None));
    let name = || thread::current().name().map(str::to_owned).unwrap();
    assert_eq!(runtime.spawn(name).join(), Ok("forebay-task-0".to_owned()));
    let heavy = runtime.with_pool(1).spawn(name).join().unwrap();
    assert!(["forebay-task-1", "forebay-task-2"].contains(&heavy.as_str()), "{heavy}");
    assert_eq!(runtime.with_pool(2).spawn(|| ()).join(), Err(JoinError::NoSuchPool(2)));
    let counters = runtime.counters();
    assert_eq!([0, 1].map(|pool| counters.pools[pool].completed), [1, 1]);
    assert_eq!(counters.pools[1].name, "heavy");
    for (builder, complaint) in [
        (Runtime::builder().pool("none", 0), "pool \"none\" has no workers: at least 1"),
        (Runtime::builder().pool("a", 1).pool("a", 2), "there are two pools \"a\""),
        (Runtime::builder().queue_capacity(0), "queue_capacity is 0: at least 1"),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), complaint);
    }
}
