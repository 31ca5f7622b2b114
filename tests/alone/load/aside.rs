//! While helper threads are stuck, does work aside never take a worker, and is no request broken
//! off that holds something?

use crate::support::prelude::*;
use forebay::handler::aside;

const REQUESTS: u64 = 400;

/// The most requests that may wait for each worker.
const WAITING_MAX: u64 = 256;

/// Its work is done aside, once the test opens the gate.
struct Stuck {
    gate: Arc<Mutex<()>>,
    broken: Arc<AtomicU64>,
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

    async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
        let mut holds = Holds(Some(&self.broken));
        let gate = Arc::clone(&self.gate);
        let made = aside(move || drop(gate.lock())).await;
        holds.0 = None;
        reply.put(if made.is_ok() { b"+" } else { b"-" }).expect("there is room");
    }
}

// More requests come than may wait. Are the others told that there is no room, while the gate is
// closed and by the only worker? Does each of those that wait go on afterwards?
#[test]
fn work_aside_is_refused_and_never_broken_off() {
    let _alone = alone();
    for policy in ["levels", "isolated"] {
        let (gate, broken) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
        let handler = Stuck { gate: Arc::clone(&gate), broken: Arc::clone(&broken) };
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
