//! Are the requests of one flow served one at a time, in the order of their admission, whatever becomes of each? Does a
//! busy flow keep no worker from others?
//! Method: a handler notes when it is in a request. Flows that are held busy, and flows in a hurry, ask over real
//! sockets. Replies, fates and the depth of the queue are compared.

use crate::support::prelude::*;
use forebay::handler::sleep;
use forebay::sched::bounds::SET_ASIDE_OF_FLOW;
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::sync::oneshot;

/// Longer than a busy machine needs to receive a request.
const DEADLINE: Nanos = Nanos::from_millis(500);

/// A request is the letter of its flow ('-' is none), what it does, and its number as a letter.
#[derive(Clone, Default)]
struct Ordered {
    /// The requests that have begun, as they were sent.
    begun: Arc<Mutex<Vec<[u8; 3]>>>,
    /// The flows of which a request is in the handler.
    inside: Arc<Mutex<Vec<u8>>>,
    /// What requests wait for.
    held: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

impl Handler for Ordered {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let [flow, what, _] = arrival.bytes() else { return Err(Rejected::Ignored) };
        let admitted = Admitted::new(());
        let admitted = if *flow == b'-' { admitted } else { admitted.flow((*flow).into()) };
        // One that waits out its time in the handler, and one that is set aside until then.
        Ok(if matches!(what, b'd' | b'e') { admitted.deadline(DEADLINE) } else { admitted })
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let sent: [u8; 3] = request.bytes().try_into().expect("its length was checked");
        let _inside = Inside::new(&self.inside, sent[0]);
        self.begun.lock().expect("no panic").push(sent);
        match sent[1] {
            b'h' | b'd' => {
                let (sender, receiver) = oneshot::channel();
                *self.held.lock().expect("no panic") = Some(sender);
                let _ = receiver.await;
            }
            b'c' => {
                for _ in 0..5 {
                    thread::yield_now();
                    checkpoint().await;
                }
            }
            b'f' => {
                let part = fork(async { checkpoint().await });
                checkpoint().await;
                part.await;
            }
            b'o' => hop(1).await,
            b's' => sleep(Nanos::from_micros(100)).await,
            b'n' => std::future::pending().await,
            b'p' => std::panic::resume_unwind(Box::new(())),
            b'l' => _ = reply.put(b"too long"),
            b'm' => return,
            _ => {}
        }
        let _ = reply.put(&sent);
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8, request.bytes()[1], request.bytes()[2]]).expect("as long as the request");
    }
}

/// A request that is in the handler until this is dropped.
struct Inside<'a> {
    inside: &'a Mutex<Vec<u8>>,
    flow: u8,
}

impl Inside<'_> {
    fn new(inside: &Mutex<Vec<u8>>, flow: u8) -> Inside<'_> {
        let mut flows = inside.lock().expect("no panic");
        if flow != b'-' && flows.contains(&flow) {
            // A panic would be contained, and poisons nothing here.
            flows.push(b'!');
        }
        flows.push(flow);
        Inside { inside, flow }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut flows = self.inside.lock().expect("no panic");
        let place = flows.iter().position(|flow| *flow == self.flow).expect("it was inside");
        flows.remove(place);
    }
}

impl Ordered {
    fn let_go(&self) {
        await_until(|| self.held.lock().expect("no panic").is_some(), "the request did not begin");
        let held = self.held.lock().expect("no panic").take();
        let _ = held.expect("it was there").send(());
    }

    fn await_held(&self) {
        await_until(|| self.held.lock().expect("no panic").is_some(), "the request did not begin");
    }

    /// What has begun in `flow`, and done.
    fn begun(&self, flow: u8) -> Vec<[u8; 3]> {
        self.begun.lock().expect("no panic").iter().filter(|sent| sent[0] == flow).copied().collect()
    }
}

fn set_aside(server: &Running) -> f64 {
    metric(&server.metrics(), "forebay_queue_depth{queue=\"flows\"}")
}

/// Sends `requests` one by one, each once the one before it has been set aside; `before` were already.
fn send_aside(server: &Running, socket: &std::net::UdpSocket, requests: &[&[u8; 3]], before: usize) {
    for (number, request) in requests.iter().enumerate() {
        socket.send(*request).expect("the server's port is open");
        let expected = (before + number + 1) as f64;
        await_until(|| set_aside(server) == expected, "the request was not set aside");
    }
}

