//! Do the parts of a forked request run on several workers and return their results? If the request
//! ends early, are all parts dropped? Method: a handler that forks as each request says. Its parts
//! wait for one another, fail, wait, or count dropped parts.

use forebay::handler::Fork;
use support::prelude::*;

#[derive(Debug, Default)]
struct Seen {
    /// Parts that have begun, and parts that have ended or were dropped.
    begun: AtomicUsize,
    gone: AtomicUsize,
    threads: Mutex<BTreeSet<String>>,
}

struct Script(Arc<Seen>);

/// One part at work.
struct Part(Arc<Seen>);

impl Part {
    fn begin(seen: &Arc<Seen>) -> Part {
        seen.begun.fetch_add(1, Ordering::SeqCst);
        Part(Arc::clone(seen))
    }

    /// With a checkpoint every 100 us.
    async fn work(&self, time: Nanos) {
        let end = clock::now().plus(time);
        while clock::now() < end {
            let name = thread::current().name().unwrap_or_default().to_owned();
            self.0.threads.lock().expect("nobody panics with it").insert(name);
            thread::sleep(Nanos::from_micros(100).into());
            checkpoint().await;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits on this worker until this many parts have begun, which must then run on other workers.
async fn meet(seen: Arc<Seen>, parts: usize) {
    let part = Part::begin(&seen);
    let deadline = clock::now().plus(GIVE_UP_AFTER);
    while seen.begun.load(Ordering::SeqCst) < parts {
        assert!(clock::now() < deadline, "the other parts do not begin");
        part.work(Nanos::from_micros(100)).await;
    }
}

/// Forks two parts at each level but the last; returns the number of leaves.
fn tree(levels: u32) -> Fork<u64> {
    fork(async move {
        if levels == 0 {
            checkpoint().await;
            return 1;
        }
        let (left, right) = (tree(levels - 1), tree(levels - 1));
        left.await + right.await
    })
}

/// Each part forks the next part and awaits it.
fn chain(depth: u32) -> Fork<u32> {
    fork(async move { if depth == 0 { 0 } else { chain(depth - 1).await + 1 } })
}

/// As [`chain`], but other workers may run each next part.
fn handed_on(depth: u32) -> Fork<u32> {
    fork(async move {
        if depth == 0 {
            return 0;
        }
        let next = handed_on(depth - 1);
        checkpoint().await;
        next.await + 1
    })
}

async fn all<T: Send + 'static>(parts: impl IntoIterator<Item = Fork<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for part in parts {
        results.push(part.await);
    }
    results
}

impl BenchWork for Script {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        let seen = || Arc::clone(&self.0);
        let working = |time: Nanos| {
            let seen = seen();
            async move { Part::begin(&seen).work(time).await }
        };
        match order.payload.first() {
            // Meet: the parts wait for one another.
            Some(b'm') => drop(all([0; 2].map(|_| fork(meet(seen(), 2)))).await),
            // Tree: parts of parts.
            Some(b't') => assert_eq!(tree(6).await, 64),
            // Panic: one part fails at once, and one runs for long. The request waits for the long
            // one.
            Some(b'p') => {
                // Longer than the client waits for its answer.
                let long = fork(working(GIVE_UP_AFTER.times(2)));
                let seen = seen();
                let failing = fork(async move {
                    let _part = Part::begin(&seen);
                    panic!("this request asks for a panic of a part");
                });
                long.await;
                failing.await;
            }
            // Stall: a part waits for an event that never comes.
            Some(b's') => fork(std::future::pending::<()>()).await,
            // Expire: both parts run for long.
            Some(b'e') => drop(all([0; 2].map(|_| fork(working(GIVE_UP_AFTER)))).await),
            // Drop: parts that the request does not await.
            Some(b'd') => {
                let parts = [0; 4].map(|_| fork(working(GIVE_UP_AFTER)));
                checkpoint().await;
                Part::begin(&self.0).work(Nanos::from_millis(2)).await;
                drop(parts);
            }
            // Hop: a part that moves.
            Some(b'h') => {
                fork(async {
                    hop(1).await;
                    checkpoint().await;
                })
                .await;
            }
            // Many: more parts than the other workers are told of at once.
            Some(b'n') => {
                let numbers = all((0..1_000).map(|number| fork(async move { number }))).await;
                assert_eq!(numbers.iter().sum::<i32>(), 999 * 500);
            }
            // Chain: parts within parts. `c` has the allowed depth, and `C` exceeds the stack.
            Some(b'c') => assert_eq!(chain(100).await, 100),
            Some(b'C') => drop(chain(20_000).await),
            Some(b'H') => drop(handed_on(20_000).await),
            // Linked: each part holds the handle of the one before.
            Some(b'L') => {
                (0..20_000).fold(fork(async {}), |inner, _| fork(inner)).await;
            }
            // Wide: far more parts at once than a request may have.
            Some(b'W') => drop((0..100_000).map(|number| fork(async move { number })).collect::<Vec<_>>()),
            _ => {}
        }
        reply.put(order.payload).expect("as long as the request");
    }
}

