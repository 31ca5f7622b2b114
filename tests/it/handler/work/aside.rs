//! Does work aside (on a helper thread) block neither a worker nor a shard, and does its result
//! come back?

use super::Begins;
use forebay::Out;
use forebay::handler::aside;
use std::sync::mpsc::{Receiver, channel};
use support::prelude::*;

/// Work that waits until the test ends it, and a sender that tells when it has begun.
#[derive(Clone)]
struct Waits(Arc<(AtomicBool, Mutex<Receiver<u8>>)>);

impl Waits {
    fn work(&self) -> u8 {
        let Waits(shared) = self;
        shared.0.store(true, Ordering::SeqCst);
        let held = shared.1.lock().expect("no panic");
        held.recv_timeout(GIVE_UP_AFTER.into()).expect("the test lets it end")
    }
}

/// The work of 'w' and 'p' is done aside; any other request is answered at once.
struct Aside(Waits);

impl Handler for Aside {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let (kind, waits) = (request.bytes()[0], self.0.clone());
        let made = match kind {
            b'w' => aside(move || waits.work()).await.expect("there is room"),
            b'p' => aside(|| std::panic::resume_unwind(Box::new(()))).await.expect("there is room"),
            _ => kind,
        };
        reply.put(&[made]).expect("there is room");
    }
}

// Does the only worker serve other requests during the work aside of a request? Does a panic there
// end the request?
#[test]
fn a_request_whose_work_is_aside_keeps_no_worker() {
    let (release, held) = channel();
    let waits = Waits(Arc::new((AtomicBool::new(false), Mutex::new(held))));
    let began = Arc::clone(&waits.0);
    let server = Running::on(bound(&[("policy", "levels"), ("workers", "1")]), Aside(waits));
    let [slow, other] = [(); 2].map(|()| client(&server));
    slow.send(b"w").expect("the server's port is open");
    await_until(|| began.0.load(Ordering::SeqCst), "a helper begins");
    assert_eq!(ask_from(&other, "o"), "o");
    other.send(b"p").expect("the server's port is open");
    assert_eq!(ask_from(&other, "o"), "o");
    release.send(b'7').expect("the work waits");
    assert_eq!(receive_bytes(&slow), b"7");
    server.ends_as(fates! { received: 4, answered: 3, failed: 1 }, "levels");
}

/// Begins work aside for 'w' and 'p'.
fn begin(waits: &Waits, kind: u8, out: &Out<'_, u8>) -> Option<bool> {
    let waits = waits.clone();
    match kind {
        b'w' => Some(out.aside(move || waits.work()).is_ok()),
        b'p' => Some(out.aside(|| -> u8 { std::panic::resume_unwind(Box::new(())) }).is_ok()),
        _ => None,
    }
}

#[test]
fn a_shard_serves_others_while_its_work_is_aside() {
    let (release, held) = channel();
    let waits = Waits(Arc::new((AtomicBool::new(false), Mutex::new(held))));
    let began = Arc::clone(&waits.0);
    let service = Begins(move |kind: u8, out: &Out<'_, u8>| begin(&waits, kind, out));
    let server = Running::on(bound(&[("policy", "levels"), ("workers", "1")]), service);
    let client = client(&server);
    client.send(b"w...").expect("the server's port is open");
    await_until(|| began.0.load(Ordering::SeqCst), "a helper begins");
    assert_eq!(ask_from(&client, "o..."), "=");
    release.send(b'7').expect("the work waits");
    await_until(|| ask_from(&client, "o...") == "=7", "the result comes");
    client.send(b"p...").expect("the server's port is open");
    await_until(|| ask_from(&client, "o...") == "=7!", "the panic comes");
    let fates = server.stop().totals.fates;
    assert_eq!((fates.no_reply, fates.handled), (2, 2), "two begin, two come back");
    assert_eq!(fates.received, fates.answered + 4);
}
