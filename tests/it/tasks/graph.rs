//! Does a group run every node once, after its prerequisites and with their results, and does a loop cover its range?

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
            last = group.then(&last, |value| value + 1);
        }
        assert_eq!((group.open(), last.result()), (1, None), "only the first has begun");
        release.send(()).unwrap();
        let group = group.close();
        group.join().unwrap();
        assert_eq!(last.result(), Some(Ok(&1_000)));
        assert_eq!(runtime.counters().total().completed, 1_000, "each node is a task");
    }
}

#[test]
fn a_group_may_be_awaited() {
    let runtime = Runtime::with_workers(1).unwrap();
    let sum = runtime.spawn_future(async {
        let group = here().group();
        let source = group.spawn(|| 3);
        let leaves: Vec<Node<usize>> = (0..50).map(|leaf| group.then(&source, move |value| value * leaf)).collect();
        let sum = group.all(&leaves, |values| values.iter().copied().sum::<usize>());
        let both = group.both(&source, &sum, |source, sum| source + sum);
        group.close().await.unwrap();
        both.result().unwrap().copied()
    });
    assert_eq!(sum.join(), Ok(Ok(3 + 3 * 50 * 49 / 2)));
}

#[test]
fn a_panic_skips_what_depends_on_it_and_nothing_else() {
    let runtime = Runtime::with_workers(2).unwrap();
    let group = runtime.group();
    let bad: Node<u32> = group.spawn(|| panic!("a bad node"));
    let after = group.then(&bad, |value| value + 1);
    let good = group.spawn(|| 7);
    let join = group.both(&after, &good, |after, good| after + good);
    let other = group.then(&good, |value| value + 1);
    let panic = JoinError::Panicked("a bad node".to_owned());
    assert_eq!(group.close().join().as_ref(), Err(&panic));
    assert_eq!(bad.result(), Some(Err(panic)));
    let skipped = || Err(JoinError::Skipped);
    assert_eq!([after, join].map(|node| node.result().unwrap().copied()), [skipped(), skipped()]);
    assert_eq!((good.result(), other.result()), (Some(Ok(&7)), Some(Ok(&8))));
    assert_eq!(runtime.counters().total().panicked, 1);
}

#[test]
fn a_cancelled_group_begins_no_further_node() {
    let runtime = Runtime::with_workers(2).unwrap();
    let token = CancellationToken::new();
    let asks = token.clone();
    let group = runtime.with_token(&token).group();
    let first = group.spawn(move || asks.cancel());
    let second = group.then(&first, |()| ());
    group.close().join().unwrap();
    assert_eq!((first.result(), second.result()), (Some(Ok(&())), None));
}

#[test]
#[should_panic(expected = "a node before it is of another group")]
fn nodes_of_another_group_are_refused() {
    let runtime = Runtime::with_workers(1).unwrap();
    let stranger = runtime.group().spawn(|| 1);
    let group = runtime.group();
    let _ = group.spawn(|| 1);
    let _ = group.then(&stranger, |value| value + 1);
}

#[test]
fn a_node_may_come_late_and_a_refused_one_is_an_error() {
    let runtime = Runtime::with_workers(1).unwrap();
    let group = runtime.group();
    let first = group.spawn(|| 1);
    while first.result().is_none() {
        std::thread::yield_now();
    }
    let second = group.then(&first, |value| value + 1);
    group.close().join().unwrap();
    assert_eq!(second.result(), Some(Ok(&2)));
    runtime.shutdown();
    let late = runtime.group();
    let never = late.spawn(|| 3);
    assert_eq!((late.close().join(), never.result()), (Err(JoinError::ShutDown), None));
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
        // The same from inside, where the caller takes part.
        let inner = runtime.spawn(move || here().parallel_for(0..10_000, chunk(length), turns));
        inner.join().unwrap().unwrap();
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 2));
    }
    runtime.parallel_for(5..5, chunk(1), |_| panic!("nothing is to be done")).unwrap();
}

// All workers are in loops at once, each inside the turn of another: no loop waits for a helper that cannot come.
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