fn start(settings: &[(&str, &str)]) -> (Running, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let script = Script(Arc::clone(&seen));
    (Running::start(settings, Bench::new(script, Nanos::from_secs(60))), seen)
}

impl Seen {
    /// Waits until every part that has begun is gone.
    fn await_the_last(&self) {
        let all_gone = || self.gone.load(Ordering::SeqCst) == self.begun.load(Ordering::SeqCst);
        await_until(all_gone, "a part was left behind");
    }
}

fn ask(server: &Running, payload: &[u8]) -> Status {
    Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), payload).header.status
}

#[test]
fn parts_run_on_several_workers() {
    for policy in policies().filter(|policy| *policy != "isolated") {
        let (server, seen) = start(&sized(policy, 4));
        for _ in 0..10 {
            seen.begun.store(0, Ordering::SeqCst);
            assert_eq!(ask(&server, b"m"), Status::Ok, "{policy}");
            assert_eq!(seen.begun.load(Ordering::SeqCst), 2, "{policy}");
        }
        assert!(seen.threads.lock().expect("nobody panics with it").len() >= 2, "{policy}");
        server.ends_as(fates! { received: 10, answered: 10 }, policy);
    }
}

#[test]
fn every_end_of_a_part_is_the_end_of_its_request() {
    for policy in policies() {
        // A request that yields, or moves to the heavy pool, would wait behind its own parts, which
        // run for long here.
        let (server, seen) = start(&[sized(policy, 4), vec![("slice", "1s")]].concat());
        let mut sent = 0;
        for _ in 0..5 {
            let late = Header { deadline_us: 50_000, ..Header::request(1, 0, Nanos::ZERO) };
            let expired = Client::new(server.udp).ask(&late, b"e").header.status;
            assert_eq!(expired, Status::ShedExpired, "{policy}");
            for (payload, status) in [
                (b"p", Status::Failed),
                (b"s", Status::Stalled),
                (b"d", Status::Ok),
                (b"h", Status::Ok),
                (b"n", Status::Ok),
                (b"t", Status::Ok),
            ] {
                // If a part runs for long on the only worker of its socket, the part that fails
                // cannot begin.
                if (policy, payload) == ("isolated", b"p") {
                    continue;
                }
                assert_eq!(ask(&server, payload), status, "{policy} {payload:?}");
                sent += 1;
            }
            sent += 1;
        }
        seen.await_the_last();
        let failed = if policy == "isolated" { 0 } else { 5 };
        server.ends_as(fates! { received: sent, answered: 20, shed_expired: 5, failed, stalled: 5 }, policy);
    }
}

// If a request forks too deep or too much, does only this request fail? For a deep one, either
// limit may come first.
#[test]
fn forks_without_a_bound_fail_their_request() {
    for (workers, stack_bytes) in [(2, "1048576"), (4, "2097152")] {
        let settings = [sized("steal", workers), vec![("stack-bytes", stack_bytes)]].concat();
        let (server, _) = start(&settings);
        for payload in [b"C", b"H", b"L", b"W"] {
            assert_eq!(ask(&server, payload), Status::Failed, "{payload:?} on {workers}");
            // All places that they held are free again.
            assert_eq!([b"n", b"c"].map(|payload| ask(&server, payload)), [Status::Ok; 2], "{payload:?} on {workers}");
        }
        server.ends_as(fates! { received: 12, answered: 8, failed: 4 }, "steal");
    }
}

#[test]
fn a_stop_leaves_no_part_behind() {
    for policy in policies() {
        for _ in 0..5 {
            let (server, seen) = start(&[sized(policy, 4), vec![("drain-timeout", "0s")]].concat());
            let clients: Vec<Client> = (0..6).map(|_| Client::new(server.udp)).collect();
            clients.iter().for_each(|client| client.request(1, Nanos::ZERO, b"e"));
            // Under `isolated` all six may reach one worker, which then runs one part.
            await_until(|| seen.begun.load(Ordering::SeqCst) > 0, "no part begins");
            let report = server.stop();
            assert_eq!(report.packets_away, 0, "{policy}");
            let fates = report.totals.fates;
            assert_eq!((fates.received, fates.shed_draining), (6, 6), "{policy}: {fates:?}");
            assert_eq!(seen.gone.load(Ordering::SeqCst), seen.begun.load(Ordering::SeqCst), "{policy}");
        }
    }
}
