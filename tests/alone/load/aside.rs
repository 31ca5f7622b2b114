//! While helper threads are stuck, does work aside never take a worker, and is no request broken
//! off that holds something, whatever its deadline?

use forebay::handler::aside;
use support::prelude::*;

const REQUESTS: u64 = 400;

/// The most requests that may wait for each worker.
const WAITING_MAX: u64 = 256;

/// Its work is done aside, once the test opens the gate.
struct Stuck {
    gate: Arc<Mutex<()>>,
    /// The time from the arrival of a request to its deadline; zero = none.
    deadline: Nanos,
    /// Requests that have begun, those whose work was made, and those that were broken off.
    begun: Arc<AtomicU64>,
    made: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
}

impl Stuck {
    fn new(deadline: Nanos) -> Stuck {
        let (begun, made, broken) = Default::default();
        Stuck { gate: Arc::default(), deadline, begun, made, broken }
    }
}

/// Counts a request that is dropped while it waits.
struct Holds<'a>(Option<&'a AtomicU64>);

impl Drop for Holds<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|broken| _ = broken.fetch_add(1, Ordering::SeqCst));
    }
}

impl Handler for Stuck {
    type Ticket = ();

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let admitted = Admitted::new(());
        Ok(if self.deadline == Nanos::ZERO { admitted } else { admitted.deadline(self.deadline) })
    }

    async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut holds = Holds(Some(&self.broken));
        let gate = Arc::clone(&self.gate);
        let made = aside(move || drop(gate.lock())).await;
        holds.0 = None;
        self.made.fetch_add(u64::from(made.is_ok()), Ordering::SeqCst);
        reply.put(if made.is_ok() { b"+" } else { b"-" }).expect("there is room");
    }
}

// More requests come than may wait. Are the others told that there is no room, while the gate is
// closed and by the only worker? Does each of those that wait go on afterwards?
#[test]
fn work_aside_is_refused_and_never_broken_off() {
    let _alone = alone();
    for policy in ["levels", "isolated"] {
        let handler = Stuck::new(Nanos::ZERO);
        let (gate, broken) = (Arc::clone(&handler.gate), Arc::clone(&handler.broken));
        let server = Running::on(bound(&[("policy", policy), ("workers", "1")]), handler);
        let client = client(&server);
        let closed = gate.lock().expect("no panic");
        (0..REQUESTS).for_each(|_| _ = client.send(b"w").expect("the server's port is open"));
        let refused = REQUESTS - WAITING_MAX - 1;
        (0..refused).for_each(|number| assert_eq!(receive_bytes(&client), b"-", "{policy}: {number}"));
        drop(closed);
        let made = (refused..REQUESTS).filter(|_| receive_bytes(&client) == b"+").count() as u64;
        assert!((1..=WAITING_MAX + 1).contains(&made), "{policy}: {made}");
        assert_eq!(broken.load(Ordering::SeqCst), 0, "{policy}");
        server.ends_as(fates! { received: REQUESTS, answered: REQUESTS }, policy);
    }
}

// The deadlines of all requests pass while their work waits. Is each request that has begun
// answered all the same?
#[test]
fn what_waits_for_work_aside_outlives_its_deadline() {
    let _alone = alone();
    const DEADLINE: Nanos = Nanos::from_millis(500);
    for policy in ["levels", "isolated"] {
        let handler = Stuck::new(DEADLINE);
        let [begun, made, broken] = [&handler.begun, &handler.made, &handler.broken].map(Arc::clone);
        let gate = Arc::clone(&handler.gate);
        let server = Running::on(bound(&[("policy", policy), ("workers", "1")]), handler);
        let client = client(&server);
        let closed = gate.lock().expect("no panic");
        (0..WAITING_MAX).for_each(|_| _ = client.send(b"w").expect("the server's port is open"));
        // On a busy host some may be shed before they begin.
        let of = |fate: &str| latency(server.admin)["fates"][fate].as_u64().expect("a number");
        let begun = || begun.load(Ordering::SeqCst);
        await_until(|| begun() + of("shed_waited") + of("shed_expired") == WAITING_MAX, "not all have begun");
        // The server looks for what is overdue once a second.
        let passed = clock::now().plus(DEADLINE).plus(Nanos::from_millis(1_500));
        await_until(|| clock::now() > passed, "time stands still");
        drop(closed);
        await_until(|| of("in_flight") == 0, "they never end");
        assert_eq!((broken.load(Ordering::SeqCst), of("answered")), (0, begun()), "{policy}");
        // On a busy host work of others may be refused, which answers them in time.
        let made = made.load(Ordering::SeqCst);
        let late = latency(server.admin)["answered_late"]["deadline"].as_u64().expect("a number");
        assert!(made > 1 && (made..=begun()).contains(&late), "{policy}: {late} of {made} in {}", begun());
    }
}
