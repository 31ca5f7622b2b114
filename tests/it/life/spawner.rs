//! Does work that threads spawn on a server's workers run there, within its bound, and to its end
//! at a stop? Method: servers without an endpoint; gates keep work unfinished for as long as a test
//! needs it.

use forebay::Server;
use forebay::metrics::SpawnEnd;
use forebay::server::{Builder, Ended, Report, SpawnError, Spawned, Spawner, Unfinished};
use support::prelude::*;

/// The most spawned work that a server accepts for each worker.
const MOST: usize = 64;

fn builder(workers: usize) -> Builder {
    Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(workers)
}

fn nothing(_: Request<'_>, _: &mut Reply<'_>) {}

fn silent(builder: Builder) -> Running {
    Running::on(builder.bind().expect("a free port"), Erased::new(handler_fn(nothing)))
}

/// The result of work. The test fails if it never comes.
fn result<T: Send + 'static>(spawned: Spawned<T>) -> Result<T, Unfinished> {
    let waiting = thread::spawn(|| spawned.join());
    await_until(|| waiting.is_finished(), "the work never ended");
    waiting.join().expect("no panic")
}

fn count(report: &Report, end: SpawnEnd) -> u64 {
    report.totals.gauges.spawned[end as usize]
}

async fn wait_for(open: Arc<AtomicBool>) {
    while !open.load(Ordering::SeqCst) {
        checkpoint().await;
    }
}

#[test]
fn work_runs_on_the_workers_of_every_policy() {
    for policy in policies() {
        let builder = builder(2).set("policy", policy);
        let served = silent(builder);
        let work = |number: usize| async move {
            let part = fork(async move { number * 2 });
            checkpoint().await;
            hop(1).await;
            let own = uninterrupted(|| number).await;
            (own + part.await, thread::current().name().unwrap_or_default().to_owned())
        };
        let spawned: Vec<_> = (0..20).map(|number| served.spawner.spawn(work(number)).expect("room")).collect();
        for (number, spawned) in spawned.into_iter().enumerate() {
            let (sum, thread) = result(spawned).unwrap_or_else(|why| panic!("{policy}: {why}"));
            assert_eq!(sum, number * 3, "{policy}");
            assert!(["forebay-0", "forebay-1"].contains(&thread.as_str()), "{policy}: {thread}");
        }
        let report = served.stop();
        assert_eq!((report.ended, count(&report, SpawnEnd::Finished)), (Ended::Drained, 20), "{policy}");
        assert_eq!(report.totals.gauges.spawned.iter().sum::<u64>(), 20, "{policy}");
    }
}

/// Answers with the result of work on its own server.
struct Asks(Spawner);

impl Handler for Asks {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let length = request.bytes().len();
        let spawned = self.0.spawn(async move { length as u8 }).expect("room");
        reply.put(&[spawned.await.expect("a result")]).expect("a byte");
    }
}

#[test]
fn a_handler_awaits_spawned_work() {
    let server = builder(1).bind().expect("a free port");
    let (udp, asks) = (server.udp_address(), Asks(server.spawner()));
    let served = Running::on(server, Erased::new(asks));
    assert_eq!(ask_from(&client_of(udp), "seven.."), "\u{7}");
    assert_eq!(served.stop().totals.fates.answered, 1);
}

#[test]
fn the_bound_holds_and_gives_back() {
    let server = builder(1).bind().expect("a free port");
    let (spawner, done) = (server.spawner(), Arc::new(AtomicUsize::new(0)));
    let work = || {
        let done = Arc::clone(&done);
        Box::pin(async move { done.fetch_add(1, Ordering::SeqCst) })
    };
    (0..MOST).for_each(|_| drop(spawner.spawn(work()).expect("room")));
    let refused = spawner.spawn(work()).expect_err("there is no room");
    assert!(refused.to_string().contains("64 for each worker"), "{refused}");
    let SpawnError::Full(work) = refused else { panic!("{refused}") };
    let served = Running::on(server, Erased::new(handler_fn(nothing)));
    await_until(|| done.load(Ordering::SeqCst) == MOST, "what was accepted is not done");
    await_until(|| format!("{spawner:?}").contains("under_way: 0,"), "there is no room again");
    assert_eq!(result(spawner.spawn(work).expect("room again")), Ok(MOST));
    let report = served.stop();
    assert_eq!([SpawnEnd::Finished, SpawnEnd::Refused].map(|end| count(&report, end)), [MOST as u64 + 1, 1]);
}

