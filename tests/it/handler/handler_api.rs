//! Does a handler get what its documentation promises? Closures and wrappers are handlers, and a
//! refusal still has the request. Datagrams and replies may have any length, within the bound
//! against amplification.

use forebay::handler::Served;
use forebay::server::{Counter, Gauge};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::prelude::*;

#[test]
fn a_closure_serves() {
    let reversed = |request: Request<'_>, reply: &mut Reply<'_>| {
        assert_ne!(request.bytes(), b"panic");
        request.bytes().iter().rev().for_each(|byte| reply.put(&[*byte]).expect("as long as the request"));
    };
    let server = Running::start(&[("workers", "2")], handler_fn(reversed));
    assert_eq!(ask(&server, "forebay"), "yaberof");
    // A closure that panics sends no answer, because it cannot write a refusal.
    client(&server).send(b"panic").expect("sent");
    assert_eq!(ask(&server, "again"), "niaga");
    server.ends_as(fates! { received: 3, answered: 2, failed: 1 }, "a closure");
}

/// Answers with the known facts about the request, after a checkpoint. The payloads "refuse",
/// "rate", "ignore", "mute", "panic" and "later" make it do that instead.
struct Informed;

/// A ticket of the handler's own.
#[derive(Clone, Copy, Default)]
struct Length(usize);

impl Handler for Informed {
    type Ticket = Length;

    const CLASS_NAMES: [&'static str; 8] = ["none", "informed", "c", "d", "e", "f", "g", "h"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Length>, Rejected<Length>> {
        let admitted = Admitted::new(Length(arrival.bytes().len())).class(1).deadline(Nanos::from_secs(30));
        assert!(arrival.time_of_arrival() <= now());
        match arrival.bytes() {
            b"refuse" => Err(Rejected::Refused(admitted, forebay::fate::Refused::Other)),
            b"rate" => Err(Rejected::OverRate(admitted)),
            b"ignore" => Err(Rejected::Ignored),
            _ => Ok(admitted),
        }
    }

