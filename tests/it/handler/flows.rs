//! Are the requests of one flow served one at a time, in the order of their admission, however each
//! ends? Does a busy flow leave workers to other requests? Method: a handler records when it runs a
//! request.

use forebay::inside::sched::bounds::SET_ASIDE_OF_SHARD;
use support::prelude::*;
use tokio::sync::oneshot;

/// More time than a busy machine needs to receive a request.
const DEADLINE: Nanos = Nanos::from_millis(500);

/// A request has three bytes: the letter of its flow ('-' is none), its action, and its number as a
/// letter.
#[derive(Clone, Default)]
struct Ordered {
    /// The requests that have begun, in order.
    begun: Arc<Mutex<Vec<[u8; 3]>>>,
    /// The flows with a request in the handler; '!' if there were two of one flow at once.
    inside: Arc<Mutex<Vec<u8>>>,
    /// Releases the held request.
    held: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

impl Handler for Ordered {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let [flow, what, _] = arrival.bytes() else { return Err(Rejected::Ignored) };
        let admitted = Admitted::new(());
        let admitted = if *flow == b'-' { admitted } else { admitted.flow((*flow).into()) };
        // The request is set aside longer than this.
        Ok(if *what == b'e' { admitted.deadline(DEADLINE) } else { admitted })
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let sent: [u8; 3] = request.bytes().try_into().expect("its length was checked");
        let _inside = Inside::new(&self.inside, sent[0]);
        self.begun.lock().expect("no panic").push(sent);
        match sent[1] {
            b'h' => {
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

/// Marks a request as in the handler until it is dropped.
struct Inside<'a>(&'a Mutex<Vec<u8>>, u8);

impl Inside<'_> {
    fn new(inside: &Mutex<Vec<u8>>, flow: u8) -> Inside<'_> {
        let mut flows = inside.lock().expect("no panic");
        let is_second = flow != b'-' && flows.contains(&flow);
        // If the handler panicked, the panic would be caught, and no lock is poisoned here.
        flows.extend(is_second.then_some(b'!').into_iter().chain([flow]));
        Inside(inside, flow)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut flows = self.0.lock().expect("no panic");
        let place = flows.iter().position(|flow| *flow == self.1).expect("it was inside");
        flows.remove(place);
    }
}

impl Ordered {
    fn start(policy: &str, settings: &[(&str, &str)]) -> (Ordered, Running, UdpSocket) {
        let handler = Ordered::default();
        let server = Running::start(&[&sized(policy, 4), settings].concat(), handler.clone());
        let socket = client(&server);
        (handler, server, socket)
    }

    /// Sends a request that the handler holds, and waits until it is held.
    fn hold(&self, socket: &UdpSocket, request: &[u8; 3]) {
        *self.held.lock().expect("no panic") = None;
        socket.send(request).expect("the server's port is open");
        await_until(|| self.held.lock().expect("no panic").is_some(), "the request did not begin");
    }

    fn assert_alone(&self, policy: &str) {
        let inside = self.inside.lock().expect("no panic").clone();
        assert!(inside.is_empty(), "{policy}: two at once, or one that stayed: {inside:?}");
    }
}

/// Sends `requests` one by one. Each is sent after the one before it has been set aside.
fn send_aside(server: &Running, socket: &UdpSocket, requests: &[&[u8; 3]]) {
    for (number, request) in requests.iter().enumerate() {
        socket.send(*request).expect("the server's port is open");
        let set_aside = || metric(&server.metrics(), "forebay_queue_depth{queue=\"flows\"}");
        await_until(|| set_aside() == (number + 1) as f64, "the request was not set aside");
    }
}

// Does the next request begin in order, however the one before it ends? Are other requests served,
// and is a request shed if too many wait?
#[test]
fn a_flow_goes_on_whatever_becomes_of_its_requests() {
    for policy in policies() {
        let (handler, server, socket) = Ordered::start(policy, &[]);
        handler.hold(&socket, b"ahA");
        let differently = [b"apB", b"acC", b"afD", b"aoE", b"anF", b"aeG", b"amH", b"alI"];
        let alike = SET_ASIDE_OF_SHARD - differently.len();
        send_aside(&server, &socket, &[&differently[..], &vec![b"a?K"; alike]].concat());
        let full = char::from(Status::ShedQueueFull as u8);
        for (asked, answer) in [("a?Z", format!("{full}?Z")), ("b?A", "b?A".to_owned()), ("-?A", "-?A".to_owned())] {
            assert_eq!(ask(&server, asked), answer, "{policy}");
        }
        let expired_at = clock::now().plus(DEADLINE);
        await_until(|| clock::now() >= expired_at, "time stands still");
        let _ = handler.held.lock().expect("no panic").take().expect("it is held").send(());
        let alike = alike as u64;
        let expected = fates! { received: 12 + alike, answered: 6 + alike, no_reply: 1, failed: 2, stalled: 1, shed_queue_full: 1, shed_expired: 1 };
        assert_eq!(server.quiescent(12 + alike), expected, "{policy}");
        assert_eq!(ask(&server, "asJ"), "asJ", "{policy}: the flow is free again");
        let mut begun = handler.begun.lock().expect("no panic").clone();
        begun.retain(|sent| sent[0] == b'a' && sent[2] != b'K');
        assert_eq!(begun.concat(), b"ahAapBacCafDaoEanFamHalIasJ", "{policy}");
        handler.assert_alone(policy);
    }
}

#[test]
fn flows_do_not_mix_under_load() {
    const FLOWS: u8 = 6;
    const REQUESTS: usize = 300;
    const UNDER_WAY: usize = 4;
    for policy in ["steal", "pools", "levels", "auto"] {
        let (handler, server, _) = Ordered::start(policy, &[]);
        thread::scope(|scope| {
            for flow in (0..FLOWS).map(|flow| b'a' + flow) {
                let socket = client(&server);
                scope.spawn(move || {
                    let hear = || assert_eq!(receive(&socket).as_bytes()[0], flow);
                    for number in 0..REQUESTS {
                        let what = b"?cfos"[number % 5];
                        socket.send(&[flow, what, b'A']).expect("the server's port is open");
                        // One is served, and there is room for the others.
                        if number >= UNDER_WAY {
                            hear();
                        }
                    }
                    (0..UNDER_WAY).for_each(|_| hear());
                });
            }
        });
        handler.assert_alone(policy);
        let all = u64::from(FLOWS) * REQUESTS as u64;
        server.ends_as(fates! { received: all, answered: all }, policy);
    }
}