#[test]
fn a_stop_waits_for_what_was_accepted() {
    for workers in [1, 2] {
        let mut served = silent(builder(workers));
        let (spawner, open) = (served.spawner.clone(), Arc::new(AtomicBool::new(false)));
        let spawned: Vec<_> = (0..10).map(|_| spawner.spawn(wait_for(Arc::clone(&open))).expect("room")).collect();
        served.stop_handle().stop();
        await_until(
            || matches!(spawner.spawn(std::future::ready(())), Err(SpawnError::Stopping(_))),
            "work is accepted by a server that stops",
        );
        assert!(!served.has_ended(), "{workers}: ten are under way");
        open.store(true, Ordering::SeqCst);
        spawned.into_iter().for_each(|spawned| assert_eq!(result(spawned), Ok(())));
        let report = served.join();
        assert_eq!((report.ended, count(&report, SpawnEnd::Stopped)), (Ended::Drained, 0), "{workers}");
    }
}

#[test]
fn a_second_stop_ends_it() {
    let served = silent(builder(1));
    let never = Arc::new(AtomicBool::new(false));
    let spawned: Vec<_> = (0..10).map(|_| served.spawner.spawn(wait_for(Arc::clone(&never))).expect("room")).collect();
    served.stop_handle().stop();
    let report = served.stop();
    spawned.into_iter().for_each(|spawned| assert_eq!(result(spawned), Err(Unfinished::Stopped)));
    assert_eq!((report.ended, count(&report, SpawnEnd::Stopped)), (Ended::Forced, 10));
}

#[test]
fn work_that_fails_says_why() {
    let served = silent(builder(2));
    let panics = served.spawner.spawn(async { std::panic::resume_unwind(Box::new(())) });
    let part_panics = served.spawner.spawn(async { fork(async { std::panic::resume_unwind(Box::new(())) }).await });
    let results: [Result<(), Unfinished>; 2] =
        [panics.map_err(drop), part_panics.map_err(drop)].map(|spawned| result(spawned.expect("room")));
    assert_eq!(results, [Err(Unfinished::Panicked); 2]);
    let report = served.stop();
    let counts = [SpawnEnd::Panicked, SpawnEnd::Aborted].map(|end| count(&report, end));
    assert!(counts[0] >= 1 && counts.iter().sum::<u64>() == 2, "{counts:?}");
    assert_eq!(report.ended, Ended::Drained);
}

#[test]
fn a_server_that_never_runs_ends_its_work() {
    let server = builder(1).bind().expect("a free port");
    let spawner = server.spawner();
    let spawned = spawner.spawn(async {}).expect("room");
    drop(server);
    assert_eq!(result(spawned), Err(Unfinished::Stopped));
    assert!(matches!(spawner.spawn(async {}), Err(SpawnError::Stopping(_))));
}

// May work wait for other threads and for time, under every policy, and end as counted? Method: the
// parts of a chain wake one another, through a thread.
#[test]
fn work_may_wait_for_anything() {
    for policy in policies() {
        let served = silent(builder(2).set("policy", policy));
        let (sender, receiver) = tokio::sync::oneshot::channel::<usize>();
        let last = served.spawner.spawn(async move {
            let number = receiver.await.expect("it is sent");
            sleep(Nanos::from_millis(2)).await;
            checkpoint().await;
            number
        });
        let nothing = served.spawner.spawn(timeout(Nanos::from_millis(2), std::future::pending::<()>()));
        await_until(|| format!("{:?}", served.spawner).contains("under_way: 1,"), "the other one has waited");
        assert_eq!(result(nothing.expect("room")), Ok(None), "{policy}");
        sender.send(7).expect("it waits");
        assert_eq!(result(last.expect("room")), Ok(7), "{policy}");
        let report = served.stop();
        assert_eq!((report.ended, count(&report, SpawnEnd::Finished)), (Ended::Drained, 2), "{policy}");
    }
}

// Does work that waits for ever end when the drain is over, also without its handle? Is there
// room for others in place of work that ended?
#[test]
fn what_waits_for_ever_ends_with_the_server() {
    let served = silent(builder(1).set("drain-timeout", "50ms"));
    for _ in 0..4 * MOST {
        assert_eq!(result(served.spawner.spawn(sleep(Nanos::ZERO)).expect("room again")), Ok(()));
    }
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let spawned = served.spawner.spawn(receiver).expect("room");
    let (other, forgotten) = tokio::sync::oneshot::channel::<()>();
    drop(served.spawner.spawn(forgotten).expect("room"));
    let report = served.stop();
    assert_eq!(result(spawned), Err(Unfinished::Stopped));
    assert!(sender.is_closed() && other.is_closed(), "what waited is dropped");
    assert_eq!((report.ended, count(&report, SpawnEnd::Stopped)), (Ended::Forced, 2));
}