    async fn handle(&self, request: Request<'_, Length>, reply: &mut Reply<'_>) {
        match request.bytes() {
            b"mute" => return,
            b"panic" => std::panic::resume_unwind(Box::new(())),
            b"later" => {
                checkpoint().await;
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let age = now().duration_since(request.time_of_arrival()).expect("it has come");
        assert!(age < Duration::from_secs(20) && clock::at(request.arrived_at()) <= clock::now());
        let left = clock::at(request.expires_at().expect("a deadline")).minus(clock::now());
        assert!(left > Nanos::from_secs(5) && left <= Nanos::from_secs(30));
        assert_eq!((request.class(), request.ticket().0), (1, request.bytes().len()));
        assert!(request.worker() < 2);
        reply.put(request.local().to_string().as_bytes()).expect("the question is long");
    }

    fn refuse(&self, request: Request<'_, Length>, unserved: Unserved, reply: &mut Reply<'_>) {
        assert_eq!(request.ticket().0, request.bytes().len());
        // One byte shorter than the request, in reverse.
        reply.put(&[unserved.status as u8]).expect("a byte");
        request.bytes().iter().rev().skip(2).for_each(|byte| reply.put(&[*byte]).expect("it is shorter"));
    }

    fn seal(&self, request: Request<'_, Length>, _: &Served, reply: &mut [u8]) {
        assert_eq!(request.ticket().0, request.bytes().len());
        reply[0] = b'#';
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + clock::realtime().into()
}

#[test]
fn names_and_metrics_are_the_handlers_own() {
    let (lookups, entries) = (Counter::default(), Gauge::default());
    lookups.add(7);
    entries.set(2.0);
    entries.add(0.5);
    let bind = || bound(&[("workers", "1")]);
    let server = bind().counter("lookups", "Names looked up", &lookups);
    let server = server.and_then(|server| server.gauge("cache_entries", "Entries", &entries)).expect("fine names");
    let server = Running::on(server, Informed);
    ask(&server, "where do you listen, please?");
    // A reply is counted once it is sent.
    server.quiescent(1);
    let text = server.metrics();
    assert_eq!((metric(&text, "lookups_total"), metric(&text, "cache_entries")), (7.0, 2.5));
    assert_eq!(metric(&text, "forebay_latency_seconds_count{stage=\"total\",class=\"informed\"}"), 1.0);
    assert_eq!(latency(server.admin)["since_start"]["total"]["informed"]["count"], 1);
    lookups.add(1);
    entries.add(-1.5);
    let text = server.metrics();
    assert_eq!((metric(&text, "lookups_total"), metric(&text, "cache_entries")), (8.0, 1.0), "each scrape reads anew");
    assert_eq!((lookups.value(), entries.value()), (8, 1.0));
    for name in ["", "9lives", "a-b", "forebay_x", "process_x", "x_total"] {
        let error = bind().gauge(name, "", &entries).expect_err("a bad name").to_string();
        assert!(error.contains(&format!("metric: {name:?}")) && error.contains("allowed: "), "{error}");
    }
    let twice = bind().gauge("x", "", &entries).and_then(|server| server.counter("x", "", &lookups));
    assert!(twice.expect_err("one name").to_string().contains("each name once"));
}

// Are address, times, deadline, class and ticket known to the end of a request, also in a refusal?
#[test]
fn a_request_is_known_to_its_end() {
    for policy in ["steal", "levels"] {
        let settings = [("policy", policy), ("workers", "2")];
        let server = Running::on(bound(&settings), Informed);
        let local = server.udp.to_string();
        assert_eq!(ask(&server, "where do you listen, please?"), format!("#{}", &local[1..]));
        for (question, status) in [
            ("refuse", Status::Refused),
            ("rate", Status::ShedRate),
            ("panic", Status::Failed),
            ("later", Status::Stalled),
        ] {
            let rest: String = question.chars().rev().skip(2).collect();
            assert_eq!(ask(&server, question), format!("{}{rest}", char::from(status as u8)), "{question}");
        }
        let silent = client(&server);
        ["mute", "ignore"].iter().for_each(|question| assert!(silent.send(question.as_bytes()).is_ok()));
        let (received, stalled) = (7, 1);
        server.ends_as(
            fates! { received, answered: 1, refused: 1, shed_rate: 1, failed: 1, stalled, no_reply: 1, ignored: 1 },
            policy,
        );
    }
}

/// Allows replies of 600 bytes. A request that begins with p has a validated address. The reply is
/// full; with a w it is too long. The second letter makes the request refused (r), over its rate
/// (o), or without a limit (l). A refusal is as long as permitted.
struct Long;

const LONG: usize = 600;

impl Handler for Long {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let admitted = Admitted::new(()).reply_limit(LONG).validated(arrival.bytes()[0] == b'p');
        match arrival.bytes()[1] {
            b'r' => Err(Rejected::Refused(admitted, forebay::fate::Refused::Other)),
            b'o' => Err(Rejected::OverRate(admitted)),
            b'l' => Ok(admitted.reply_limit(usize::MAX)),
            _ => Ok(admitted),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let length = if request.bytes()[0] == b'w' { LONG } else { reply.room() };
        let _ = reply.put(&vec![b'.'; length]);
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        assert!(matches!(unserved.status, Status::ShedRate | Status::Refused));
        let _ = reply.put(&vec![b'!'; reply.room()]);
    }
}

/// The length of the reply to `question`, which is padded to 40 bytes.
fn length(socket: &UdpSocket, question: &str) -> usize {
    socket.send(format!("{question:40}").as_bytes()).expect("the server's port is open");
    socket.recv(&mut [0; 10_000]).expect("an answer")
}

// A forged source gets at most as many bytes as it sent, unless its address is validated or in a
// trusted network. Is the handler told if a reply does not fit?
#[test]
fn a_forged_source_is_sent_no_more_than_it_sent() {
    let all = [("a", 40), ("w", 40), ("ar", 40), ("ao", 40), ("wo", 40), ("p", LONG), ("pr", LONG), ("po", LONG)];
    let unlimited = [("pl", DATAGRAM_MAX_BYTES)];
    let tenfold = [("a", 400), ("p", LONG), ("ar", 40), ("ao", 40), ("pr", LONG)];
    for (key, value, expected) in [
        ("amplification", "1", &[&all[..], &unlimited].concat()[..]),
        ("amplification", "10", &tenfold),
        ("trusted-networks", "10.0.0.0/8,127.0.0.0/8", &[("a", LONG)]),
        ("trusted-networks", "10.0.0.0/8,127.0.0.0/32", &[("a", 40)]),
        ("trusted-networks", "none", &[("a", 40)]),
    ] {
        let server = Running::start(&[("workers", "2"), (key, value)], Long);
        let socket = client(&server);
        for (question, longest) in expected {
            assert_eq!(length(&socket, question), *longest, "{key} {value}: {question}");
        }
        let over = expected.iter().filter(|(question, _)| question.contains(['w', 'o'])).count() as u64;
        assert_eq!(server.quiescent(expected.len() as u64).shed_rate, over, "{key} {value}");
    }
}

#[test]
fn datagrams_are_as_long_as_the_setting_says() {
    for io in ["batches", "gro"] {
        for (setting, allowed) in [("65507", 65_507), ("512", 512)] {
            let server = Running::start(&[("workers", "1"), ("io", io), ("datagram-max", setting)], handler_fn(echo));
            let socket = client(&server);
            if allowed < 65_507 {
                socket.send(&vec![7; allowed + 1]).expect("sent");
            }
            socket.send(&vec![7; allowed]).expect("sent");
            let mut reply = vec![0; 1 << 16];
            let length = socket.recv(&mut reply).expect("an answer");
            assert!(length == allowed && reply[..length].iter().all(|byte| *byte == 7), "{io}: {length} bytes");
            let malformed = u64::from(allowed < 65_507);
            server.ends_as(fates! { received: 1 + malformed, answered: 1, malformed }, io);
        }
    }
}

// After the last pause of a request, its remaining time may be without checkpoints. The cost is far
// above the bound, because a busy host may stop the worker just then.
#[test]
fn time_with_checkpoints_is_interruptible() {
    for policy in ["steal", "levels"] {
        let (server, _) = run_scripted(&sized(policy, 4));
        let interruptible = |act: Act, sent: u64| {
            Client::new(server.udp).ask(&Header::request(1, 0, Nanos::from_millis(200)), &[act as u8]);
            server.quiescent(sent);
            metric(&server.metrics(), "forebay_interruptible_seconds_total")
        };
        assert_eq!(interruptible(Act::Block, 1), 0.0, "{policy}");
        let seconds = interruptible(Act::Step, 2);
        assert!(seconds >= 0.001, "{policy}: {seconds}");
    }
}

/// Names the class of a request by its second byte; 'p' panics then, 's' stalls, and 'w' waits
/// before.
struct Late;

impl Handler for Late {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        if request.bytes()[0] == b'w' {
            sleep(Nanos::from_millis(1)).await;
        }
        reply.set_class(request.bytes()[1] - b'0');
        match request.bytes()[0] {
            b'p' => std::panic::resume_unwind(Box::new(())),
            b's' => std::future::pending().await,
            _ => reply.put(&[request.class()]).expect("there is room"),
        }
    }

    fn refuse(&self, request: Request<'_>, _: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[b'0' + request.class()]).expect("there is room");
    }
}

// Does a request count in the class that its handler names, however it ends, also after a wait?
#[test]
fn a_class_may_be_known_late() {
    let server = Running::start(&[("workers", "2")], Late);
    for (question, answer) in [("a2", "\0"), ("w2", "\0"), ("a3", "\0"), ("p5", "5"), ("s6", "6")] {
        assert_eq!(ask(&server, question), answer, "{question}");
    }
    let latency = latency(server.admin)["since_start"]["total"].clone();
    let counts = ["short", "class2", "class3"].map(|class| latency[class]["count"].as_u64().unwrap_or(0));
    assert_eq!(counts, [0, 2, 1], "{latency}");
    server.ends_as(fates! { received: 5, answered: 3, failed: 1, stalled: 1 }, "late");
}
