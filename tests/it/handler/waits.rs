//! May a handler wait for other threads, and for time, without blocking a worker, and does every
//! wait end? Method: a handler that waits for a channel, a timer, or nothing; few workers, many
//! waits; replies and fates are counted.

use std::task::{Poll, Waker};
use support::prelude::*;
use tokio::sync::oneshot;

/// The first letter of a request says how it waits.
#[derive(Clone, Default)]
struct Waits {
    /// Senders for waiting requests. A test sends to the newest one, or drops it.
    asked: Arc<Mutex<Vec<oneshot::Sender<u8>>>>,
    /// Wakers that are kept for ever and never used.
    kept: Arc<Mutex<Vec<Waker>>>,
}

impl Waits {
    async fn hear(&self) -> u8 {
        let (sender, receiver) = oneshot::channel();
        self.asked.lock().expect("no panic").push(sender);
        receiver.await.unwrap_or(b'-')
    }

    fn asked(&self) -> Option<oneshot::Sender<u8>> {
        self.asked.lock().expect("no panic").pop()
    }

    fn await_asked(&self, count: usize) {
        await_until(|| self.asked.lock().expect("no panic").len() == count, "the request did not come so far");
    }

    /// Sends `word` to the waiting request.
    fn tell(&self, word: u8) {
        self.await_asked(1);
        self.asked().expect("it waits").send(word).expect("it is alive");
    }
}

impl Handler for Waits {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let admitted = Admitted::new(());
        Ok(if arrival.bytes()[0] == b'd' { admitted.deadline(Nanos::from_millis(200)) } else { admitted })
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let heard = match request.bytes()[0] {
            b'h' | b'd' => self.hear().await,
            b'c' => {
                checkpoint().await;
                let first = self.hear().await;
                checkpoint().await;
                first.max(self.hear().await)
            }
            b's' => {
                sleep(Nanos::from_millis(100)).await;
                b's'
            }
            b't' => timeout(Nanos::from_millis(20), self.hear()).await.unwrap_or(b't'),
            b'n' => std::future::pending().await,
            // Its waker is dropped later without being used.
            b'k' => {
                std::future::poll_fn(|context| {
                    self.kept.lock().expect("no panic").push(context.waker().clone());
                    Poll::<u8>::Pending
                })
                .await
            }
            letter => letter,
        };
        reply.put(&[heard]).expect("a request has a byte");
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8]).expect("a request has a byte");
    }
}

fn status(status: Status) -> String {
    char::from(status as u8).to_string()
}

#[test]
fn another_thread_wakes_a_request() {
    for policy in policies() {
        let waits = Waits::default();
        let server = Running::start(&sized(policy, 4), waits.clone());
        let waiting = client(&server);
        for _ in 0..20 {
            waiting.send(b"h").expect("the server's port is open");
            waits.await_asked(1);
            assert_eq!(ask(&server, "x"), "x", "{policy}: no worker waits");
            waits.tell(b'!');
            assert_eq!(receive(&waiting), "!", "{policy}");
        }
        waiting.send(b"c").expect("the server's port is open");
        [b'1', b'2'].into_iter().for_each(|word| waits.tell(word));
        assert_eq!(receive(&waiting), "2", "{policy}");
        server.ends_as(fates! { received: 41, answered: 41 }, policy);
    }
}

// If many wakes come while workers fall asleep and work, is none lost? Method: threads wake every
// waiting request at once.
#[test]
fn no_wake_is_lost() {
    const REQUESTS: usize = 2_000;
    for policy in ["steal", "pools", "levels", "isolated"] {
        let waits = Waits::default();
        let server = Running::start(&sized(policy, 4), waits.clone());
        let socket = client(&server);
        thread::scope(|scope| {
            let done = Arc::new(());
            for _ in 0..2 {
                let (waits, done) = (&waits, Arc::downgrade(&done));
                scope.spawn(move || {
                    while done.strong_count() > 0 {
                        waits.asked().map_or_else(thread::yield_now, |asked| asked.send(b'!').expect("it waits"));
                    }
                });
            }
            for number in 0..REQUESTS {
                socket.send(b"h").expect("the server's port is open");
                // At most eight are outstanding.
                if number >= 7 {
                    assert_eq!(receive(&socket), "!");
                }
            }
            (0..7).for_each(|_| assert_eq!(receive(&socket), "!"));
            drop(done);
        });
    }
}

#[test]
fn sleeping_requests_keep_no_worker() {
    let server = Running::start(&[("workers", "1"), ("policy", "levels")], Waits::default());
    let socket = client(&server);
    (0..100).for_each(|_| assert_eq!(socket.send(b"s").expect("the server's port is open"), 1));
    assert_eq!(ask(&server, "x"), "x", "before the first of them ends");
    let fates = fates(&latency(server.admin));
    assert!(fates.in_flight >= 100, "{fates:?}");
    (0..100).for_each(|_| assert_eq!(receive(&socket), "s"));
    assert_eq!(ask(&server, "t"), "t");
}

#[test]
fn waits_leave_room_for_others() {
    const ROOM: usize = 256;
    let waits = Waits::default();
    let server = Running::start(&[("workers", "1"), ("policy", "levels")], waits.clone());
    let socket = client(&server);
    let wait = |count: usize| {
        (0..count).for_each(|_| assert_eq!(socket.send(b"h").expect("the server's port is open"), 1));
    };
    for round in 1..=2 {
        // Fewer at once than fit into a socket.
        for _ in 0..4 {
            wait(ROOM / 4);
            assert_eq!(ask(&server, "x"), "x", "round {round}");
        }
        assert_eq!(waits.asked.lock().expect("no panic").len(), ROOM);
        wait(50);
        (0..50).for_each(|_| assert_eq!(receive(&socket), status(Status::ShedQueueFull), "round {round}"));
        assert_eq!(ask(&server, "x"), "x", "round {round}");
        waits.asked.lock().expect("no panic").retain(|asked| !asked.is_closed());
        while let Some(asked) = waits.asked() {
            asked.send(b'!').expect("it is alive");
        }
        (0..ROOM).for_each(|_| assert_eq!(receive(&socket), "!", "round {round}"));
    }
}

#[test]
fn every_wait_ends() {
    let waits = Waits::default();
    let server = Running::start(&[("workers", "1"), ("drain-timeout", "100ms")], waits.clone());
    assert_eq!(ask(&server, "n"), status(Status::Stalled), "nothing has its waker");
    assert_eq!(ask(&server, "d"), status(Status::ShedExpired), "the test never sends");
    let forsaken = client(&server);
    forsaken.send(b"k").expect("the server's port is open");
    await_until(|| !waits.kept.lock().expect("no panic").is_empty(), "the request did not begin");
    waits.kept.lock().expect("no panic").clear();
    assert_eq!(receive(&forsaken), status(Status::Stalled), "its waker is gone");
    let waiting = client(&server);
    waiting.send(b"h").expect("the server's port is open");
    waits.await_asked(2);
    let report = server.stop();
    assert_eq!(receive(&waiting), status(Status::ShedDraining));
    let fates = report.totals.fates;
    assert_eq!((fates.stalled, fates.shed_expired, fates.shed_draining, fates.received), (2, 1, 1, 4));
    // The server has ended.
    waits.asked().expect("the last one").send(b'!').expect_err("it was dropped");
}
