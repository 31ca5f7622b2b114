//! Are the options of sharing in force, in the server and in the runtime as a library, and is every request and every task
//! served whatever they are? Method: one option away from the default at a time, and a theft that is counted.

use crate::support::client::{Client, message};
use crate::support::http::{http, metric};
use crate::support::scripted::{Act, scripted};
use crate::support::{Running, alone, await_until};
use forebay::sched::{Amount, Insertion, Sharing, Victim};
use forebay::tasks::{BuildError, Options, Runtime, Spawner};
use forebay::time::Nanos;
use forebay::wire::Header;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn sharings() -> Vec<Sharing> {
    let default = Sharing::default();
    let mut all = vec![
        default,
        Sharing { amount: Amount::One, ..default },
        Sharing { steal_every: 2, ..default },
        Sharing { deques: 5, ..default },
        Sharing { victim: Victim::TwoChoices, amount: Amount::One, steal_every: 61, deques: 2, ..default },
    ];
    all.extend(Victim::ALL.map(|victim| Sharing { victim, ..default }));
    all.extend(Insertion::ALL.map(|insertion| Sharing { insertion, ..default }));
    all
}

// Tasks that spawn tasks, from a task and from outside, more than deques and queue hold.
#[test]
fn every_task_runs_once_under_every_option() {
    let _alone = alone();
    for sharing in sharings() {
        // Seventeen workers, so that a queue has two shards.
        let runtime = Runtime::builder().pool("main", 17).queue_capacity(64).sharing(sharing).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = |runs: &Arc<AtomicUsize>| {
            let runs = Arc::clone(runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let inside = Arc::clone(&runs);
        let root = runtime.spawn_with(Options::new().with_children(), move || {
            let spawner = Spawner::current().unwrap();
            (0..1_000).for_each(|_| drop(spawner.spawn(count(&inside))));
        });
        let handles: Vec<_> = (0..1_000).map(|_| runtime.spawn(count(&runs))).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        root.join().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2_000, "{sharing:?}");
        assert_eq!(runtime.counters().total().completed, 2_001, "{sharing:?}");
    }
}

#[test]
fn a_builder_refuses_what_no_option_may_be() {
    let _alone = alone();
    for (sharing, complaint) in [
        (Sharing { deques: 17, ..Sharing::default() }, "deques is 17; allowed: 1 to 16"),
        (Sharing { steal_every: 1, ..Sharing::default() }, "steal_every is 1; allowed: 0 for never, or 2 to 1000000"),
    ] {
        let refused = Runtime::builder().sharing(sharing).build().unwrap_err();
        assert!(matches!(refused, BuildError::Sharing(_)));
        assert_eq!(refused.to_string(), complaint);
    }
}

// Fifteen requests lie in the deque of a worker that is stuck; the other one takes them by halves: 8, 4, 2 and 1.
#[test]
fn a_thief_of_requests_takes_half() {
    let _alone = alone();
    let (handler, script) = scripted();
    // On this scale no worker is stuck for long enough that others receive from its socket.
    let settings = [("policy", "steal"), ("workers", "2"), ("time-scale", "1000000")];
    let server = Running::start(&settings, handler);
    let client = Client::new(server.udp);
    let block = |id, time| client.send(&message(&Header::request(id, 0, time), &[Act::Block as u8]));
    block(0, Nanos::from_millis(500));
    await_until(|| script.blockers().len() == 1, "nobody is stuck");
    // All of this waits in the socket of the stuck one, and is received as one batch.
    block(1, Nanos::from_secs(1));
    (2..17).for_each(|id| client.request(id, Nanos::ZERO, b"-"));
    let order: Vec<u64> = (0..17).map(|_| client.receive().header.id).collect();
    assert_eq!((order[0], order[16]), (0, 1), "the other one served all but the blocks: {order:?}");
    let metrics = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
    assert_eq!(metric(&metrics, "forebay_steals_total{result=\"found\"}"), 4.0);
}
