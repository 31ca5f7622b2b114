//! Can tasks wait for one another, on few workers, without a deadlock and without blocking a
//! worker?

use super::*;

// Divide and conquer with blocking joins: a worker that joins a task runs this task itself.
#[test]
fn closures_join_closures_on_any_number_of_workers() {
    fn fibonacci(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let other = here().spawn(move || fibonacci(n - 2));
        fibonacci(n - 1) + other.join().unwrap()
    }
    for workers in 1..=3 {
        let runtime = Runtime::with_workers(workers).unwrap();
        assert_eq!(runtime.spawn(|| fibonacci(16)).join(), Ok(987));
    }
}

#[test]
fn a_join_leaves_no_empty_job() {
    let runtime = Runtime::with_workers(1).unwrap();
    let waiting = runtime.spawn(|| {
        let (first, second) = (here().spawn(|| 1), here().spawn(|| 2));
        let waiting = || here().counters().total().waiting;
        (second.join().unwrap(), waiting(), first.join().unwrap(), waiting())
    });
    assert_eq!(waiting.join(), Ok((2, 1, 1, 0)));
}

// Are nested joins refused before the stack is full, earlier on a smaller stack? Does the worker
// continue to work afterwards?
#[test]
fn joins_nest_as_deep_as_half_of_the_stack() {
    fn descend(depth: u32) -> Result<u32, JoinError> {
        if depth == 0 { Ok(0) } else { Ok(here().spawn(move || descend(depth - 1)).join()?? + 1) }
    }
    fn chain(depth: u32) -> forebay_runtime::Fork<u32> {
        fork(async move { if depth == 0 { 0 } else { chain(depth - 1).await + 1 } })
    }
    let deepest = [256 << 10, 8 << 20].map(|stack_bytes| {
        let runtime = Runtime::builder().pool("main", 1).stack_bytes(stack_bytes).build().unwrap();
        assert_eq!(runtime.spawn(|| descend(100_000)).join(), Ok(Err(JoinError::TooDeep)));
        let chained = runtime.spawn_future(chain(100_000)).join();
        assert!(matches!(&chained, Err(JoinError::Panicked(why)) if why.contains("stack")), "{chained:?}");
        (0..)
            .step_by(20)
            .take_while(|depth| {
                runtime
                    .spawn({
                        let depth = *depth;
                        move || descend(depth)
                    })
                    .join()
                    == Ok(Ok(*depth))
            })
            .last()
    });
    assert!(deepest[0] > Some(20) && deepest[1] > deepest[0].map(|depth| 16 * depth), "{deepest:?}");
}

// Two runtimes of one worker each, whose tasks join across each other: one of them gets an error.
#[test]
fn two_runtimes_that_join_across_each_other_do_not_stand_still() {
    let (older, younger) = (Runtime::with_workers(1).unwrap(), Runtime::with_workers(1).unwrap());
    let (of_older, of_younger) = (older.spawner().clone(), younger.spawner().clone());
    let across = older.spawn(move || of_younger.spawn(move || of_older.spawn(|| 1).join()).join());
    await_until(|| across.is_over(), "the runtimes stand still");
    assert_eq!(across.join(), Ok(Ok(Err(JoinError::WouldBlock))));
}

#[test]
fn a_joiner_runs_what_it_joins_and_nothing_else() {
    let runtime = Runtime::with_workers(1).unwrap();
    let (give, given) = channel::<JoinHandle<i32>>();
    let first = runtime.spawn(move || {
        let handle = given.recv_timeout(DEADLINE).unwrap();
        handle.join().unwrap() + 1
    });
    let behind = runtime.spawn(move || first.join().unwrap() + 1);
    give.send(runtime.spawn(|| 1)).unwrap();
    assert_eq!(behind.join(), Ok(3));
}

