//! Does a handler's own reason to reject show by its name, on `/metrics`, on `/latency` and in the
//! program, as a part of a fate? Method: a handler rejects as each request says, behind real
//! sockets; the pages are scraped.

use forebay::fate::{REASONS, Refused, Status};
use forebay::handler::GiveUp;
use support::prelude::*;

/// The first byte says how to reject, and the second one is the number of the reason (2 has no
/// name); `-` is none. Other requests are echoed.
struct Reasons;

impl Handler for Reasons {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["opcode", "network"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let admitted = Admitted::new(());
        let rejected = match arrival.bytes()[0] {
            b'm' => Rejected::Malformed(Malformed::Version),
            b'r' => Rejected::Refused(admitted, Refused::UnknownClass),
            b'o' => Rejected::OverRate(admitted),
            b'i' => Rejected::Ignored,
            _ => return Ok(admitted),
        };
        match arrival.bytes()[1] {
            b'-' => Err(rejected),
            // If there are several reasons, the last one counts.
            digit => Err(rejected.because(1).because(digit - b'0')),
        }
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        reply.put(request.bytes()).expect("as long");
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        assert_eq!(request.bytes().len(), 2);
        reply.put(&[unserved.status as u8]).expect("shorter");
    }
}

// Does each reason count once, under its fate and its name? Is a client whose request is rejected
// for a reason answered as without one?
#[test]
fn rejections_show_by_the_handlers_names() {
    let server = Running::on(bound(&[("workers", "2")]), Reasons);
    let silent = client(&server);
    for question in ["m0", "m0", "m1", "m2", "m-", "i1", "i2", "i-"] {
        silent.send(question.as_bytes()).expect("the server's port is open");
    }
    for (question, answer) in [("r0", 1), ("r2", 1), ("r-", 1), ("o1", 4), ("o1", 4), ("o-", 4)] {
        assert_eq!(ask(&server, question).as_bytes(), [answer], "{question}");
    }
    assert_eq!(ask(&server, "hello"), "hello");
    let expected = fates! { received: 15, malformed: 5, ignored: 3, refused: 3, shed_rate: 3, answered: 1 };
    assert_eq!(server.quiescent(15), expected);

    for (fate, opcode, network, rest) in [
        ("malformed", 2.0, 1.0, ("version", 1.0)),
        ("malformed", 2.0, 1.0, ("other", 1.0)),
        ("refused", 1.0, 0.0, ("unknown_class", 1.0)),
        ("refused", 1.0, 0.0, ("other", 1.0)),
        ("shed_rate", 0.0, 2.0, ("", 1.0)),
        ("ignored", 0.0, 1.0, ("", 2.0)),
    ] {
        assert_eq!(["opcode", "network", rest.0].map(|reason| server.count(fate, reason)), [opcode, network, rest.1]);
    }
    let body = latency(server.admin);
    let own = &body["own_reasons"];
    assert_eq!([&own["malformed"]["opcode"], &own["refused"]["opcode"], &own["shed_rate"]["network"]], [2, 1, 2]);
    assert_eq!(body["malformed_by_reason"]["version"], 1, "the server's reasons alone");
    assert_eq!(fates(&body), expected);

    let totals = server.stop().totals;
    assert_eq!(totals.fates, expected);
    let ignored: Vec<_> = totals.own_reasons(Fate::Ignored).collect();
    assert_eq!(ignored, [("opcode", 0), ("network", 1)]);
    assert_eq!(totals.own_reasons(Fate::Answered).count(), 0);
}

struct Talkative;

impl Handler for Talkative {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["x"; REASONS + 1];

    async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {}
}

#[test]
fn bad_names_are_said_before_anything_is_served() {
    let server = bound(&[("admin", "off"), ("workers", "1")]);
    // If a server nevertheless runs, it ends at once.
    server.stop_handle().stop();
    let error = server.run(&Talkative).expect_err("a name occurs twice").to_string();
    assert_eq!(error, "REASON_NAMES: \"x\": not allowed; allowed: each name once");
}

/// Gives a request up as its first byte says, for the reason with the number of the second byte.
struct GivesUp;

impl Handler for GivesUp {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["user", "upstream"];

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        reply.put(b"hi").expect("as long");
        checkpoint().await;
        let end = match request.bytes()[0] {
            b'r' => GiveUp::Refused,
            b'q' => GiveUp::Full,
            b'f' => GiveUp::Failed,
            _ => return,
        };
        reply.give_up(end, request.bytes()[1] - b'0');
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8]).expect("shorter");
    }
}

// If a handler gives a request up, does it end for the handler's reason, and is the client answered
// as after a refusal? Do fates list only reasons that they have?
#[test]
fn what_is_given_up_ends_for_the_handlers_reason() {
    let server = Running::on(bound(&[("workers", "2")]), GivesUp);
    for (question, status) in [
        ("r0", Status::Refused),
        ("q1", Status::ShedQueueFull),
        ("f1", Status::Failed),
        ("f1", Status::Failed),
        ("f2", Status::Failed),
    ] {
        assert_eq!(ask(&server, question).as_bytes(), [status as u8], "{question}");
    }
    assert_eq!(ask(&server, "ok"), "hi");
    let expected = fates! { received: 6, refused: 1, shed_queue_full: 1, failed: 3, answered: 1 };
    assert_eq!(server.quiescent(6), expected);
    for (fate, reason, count) in [
        ("refused", "user", 1.0),
        ("refused", "upstream", 0.0),
        ("shed_queue_full", "upstream", 1.0),
        ("failed", "upstream", 2.0),
        ("failed", "given_up", 1.0),
    ] {
        assert_eq!(server.count(fate, reason), count, "{fate} {reason}");
    }
    let totals = server.stop().totals;
    let own = |fate| totals.own_reasons(fate).collect::<Vec<_>>();
    assert_eq!(own(Fate::Failed), [("upstream", 2)]);
    assert_eq!(own(Fate::ShedQueueFull), [("upstream", 1)]);
}
