//! Does work aside (on a helper thread) block neither a worker nor a shard, and does its result
//! come back?

use forebay::handler::aside;
use forebay::{Event, Out, Service};
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

/// 'w' and 'p' begin work aside. Any other request is answered with the results so far.
struct Apart(Waits);

impl Service for Apart {
    type Ticket = ();
    type Shard = Vec<u8>;
    type Message = u8;

    const SHARDS: usize = 1;

    fn shard(&self, _: usize) -> Vec<u8> {
        Vec::new()
    }

    async fn handle(&self, made: &mut Vec<u8>, event: Event<'_, (), u8>, out: &mut Out<'_, u8>) {
        match event {
            Event::Datagram(request) => match request.bytes()[0] {
                b'w' => {
                    let waits = self.0.clone();
                    assert!(out.aside(move || waits.work()).is_ok(), "there is room");
                }
                b'p' => assert!(out.aside(|| -> u8 { std::panic::resume_unwind(Box::new(())) }).is_ok()),
                _ => {
                    let _ = out.reply().put(b"=");
                    let _ = out.reply().put(made);
                }
            },
            Event::Message(result) => made.push(result),
            Event::Panicked => made.push(b'!'),
            _ => {}
        }
    }
}

#[test]
fn a_shard_serves_others_while_its_work_is_aside() {
    let (release, held) = channel();
    let waits = Waits(Arc::new((AtomicBool::new(false), Mutex::new(held))));
    let began = Arc::clone(&waits.0);
    let server = Running::on(bound(&[("policy", "levels"), ("workers", "1")]), Apart(waits));
    let client = client(&server);
    client.send(b"w...").expect("the server's port is open");
    await_until(|| began.0.load(Ordering::SeqCst), "a helper begins");
    assert_eq!(ask_from(&client, "o..."), "=");
    release.send(b'7').expect("the work waits");
    await_until(|| ask_from(&client, "o...") == "=7", "the result comes");
    client.send(b"p...").expect("the server's port is open");
    await_until(|| ask_from(&client, "o...") == "=7!", "the panic comes");
    let fates = server.stop().totals.fates;
    assert_eq!((fates.answered + fates.no_reply, fates.no_reply), (fates.received, 4), "two begin, two come back");
}
