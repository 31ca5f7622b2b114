//! Do tasks run in the right order: the most urgent first, without starvation, and without
//! cancelled tasks?

use super::*;

const ALL: [Priority; 3] = [Priority::Background, Priority::Normal, Priority::High];

/// The positions of tasks that came out of order.
fn inversions(order: &[Priority]) -> Vec<usize> {
    (1..order.len()).filter(|&at| order[at] < order[at - 1]).collect()
}

#[test]
fn the_urgent_leave_the_queue_first() {
    let runtime = Runtime::with_workers(1).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let release = hold(&runtime);
    let spawn = |priority| runtime.with_priority(priority).spawn(note(&order, priority));
    let handles: Vec<_> = (0..48).map(|number| spawn(ALL[number % 3])).collect();
    release.send(()).unwrap();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 48);
    // Of 61 searches, at most one begins elsewhere.
    assert!(inversions(&order).len() <= 1, "{order:?}");
    let high = order[..17].iter().filter(|priority| **priority == Priority::High).count();
    assert_eq!(high, 16, "{order:?}");
}

// The same from a task: normal tasks wait in the deque of their worker, which is stuck, and the
// other worker steals them.
#[test]
fn the_urgent_go_before_what_a_thief_can_steal() {
    let runtime = Runtime::with_workers(2).unwrap();
    let releases = [hold(&runtime), hold(&runtime)];
    let order = Arc::new(Mutex::new(Vec::new()));
    let (tell, told) = channel();
    let (go, gone) = channel::<()>();
    let parent = {
        let order = Arc::clone(&order);
        runtime.spawn(move || {
            let spawner = here();
            for priority in ALL.into_iter().cycle().take(30) {
                drop(spawner.with_priority(priority).spawn(note(&order, priority)));
            }
            tell.send(()).unwrap();
            // The thief is free only from here on; the owner is never free.
            wait(&gone);
        })
    };
    let [first, second] = releases;
    first.send(()).unwrap();
    told.recv_timeout(DEADLINE).unwrap();
    second.send(()).unwrap();
    await_until(|| order.lock().unwrap().len() == 30, "a worker that is stuck stops the others");
    go.send(()).unwrap();
    parent.join().unwrap();
    assert!(inversions(&order.lock().unwrap()).len() <= 1, "{order:?}");
    assert!(runtime.counters().total().stolen >= 10, "the normal ones");
}

// One worker has more high tasks than it can run. Other tasks get two turns in 183, and no more.
#[test]
fn nothing_starves_under_a_flood_of_the_urgent() {
    let runtime = Runtime::with_workers(1).unwrap();
    let release = hold(&runtime);
    let order = Arc::new(Mutex::new(Vec::new()));
    let spawn = |priority| runtime.with_priority(priority).spawn(note(&order, priority));
    let lower: Vec<_> = (0..40).map(|number| spawn(ALL[number % 2])).collect();
    let high: Vec<_> = (0..4_000).map(|_| spawn(Priority::High)).collect();
    release.send(()).unwrap();
    lower.into_iter().chain(high).for_each(|handle| handle.join().unwrap());
    let order = order.lock().unwrap();
    let others: Vec<usize> = (0..order.len()).filter(|&at| order[at] != Priority::High).collect();
    assert_eq!(others.len(), 40);
    assert!(others[39] < 4_000 && others[0] <= 122, "they do not wait for the flood to end: {others:?}");
    assert!(others.windows(2).all(|pair| [61, 122].contains(&(pair[1] - pair[0]))), "{others:?}");
    assert!(others.windows(3).all(|three| three[2] - three[0] == 183), "{others:?}");
    assert!(others.windows(2).all(|pair| order[pair[0]] != order[pair[1]]), "in turn");
}

// Children wait in their worker's deque: behind high tasks of others, and before normal tasks.
#[test]
fn children_inherit_the_priority_and_go_newest_first() {
    for priority in ALL {
        let runtime = Runtime::with_workers(1).unwrap();
        let release = hold(&runtime);
        let log = Arc::new(Mutex::new(Vec::new()));
        let [first, second, grandchild, urgent] =
            ["first", "second", "grandchild", "urgent"].map(|name| note(&log, name));
        let parent = runtime.with_priority(priority).spawn(move || {
            let spawner = here();
            let first = spawner.spawn(first);
            let second = spawner.spawn(move || {
                second();
                here().spawn(grandchild)
            });
            (first, second, spawner.with_priority(Priority::High).spawn(urgent))
        });
        let normal = (priority != Priority::Normal).then(|| runtime.spawn(note(&log, "normal")));
        release.send(()).unwrap();
        let (first, second, urgent) = parent.join().unwrap();
        second.join().unwrap().join().unwrap();
        [Some(first), Some(urgent), normal].into_iter().flatten().for_each(|task| task.join().unwrap());
        let expected: &[&str] = match priority {
            // The urgent child is treated like the other children.
            Priority::High => &["urgent", "second", "grandchild", "first", "normal"],
            Priority::Background => &["normal", "urgent", "second", "grandchild", "first"],
            _ => &["urgent", "second", "grandchild", "first"],
        };
        assert_eq!(*log.lock().unwrap(), expected, "{priority:?}");
    }
}

