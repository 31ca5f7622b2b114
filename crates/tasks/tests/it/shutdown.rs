//! Does a shutdown let all accepted tasks end, and accept no others, however it is begun and
//! however often?

use super::*;

#[test]
fn a_hundred_lives_lose_nothing() {
    let runs = Arc::new(AtomicUsize::new(0));
    for life in 0..100 {
        let runtime = Runtime::with_workers(1 + life % 3).unwrap();
        (0..50).for_each(|_| drop(runtime.spawn(count(&runs))));
        if life % 2 == 0 {
            runtime.shutdown();
            assert_eq!(runtime.counters().total().completed, 50);
            runtime.shutdown();
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 5_000);
}

#[test]
fn a_parked_task_is_waited_for() {
    let runtime = Runtime::with_workers(1).unwrap();
    let other = Runtime::with_workers(1).unwrap();
    let (release, held) = channel::<()>();
    let slow = other.spawn(move || wait(&held));
    let waits = runtime.spawn_future(async move { slow.await.map(|()| 7) });
    let spawner = runtime.spawner().clone();
    let stopper = thread::spawn(move || drop(runtime));
    await_shutdown(&spawner);
    assert!(!waits.is_over());
    release.send(()).unwrap();
    assert_eq!(waits.join(), Ok(Ok(7)));
    stopper.join().unwrap();
}

#[test]
fn use_after_shutdown_is_an_error_value() {
    let runtime = Runtime::with_workers(2).unwrap();
    let early = runtime.spawn(|| 1);
    runtime.shutdown();
    assert_eq!(early.join(), Ok(1));
    assert_eq!(runtime.spawn(|| 2).join(), Err(JoinError::ShutDown));
    assert_eq!(runtime.spawn_future(async { 3 }).join(), Err(JoinError::ShutDown));
    assert_eq!(runtime.with_pool(0).spawn(|| 4).join(), Err(JoinError::ShutDown));
    assert_eq!(runtime.counters().total().submitted, 1);
}

// A task cannot wait for its own end. It begins the shutdown and continues. The shutdown waits for
// tasks that it spawns, and for their children.
#[test]
fn a_task_may_begin_the_shutdown() {
    fn descend(depth: usize, ends: &Arc<AtomicUsize>) {
        ends.fetch_add(1, Ordering::Relaxed);
        for _ in 0..if depth == 0 { 0 } else { 2 } {
            let ends = Arc::clone(ends);
            drop(here().spawn(move || descend(depth - 1, &ends)));
        }
    }
    let runtime = Arc::new(Runtime::with_workers(2).unwrap());
    let (inner, ends) = (Arc::clone(&runtime), Arc::new(AtomicUsize::new(0)));
    let theirs = Arc::clone(&ends);
    let task = runtime.spawn(move || {
        inner.shutdown();
        inner.spawn(move || descend(9, &theirs)).join()
    });
    assert_eq!(task.join(), Ok(Ok(())), "a task may spawn to the end");
    runtime.shutdown();
    assert_eq!((ends.load(Ordering::Relaxed), runtime.counters().total().completed), (1_023, 1_024));
}

#[test]
fn a_runtime_may_be_dropped_on_its_own_worker() {
    let runtime = Runtime::with_workers(2).unwrap();
    let spawner = runtime.spawner().clone();
    let (give, given) = channel::<Runtime>();
    let task = spawner.spawn(move || drop(given.recv_timeout(DEADLINE).unwrap()));
    give.send(runtime).unwrap();
    assert_eq!(task.join(), Ok(()));
    assert_eq!(spawner.spawn(|| ()).join(), Err(JoinError::ShutDown));
}
