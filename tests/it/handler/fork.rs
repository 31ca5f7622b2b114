//! Do the parts of a request run on several workers, come back to it, and leave nothing behind when it ends half-way?
//! Method: a handler that forks as each request says; its parts meet, fail, wait or count what was dropped.

use crate::support::prelude::*;
use forebay::handler::Fork;

#[derive(Debug, Default)]
struct Seen {
    /// Parts that have begun, and that are over or were dropped.
    begun: AtomicUsize,
    gone: AtomicUsize,
    threads: Mutex<BTreeSet<String>>,
    tokens: [CancellationToken; 4],
    /// Whether parts end that would go on for long.
    finish: AtomicBool,
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
        while clock::now() < end && !self.0.finish.load(Ordering::SeqCst) {
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

/// Waits, on this worker, until so many parts have begun: they must do so on others.
async fn meet(seen: Arc<Seen>, parts: usize) {
    let part = Part::begin(&seen);
    let deadline = clock::now().plus(GIVE_UP_AFTER);
    while seen.begun.load(Ordering::SeqCst) < parts {
        assert!(clock::now() < deadline, "the other parts do not begin");
        part.work(Nanos::from_micros(100)).await;
    }
}

/// Two parts for each level but the last: as many leaves as it returns.
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

async fn all<T: Send + 'static>(parts: impl IntoIterator<Item = Fork<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for part in parts {
        results.push(part.await);
    }
    results
}

impl Work for Script {
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
            // Panic: one part fails at once, one goes on for long, and the request waits for that one.
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
            // Stall: a part waits for what never comes.
            Some(b's') => fork(std::future::pending::<()>()).await,
            // Expire: both parts go on for long.
            Some(b'e') => drop(all([0; 2].map(|_| fork(working(GIVE_UP_AFTER)))).await),
            // Drop: parts that are not awaited.
            Some(b'd') => {
                let parts = [0; 4].map(|_| fork(working(GIVE_UP_AFTER)));
                checkpoint().await;
                Part::begin(&self.0).work(Nanos::from_millis(2)).await;
                drop(parts);
            }
            // Cancel: a part that ends by its token, outside of what runs under that.
            Some(b'c') => {
                let token = CancellationToken::new();
                let (long, seen) = (working(GIVE_UP_AFTER), seen());
                let [part] = token.run_until_cancelled(async { [fork(long)] }).await.expect("nobody has cancelled it");
                seen.until(|seen| seen.begun.load(Ordering::SeqCst) > 0).await;
                token.cancel();
                seen.until(|seen| seen.gone.load(Ordering::SeqCst) > 0).await;
                seen.until(|_| true).await;
                drop(part);
            }
            // Hop: a part that moves.
            Some(b'h') => {
                fork(async {
                    hop(1).await;
                    checkpoint().await;
                })
                .await;
            }
            // Many: more than anybody hears of at once.
            Some(b'n') => {
                let numbers = all((0..1_000).map(|number| fork(async move { number }))).await;
                assert_eq!(numbers.iter().sum::<i32>(), 999 * 500);
            }
            // Under the token of that number: work (r), parts (k), its end (x), and what begins too late (l).
            Some(act @ (b'r' | b'k' | b'x' | b'l')) => {
                let token = &self.0.tokens[usize::from(order.payload[1] - b'0')];
                if matches!(act, b'x' | b'l') {
                    token.cancel();
                }
                let done = match act {
                    b'r' => token.run_until_cancelled(working(GIVE_UP_AFTER)).await,
                    b'k' => {
                        let parts = async { drop(all([0; 3].map(|_| fork(working(GIVE_UP_AFTER)))).await) };
                        token.run_until_cancelled(parts).await
                    }
                    b'l' => token.child().run_until_cancelled(working(GIVE_UP_AFTER)).await,
                    _ => Some(()),
                };
                if done.is_none() {
                    return reply.put(b"--").expect("as long as the request");
                }
            }
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
    /// Passes a checkpoint, and others until `condition` holds.
    async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        let deadline = clock::now().plus(GIVE_UP_AFTER);
        loop {
            thread::sleep(Nanos::from_millis(1).into());
            checkpoint().await;
            if condition(self) {
                return;
            }
            assert!(clock::now() < deadline, "the part does not begin, or does not end");
        }
    }

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
fn a_cancelled_part_does_not_end_its_request() {
    for policy in ["steal", "ondemand"] {
        let (server, seen) = start(&sized(policy, 4));
        assert_eq!(ask(&server, b"c"), Status::Ok, "{policy}");
        seen.await_the_last();
        assert_eq!(server.quiescent(1), fates! { received: 1, answered: 1 }, "{policy}");
    }
}

// Does a token end what runs under it, its parts too, before it begins or while it runs, and leave the rest alone?
#[test]
fn a_token_cancels_its_own_work_alone() {
    // Under the other policies a second request may wait for a worker that is busy. Five workers are busy, so one more
    // must be free.
    for policy in policies().filter(|policy| !matches!(*policy, "isolated" | "pools" | "reserve")) {
        let (server, seen) = start(&[("policy", policy), ("workers", "8")]);
        let begun = || seen.begun.load(Ordering::SeqCst);
        let clients = [b"r1", b"r2", b"k3"].map(|payload| {
            let (client, before) = (Client::new(server.udp), begun());
            client.request(1, Nanos::ZERO, payload);
            await_until(|| begun() > before, "it does not begin");
            client
        });
        let said = |client: &Client| client.receive().payload;
        for (token, client) in [(b"x1", &clients[0]), (b"x3", &clients[2])] {
            assert_eq!(ask(&server, token), Status::Ok);
            assert_eq!(said(client), b"--", "{policy}");
        }
        let (before, late) = (begun(), Client::new(server.udp));
        late.request(1, Nanos::ZERO, b"l0");
        assert_eq!((said(&late), begun()), (b"--".to_vec(), before), "{policy}: it began after it was cancelled");
        await_until(|| seen.gone.load(Ordering::SeqCst) == before - 1, "more than the one that goes on is left");
        seen.finish.store(true, Ordering::SeqCst);
        assert_eq!(said(&clients[1]), b"r2", "{policy}: it was not cancelled");
        assert_eq!(seen.gone.load(Ordering::SeqCst), before);
        server.ends_as(fates! { received: 6, answered: 6 }, policy);
    }
}

#[test]
fn every_end_of_a_part_is_the_end_of_its_request() {
    for policy in policies() {
        // A request that steps aside, or moves to the heavy pool, waits behind its own parts, which here go on for long.
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
                // Alone on its worker, a part that goes on for long would keep the one that fails from beginning.
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

#[test]
fn a_stop_leaves_no_part_behind() {
    for policy in policies() {
        for _ in 0..5 {
            let (server, seen) = start(&[sized(policy, 4), vec![("drain-timeout", "0s")]].concat());
            let clients: Vec<Client> = (0..6).map(|_| Client::new(server.udp)).collect();
            clients.iter().for_each(|client| client.request(1, Nanos::ZERO, b"e"));
            // Under `isolated` all six may have come to one worker, which then runs one part.
            await_until(|| seen.begun.load(Ordering::SeqCst) > 0, "no part begins");
            let report = server.stop();
            assert_eq!(report.packets_away, 0, "{policy}");
            let fates = report.totals.fates;
            assert_eq!((fates.received, fates.shed_draining), (6, 6), "{policy}: {fates:?}");
            assert_eq!(seen.gone.load(Ordering::SeqCst), seen.begun.load(Ordering::SeqCst), "{policy}");
        }
    }
}
