//! Are the options of sharing in force, in the server and in the runtime as a library, and is every request and every task
//! served whatever they are? Method: one option away from the default at a time, and a theft that is counted.

use crate::support::client::Client;
use crate::support::http::{http, metric};
use crate::support::scripted::{Act, scripted};
use crate::support::{Running, alone, await_until};
use forebay::sched::{Amount, Insertion, Sharing, Victim};
use forebay::tasks::{BuildError, Options, Runtime, Spawner};
use forebay::time::Nanos;
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
    let mut clients = [None, None];
    let mut add = || {
        let client = Client::new(server.udp);
        clients[client.owner()].get_or_insert(client);
        clients.iter().all(Option::is_some)
    };
    await_until(&mut add, "some socket gets no flow");
    let clients = clients.map(|client| client.expect("one for each socket"));
    let hold = |worker: usize, id| clients[worker].request(id, Nanos::ZERO, &[Act::Hold as u8]);
    // Either worker may have the first.
    hold(0, 0);
    await_until(|| script.blockers().len() == 1, "nobody is held");
    let [victim, thief] = [script.blockers()[0], 1 - script.blockers()[0]];
    hold(thief, 0);
    await_until(|| script.blockers().len() == 2, "the other one is not held");
    // All of this waits in one socket, and is received as one batch.
    hold(victim, 1);
    (2..17).for_each(|id| clients[victim].request(id, Nanos::ZERO, b"-"));
    let steals = || {
        let metrics = http(server.admin, "GET /metrics").expect("the endpoint answers").body;
        metric(&metrics, "forebay_steals_total{result=\"found\"}")
    };
    let before = steals();
    script.release_worker(victim);
    await_until(|| script.blockers().len() == 3, "the victim is not held again");
    script.release_worker(thief);
    let mut left = 15;
    await_until(
        || {
            left -= usize::from(clients[victim].receive().header.id >= 2);
            left == 0
        },
        "the thief does not serve them",
    );
    assert_eq!(steals() - before, 4.0);
    script.release();
}