// A task spawns its successor for ever. The task that it spawned before them is older, and must get
// a turn nevertheless.
#[test]
fn the_oldest_in_a_deque_does_not_starve() {
    fn go_on(done: &Arc<AtomicBool>, left: usize) {
        let done = Arc::clone(done);
        if !done.load(Ordering::Relaxed) {
            assert!(left > 0, "the oldest starves");
            drop(here().spawn(move || go_on(&done, left - 1)));
        }
    }
    let runtime = Runtime::with_workers(1).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let group = runtime.group();
    let first = group.spawn(move || {
        let oldest = Arc::clone(&done);
        drop(here().spawn(move || oldest.store(true, Ordering::Relaxed)));
        go_on(&done, 183 + 1);
    });
    group.close().join().unwrap();
    first.join().unwrap();
    assert_eq!(runtime.counters().total().panicked, 0);
}

#[test]
fn a_checkpoint_gives_way_to_the_urgent_only() {
    for (waiting, gives_way) in [(Priority::High, true), (Priority::Normal, true), (Priority::Background, false)] {
        let runtime = Runtime::builder().pool("main", 1).slice(Nanos::ZERO).build().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let seen = {
            let done = Arc::clone(&done);
            runtime.spawn_future(async move {
                let spawner = here();
                let theirs = Arc::clone(&done);
                drop(spawner.with_priority(waiting).spawn(move || theirs.store(true, Ordering::Relaxed)));
                // One search in 61 begins elsewhere, and may find this task again, but not three
                // times in a row.
                for _ in 0..3 {
                    checkpoint().await;
                }
                done.load(Ordering::Relaxed)
            })
        };
        assert_eq!(seen.join(), Ok(gives_way), "{waiting:?}");
    }
}

#[test]
fn what_is_cancelled_before_it_begins_does_not_run() {
    let runtime = Runtime::with_workers(1).unwrap();
    let release = hold(&runtime);
    let (token, other) = (CancellationToken::new(), CancellationToken::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let run = |token: &CancellationToken| runtime.with_token(token).spawn(count(&runs));
    let (doomed, child, unrelated) = (run(&token), run(&token.clone()), run(&other));
    let future = runtime.with_token(&token).spawn_future(async { 1 });
    token.cancel();
    release.send(()).unwrap();
    let cancelled = Err(JoinError::Cancelled);
    assert_eq!(
        (doomed.join(), child.join(), future.join().map(drop)),
        (cancelled.clone(), cancelled.clone(), cancelled)
    );
    assert_eq!((unrelated.join(), runs.load(Ordering::Relaxed)), (Ok(()), 1));
    let total = runtime.counters().total();
    assert_eq!((total.cancelled, total.completed), (3, 2));
}

// A future ends at its next checkpoint, and a closure when it checks for cancellation.
#[test]
fn what_is_cancelled_while_it_runs_ends_when_it_looks() {
    struct Dropped(Sender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let runtime = Runtime::with_workers(2).unwrap();
    let token = CancellationToken::new();
    let (tell, told) = channel();
    let future = {
        let tell = tell.clone();
        runtime.with_token(&token).spawn_future(async move {
            let _guard = Dropped(tell.clone());
            tell.send("runs").unwrap();
            loop {
                checkpoint().await;
            }
        })
    };
    assert_eq!(told.recv_timeout(DEADLINE), Ok("runs"));
    let looks_at = token.clone();
    let closure = runtime.with_token(&token).spawn(move || {
        tell.send("runs").unwrap();
        let token = looks_at;
        while !token.is_cancelled() {
            thread::yield_now();
        }
        5
    });
    assert_eq!(told.recv_timeout(DEADLINE), Ok("runs"));
    token.cancel();
    let future: Result<(), JoinError> = future.join();
    assert_eq!(future, Err(JoinError::Cancelled));
    assert_eq!(told.recv_timeout(DEADLINE), Ok("dropped"));
    assert_eq!(closure.join(), Ok(5), "a closure decides itself what it returns");
}

#[test]
fn children_inherit_the_token() {
    let runtime = Runtime::with_workers(1).unwrap();
    let token = CancellationToken::new();
    let asks = token.clone();
    let child = runtime.with_token(&token).spawn(move || {
        let child = here().spawn(|| 1);
        asks.cancel();
        child
    });
    assert_eq!(child.join().unwrap().join(), Err(JoinError::Cancelled));
}