// Does the next request of a flow begin, in order, in whatever way the one before ends? Are other requests served
// meanwhile, and is one too many shed?
#[test]
fn a_flow_goes_on_whatever_becomes_of_its_requests() {
    for policy in policies() {
        let handler = Ordered::default();
        let server = Running::start(&sized(policy, 4), handler.clone());
        let socket = client(&server);
        socket.send(b"ahA").expect("the server's port is open");
        handler.await_held();
        let requests = [b"apB", b"acC", b"afD", b"aoE", b"anF", b"aeG", b"amH", b"alI"];
        assert_eq!(requests.len(), SET_ASIDE_OF_FLOW);
        send_aside(&server, &socket, &requests, 0);
        let full = char::from(Status::ShedQueueFull as u8).to_string();
        assert_eq!(ask(&server, "a?Z"), format!("{full}?Z"), "{policy}: no room");
        assert_eq!([ask(&server, "b?A"), ask(&server, "-?A")], ["b?A", "-?A"], "{policy}: others are served");
        let expired_at = clock::now().plus(DEADLINE);
        await_until(|| clock::now() >= expired_at, "time stands still");
        handler.let_go();
        let expected = fates! {
            received: 12,
            answered: 6,
            no_reply: 1,
            failed: 2,
            stalled: 1,
            shed_queue_full: 1,
            shed_expired: 1,
        };
        assert_eq!(server.quiescent(12), expected, "{policy}");
        assert_eq!(ask(&server, "asJ"), "asJ", "{policy}: the flow is free again");
        let begun = [b"ahA", b"apB", b"acC", b"afD", b"aoE", b"anF", b"amH", b"alI", b"asJ"];
        assert_eq!(handler.begun(b'a').iter().collect::<Vec<_>>(), begun, "{policy}");
        let inside = handler.inside.lock().expect("no panic").clone();
        assert!(inside.is_empty(), "{policy}: two at once, or one that stayed: {inside:?}");
    }
}

// Are flows in a hurry served one request at a time each, and all of them answered?
#[test]
fn flows_do_not_mix_under_load() {
    const FLOWS: u8 = 6;
    const REQUESTS: usize = 300;
    for policy in ["steal", "pools", "levels", "auto"] {
        let handler = Ordered::default();
        let mut settings = sized(policy, 4);
        settings.push(("max-wait", "off"));
        let server = Running::start(&settings, handler.clone());
        thread::scope(|scope| {
            for flow in 0..FLOWS {
                let socket = client(&server);
                scope.spawn(move || {
                    let mut answered = 0;
                    for number in 0..REQUESTS {
                        let what = [b'?', b'c', b'f', b'o', b's'][number % 5];
                        socket.send(&[b'a' + flow, what, b'A']).expect("the server's port is open");
                        // One is served, and the others have room.
                        while number + 1 - answered > SET_ASIDE_OF_FLOW / 2 {
                            assert_eq!(receive(&socket).as_bytes()[0], b'a' + flow);
                            answered += 1;
                        }
                    }
                    (answered..REQUESTS).for_each(|_| assert_eq!(receive(&socket).as_bytes()[0], b'a' + flow));
                });
            }
        });
        let inside = handler.inside.lock().expect("no panic").clone();
        assert!(inside.is_empty(), "{policy}: two at once, or one that stayed: {inside:?}");
        let all = u64::from(FLOWS) * REQUESTS as u64;
        assert_eq!(server.quiescent(all), fates! { received: all, answered: all }, "{policy}");
    }
}

// Does the deadline of the request that a flow is busy with free the flow, and does a stop account for what is set aside?
#[test]
fn a_deadline_frees_a_flow_and_a_stop_loses_nothing() {
    for policy in ["steal", "pools", "levels"] {
        let handler = Ordered::default();
        let mut settings = sized(policy, 4);
        settings.push(("drain-timeout", "100ms"));
        let server = Running::start(&settings, handler.clone());
        let socket = client(&server);
        socket.send(b"adA").expect("the server's port is open");
        handler.await_held();
        socket.send(b"a?B").expect("the server's port is open");
        let expired = char::from(Status::ShedExpired as u8).to_string();
        let mut replies = [receive(&socket), receive(&socket)];
        // They may leave from two workers.
        replies.sort();
        assert_eq!(replies, [format!("{expired}dA"), "a?B".to_owned()], "{policy}");
        *handler.held.lock().expect("no panic") = None;
        socket.send(b"ahC").expect("the server's port is open");
        handler.await_held();
        send_aside(&server, &socket, &[b"a?D", b"acE", b"a?F"], 0);
        let report = server.stop();
        let fates = report.totals.fates;
        assert_adds_up(&fates);
        assert_eq!((fates.received, fates.in_flight, report.packets_away), (6, 0, 0), "{policy}: {fates:?}");
        assert_eq!((fates.answered, fates.shed_expired, fates.shed_draining), (1, 1, 4), "{policy}: {fates:?}");
    }
}
