//! Does a graph run every node once, after its prerequisites and with their results, and does a loop cover its range?

use forebay::tasks::{
    CancellationToken, JoinError, Node, NodeError, Options, Runtime, ScopeError, Spawner, TaskGraph, scope,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longer than anything here takes, shorter than patience.
const DEADLINE: Duration = Duration::from_secs(20);

fn chunk(length: usize) -> NonZeroUsize {
    NonZeroUsize::new(length).expect("a chunk has a length")
}

#[test]
fn a_chain_of_a_thousand_hands_its_results_on() {
    for workers in 1..=2 {
        let runtime = Runtime::with_workers(workers).unwrap();
        let mut graph = TaskGraph::new();
        let mut last = graph.task(|| 1_u64);
        for _ in 1..1_000 {
            last = graph.then(&last, |value| value + 1);
        }
        assert_eq!((graph.len(), last.result()), (1_000, Err(NodeError::NotRun)));
        graph.spawn_on(&runtime).join().unwrap();
        assert_eq!(last.result(), Ok(&1_000));
        assert_eq!(runtime.counters().total().completed, 1_001, "each node is a task, and the graph is one");
    }
}

#[test]
fn a_fan_out_of_two_hundred_joins() {
    let runtime = Runtime::with_workers(2).unwrap();
    let mut graph = TaskGraph::new();
    let source = graph.task(|| 3_u64);
    let branches: Vec<Node<u64>> = (0..200).map(|factor| graph.then(&source, move |value| value * factor)).collect();
    let sum = graph.join(&branches, |values| values.iter().copied().sum::<u64>());
    let text = graph.both(&source, &sum, |source, sum| format!("{source}: {sum}"));
    graph.spawn_on(&runtime).join().unwrap();
    assert_eq!(text.result(), Ok(&format!("3: {}", 3 * 200 * 199 / 2)));
}

// A graph is awaited inside a task, on a single worker.
#[test]
fn a_graph_may_be_awaited() {
    let runtime = Runtime::with_workers(1).unwrap();
    let sum = runtime.spawn_future(async {
        let mut graph = TaskGraph::new();
        let leaves: Vec<Node<usize>> = (0..50).map(|leaf| graph.task(move || leaf)).collect();
        let sum = graph.join(&leaves, |values| values.iter().copied().sum::<usize>());
        graph.spawn_on(&Spawner::current().unwrap()).await.unwrap();
        sum.result().copied()
    });
    assert_eq!(sum.join(), Ok(Ok(50 * 49 / 2)));
}

#[test]
fn a_panic_skips_what_depends_on_it_and_nothing_else() {
    let runtime = Runtime::with_workers(2).unwrap();
    let mut graph = TaskGraph::new();
    let bad: Node<u32> = graph.task(|| panic!("a bad node"));
    let after = graph.then(&bad, |value| value + 1);
    let good = graph.task(|| 7);
    let join = graph.both(&after, &good, |after, good| after + good);
    let other = graph.then(&good, |value| value + 1);
    graph.spawn_on(&runtime).join().unwrap();
    assert_eq!(bad.result(), Err(NodeError::Panicked("a bad node".to_owned())));
    assert_eq!((after.result(), join.result()), (Err(NodeError::Skipped), Err(NodeError::Skipped)));
    assert_eq!((good.result(), other.result()), (Ok(&7), Ok(&8)));
    assert_eq!(runtime.counters().total().panicked, 1);
}

// The first node cancels the graph that it is in: what comes after does not begin, and the graph ends.
#[test]
fn a_cancelled_graph_begins_no_further_node() {
    let runtime = Runtime::with_workers(2).unwrap();
    let token = CancellationToken::new();
    let asks = token.clone();
    let mut graph = TaskGraph::new();
    let first = graph.task(move || asks.cancel());
    let second = graph.then(&first, |()| ());
    graph.spawn_with(Options::new().token(&token), &runtime).join().unwrap();
    assert_eq!((first.result(), second.result()), (Ok(&()), Err(NodeError::NotRun)));
}

#[test]
#[should_panic(expected = "a node of another graph")]
fn nodes_of_another_graph_are_refused() {
    let stranger = TaskGraph::new().task(|| 1);
    let mut graph = TaskGraph::new();
    let _ = graph.task(|| 1);
    let _ = graph.then(&stranger, |value| value + 1);
}

#[test]
fn a_loop_covers_its_range_once() {
    let runtime = Runtime::with_workers(2).unwrap();
    for length in [1, 7, 1_000] {
        let hits: Arc<Vec<AtomicUsize>> = Arc::new((0..10_000).map(|_| AtomicUsize::new(0)).collect());
        let body = Arc::clone(&hits);
        let turns = move |range: std::ops::Range<usize>| {
            assert!(range.len() <= length);
            for hit in &body[range] {
                hit.fetch_add(1, Ordering::Relaxed);
            }
        };
        runtime.parallel_for(0..10_000, chunk(length), turns.clone()).unwrap();
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
        // The same from inside, where the caller takes part.
        let inner = runtime.spawn(move || Spawner::current().unwrap().parallel_for(0..10_000, chunk(length), turns));
        inner.join().unwrap().unwrap();
        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 2));
    }
    runtime.parallel_for(5..5, chunk(1), |_| panic!("nothing is to be done")).unwrap();
}

// All workers are in loops at once, each inside the turn of another: nobody waits for a helper that cannot come.
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
            Spawner::current().unwrap().parallel_for(0..100, chunk(3), add).unwrap();
        })
        .unwrap();
    assert_eq!(sum.load(Ordering::Relaxed), 1_000);
}

#[test]
fn a_loop_reports_its_panic_and_its_runtime_being_shut_down() {
    let runtime = Runtime::with_workers(2).unwrap();
    let result = runtime.parallel_for(0..100, chunk(1), |range| assert!(range.start != 50, "fifty"));
    assert_eq!(result, Err(JoinError::Panicked("fifty".to_owned())));
    runtime.shutdown();
    assert_eq!(runtime.parallel_for(0..100, chunk(1), |_| ()), Err(JoinError::ShutDown));
}

#[test]
fn a_scope_borrows_and_is_over_when_it_returns() {
    let mut values = vec![0_u64; 10_000];
    let sum = AtomicUsize::new(0);
    let length = scope(2, |scope| {
        for part in values.chunks_mut(17) {
            scope.spawn(move || part.iter_mut().for_each(|value| *value += 1));
        }
        scope.parallel_for(0..10_000, chunk(64), |range| {
            sum.fetch_add(range.len(), Ordering::Relaxed);
        });
        10_000
    });
    assert_eq!(length.unwrap(), sum.into_inner());
    assert!(values.iter().all(|value| *value == 1));
}

#[test]
fn a_scope_reports_a_panic_and_runs_the_others() {
    let runs = AtomicUsize::new(0);
    let (release, held) = channel::<()>();
    let result = scope(1, |scope| {
        scope.spawn(move || held.recv_timeout(DEADLINE).unwrap());
        scope.spawn(|| panic!("in the scope"));
        // More than the queue holds: the calling thread runs the rest.
        for _ in 0..2_000 {
            scope.spawn(|| {
                runs.fetch_add(1, Ordering::Relaxed);
            });
        }
        release.send(()).unwrap();
    });
    assert!(matches!(result, Err(ScopeError::Task(JoinError::Panicked(said))) if said == "in the scope"));
    assert_eq!(runs.into_inner(), 2_000);
    assert!(matches!(scope(0, |_| ()), Err(ScopeError::Build(_))));
}