#[test]
fn a_worker_does_not_block_for_what_may_need_it() {
    let runtime = Runtime::with_workers(1).unwrap();
    let refused = runtime.spawn(|| here().spawn_future(async { 1 }).join());
    assert_eq!(refused.join(), Ok(Err(JoinError::WouldBlock)));
    let refused = runtime.spawn(|| {
        let group = here().group();
        drop(group.spawn(|| 1));
        group.close().join()
    });
    assert_eq!(refused.join(), Ok(Err(JoinError::WouldBlock)));
    // Any thread may join a task that has ended.
    let over = runtime.spawn_future(async { 2 });
    while !over.is_over() {
        thread::yield_now();
    }
    assert_eq!(runtime.spawn(|| over.join()).join(), Ok(Ok(2)));
}

// Each level awaits the next one. A single worker could not block in one of them and continue.
#[test]
fn a_task_that_awaits_is_parked_and_not_its_worker() {
    fn descend(depth: u32) -> JoinHandle<u32> {
        here().spawn_future(async move { if depth == 0 { 0 } else { descend(depth - 1).await.unwrap() + 1 } })
    }
    for workers in 1..=2 {
        let runtime = Runtime::with_workers(workers).unwrap();
        let root = runtime.spawn_future(async { descend(1_000).await });
        assert_eq!(root.join(), Ok(Ok(1_000)));
    }
}

// A future of another library, woken by a thread outside of the runtime, before and after it is
// polled.
#[test]
fn a_wake_from_outside_is_not_lost() {
    let runtime = Runtime::with_workers(1).unwrap();
    for _ in 0..500 {
        let state = Arc::new(Mutex::new((false, None::<Waker>)));
        let theirs = Arc::clone(&state);
        let task = runtime.spawn_future(std::future::poll_fn(move |context| {
            let mut state = theirs.lock().unwrap();
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        }));
        let outside = thread::spawn(move || {
            let mut state = state.lock().unwrap();
            state.0 = true;
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        });
        assert_eq!(task.join(), Ok(()));
        outside.join().unwrap();
    }
}

#[test]
fn what_nobody_can_wake_ends_as_stalled() {
    let runtime = Runtime::with_workers(1).unwrap();
    assert_eq!(runtime.spawn_future(std::future::pending::<()>()).join(), Err(JoinError::Stalled));
    // A group ends with its last task, however this task ends.
    let group = runtime.group();
    drop(group.spawn(|| drop(here().spawn_future(std::future::pending::<()>()))));
    assert_eq!(group.close().join(), Ok(()));
    runtime.shutdown();
    assert_eq!(runtime.counters().total().stalled, 2);
}

#[test]
fn a_hop_goes_on_in_another_pool() {
    let runtime = Runtime::builder().pool("front", 1).pool("heavy", 1).build().unwrap();
    let name = || thread::current().name().map(str::to_owned).unwrap();
    let names = runtime.spawn_future(async move {
        let first = name();
        hop(1).await;
        let second = name();
        hop(0).await;
        [first, second, name()]
    });
    assert_eq!(names.join().unwrap(), ["forebay-task-0", "forebay-task-1", "forebay-task-0"]);
    let counters = runtime.counters();
    assert_eq!((counters.pools[0].submitted, counters.pools[0].completed), (1, 1));
}

#[test]
fn a_checkpoint_lets_others_go_on() {
    let runtime = Runtime::builder().pool("main", 1).slice(Nanos::ZERO).build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let release = hold(&runtime);
    let tasks = ["a", "b"].map(|name| {
        let log = Arc::clone(&log);
        runtime.spawn_future(async move {
            for _ in 0..100 {
                log.lock().unwrap().push(name);
                checkpoint().await;
            }
        })
    });
    release.send(()).unwrap();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 200);
    assert!(log.chunks(2).all(|turn| turn == ["a", "b"]), "{log:?}");
}

#[test]
fn try_join_gives_the_handle_back_until_there_is_a_result() {
    let runtime = Runtime::with_workers(1).unwrap();
    let (release, held) = channel::<()>();
    let task = runtime.spawn(move || held.recv_timeout(DEADLINE).map(|()| 3).unwrap());
    let mut task = task.try_join().expect_err("it is held");
    release.send(()).unwrap();
    let result = loop {
        match task.try_join() {
            Ok(result) => break result,
            Err(back) => task = back,
        }
        thread::yield_now();
    };
    assert_eq!(result, Ok(3));
}
