//! Does a group end when its last task ends, however the tasks end, and does a loop cover its
//! range?

use super::*;

fn chunk(length: usize) -> NonZeroUsize {
    NonZeroUsize::new(length).expect("a chunk has a length")
}

#[test]
fn a_chain_of_a_thousand_hands_its_results_on() {
    for workers in 1..=2 {
        let runtime = Runtime::with_workers(workers).unwrap();
        let group = runtime.group();
        let (release, held) = channel::<()>();
        let mut last = group.spawn(move || held.recv_timeout(DEADLINE).map(|()| 1_u64).unwrap());
        for _ in 1..1_000 {
            last = group.spawn_future(async move { last.await.unwrap() + 1 });
        }
        assert_eq!((group.open(), last.is_over()), (1_000, false), "none is over");
        release.send(()).unwrap();
        group.close().join().unwrap();
        assert!(last.is_over());
        assert_eq!(last.join(), Ok(1_000));
        assert_eq!(runtime.counters().total().completed, 1_000);
    }
}

#[test]
fn a_group_may_be_awaited() {
    let runtime = Runtime::with_workers(1).unwrap();
    let sum = runtime.spawn_future(async {
        let group = here().group();
        let leaves: Vec<JoinHandle<usize>> = (0..50).map(|leaf| group.spawn(move || 3 * leaf)).collect();
        let sum = group.spawn_future(async move {
            let mut sum = 0;
            for leaf in leaves {
                sum += leaf.await.unwrap();
            }
            sum
        });
        group.close().await.unwrap();
        sum.try_join().ok()
    });
    assert_eq!(sum.join(), Ok(Some(Ok(3 * 50 * 49 / 2))));
}

// The group ends nevertheless, and each handle says how its task ended.
#[test]
fn a_group_outlasts_a_panic_and_a_cancellation() {
    let runtime = Runtime::with_workers(2).unwrap();
    let token = CancellationToken::new();
    let group = runtime.group();
    let bad = group.spawn(|| panic!("a bad task"));
    let good = group.spawn(|| 7);
    let asks = token.clone();
    let first = group.spawn(move || asks.cancel());
    let never = group.with_token(&token).spawn_future(async move {
        let () = first.await.unwrap();
        checkpoint().await;
    });
    group.close().join().unwrap();
    assert_eq!((bad.is_over(), good.is_over(), never.is_over()), (true, true, true));
    assert_eq!(bad.join(), Err::<(), _>(JoinError::Panicked("a bad task".to_owned())));
    assert_eq!((good.join(), never.join()), (Ok(7), Err(JoinError::Cancelled)));
    assert_eq!(runtime.counters().total().panicked, 1);
}

#[test]
fn a_group_that_is_refused_its_tasks_is_over() {
    let runtime = Runtime::with_workers(1).unwrap();
    runtime.shutdown();
    let late = runtime.group();
    let never = late.spawn(|| 3);
    assert_eq!((late.close().join(), never.join()), (Ok(()), Err(JoinError::ShutDown)));
}

#[test]
fn a_loop_covers_its_range_once() {
    let runtime = Runtime::with_workers(2).unwrap();
    for length in [1, 7, 1_000] {
        let hits: Arc<Vec<AtomicUsize>> = Arc::new((0..10_000).map(|_| AtomicUsize::new(0)).collect());
        let body = Arc::clone(&hits);
        let turns = move |range: std::ops::Range<usize>| {
            assert!(range.len() <= length);
            body[range].iter().for_each(|hit| _ = hit.fetch_add(1, Ordering::Relaxed));
        };
        runtime.parallel_for(0..10_000, chunk(length), turns.clone()).unwrap();
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
        // The same from a task, which takes part in the loop.
        let inner = runtime.spawn(move || here().parallel_for(0..10_000, chunk(length), turns));
        inner.join().unwrap().unwrap();
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 2));
    }
    runtime.parallel_for(5..5, chunk(1), |_| panic!("nothing is to be done")).unwrap();
}

// All workers are in loops, each nested in another one. No loop may wait for a helper that cannot
// come.
#[test]
fn loops_nest_on_one_worker() {
    let runtime = Runtime::with_workers(1).unwrap();
    let sum = Arc::new(AtomicUsize::new(0));
    let outer = Arc::clone(&sum);
    runtime
        .parallel_for(0..10, chunk(1), move |_| {
            let inner = Arc::clone(&outer);
            let add = move |range: std::ops::Range<usize>| {
                inner.fetch_add(range.len(), Ordering::Relaxed);
            };
            here().parallel_for(0..100, chunk(3), add).unwrap();
        })
        .unwrap();
    assert_eq!(sum.load(Ordering::Relaxed), 1_000);
}

#[test]
fn a_loop_reports_its_panic_and_its_runtime_being_shut_down() {
    let runtime = Runtime::with_workers(2).unwrap();
    let result = runtime.parallel_for(0..100, chunk(1), |range| assert!(range.start != 50, "fifty"));
    assert_eq!(result, Err(JoinError::Panicked("fifty".to_owned())));
    let token = CancellationToken::new();
    token.cancel();
    let cancelled = runtime.with_token(&token).parallel_for(0..100, chunk(1), |_| panic!("it ran"));
    assert_eq!(cancelled, Err(JoinError::Cancelled));
    runtime.shutdown();
    assert_eq!(runtime.parallel_for(0..100, chunk(1), |_| ()), Err(JoinError::ShutDown));
}
