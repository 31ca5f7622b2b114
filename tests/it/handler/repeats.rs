//! Is a request that has an identity served only once, however often it comes and to whichever
//! worker?

use forebay::handler::{Once, handler_fn};
use support::prelude::*;

/// A request that a client may send again with the same number.
fn repeatable(id: u64) -> Vec<u8> {
    message(&Header { kind: Kind::Repeatable, ..Header::request(id, 0, Nanos::ZERO) }, &[Act::Hold as u8])
}

// Method: the first copy holds one worker, and other workers receive the repeats. Another source
// may use the same number. A request without an identity is served each time.
#[test]
fn a_repeat_of_what_is_in_the_server_is_dropped() {
    at_once(policies().filter(|policy| *policy != "isolated"), |policy| {
        let (server, script) = run_scripted(&sized(policy, 4));
        let [client, other] = [(); 2].map(|()| Client::new(server.udp));
        let held = |times| await_until(|| script.blockers().len() == times, &format!("{policy}: {times} are not held"));
        client.send(&repeatable(7));
        held(1);
        (0..10).for_each(|_| client.send(&repeatable(7)));
        await_until(|| server.count("duplicate", "") == 10.0, &format!("{policy}: a repeat is served"));
        other.send(&repeatable(7));
        held(2);
        script.release();
        assert_eq!([&client, &other].map(|client| client.receive().header.id), [7; 2]);
        // The first request has ended, so the same number is served again.
        client.send(&repeatable(7));
        held(3);
        script.release();
        client.receive();
        (0..3).for_each(|_| client.request(7, Nanos::ZERO, b""));
        (0..3).for_each(|_| assert_eq!(client.receive().header.status, Status::Ok));
        server.ends_as(fates! { received: 16, answered: 6, duplicate: 10 }, policy);
    });
}

// Is an answer sent again while it is kept, only to its own client, and computed again afterwards?
// An answer that is too long to be kept is computed each time.
#[test]
fn a_repeat_after_the_end_is_answered_from_memory() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let handler = handler_fn(move |request: Request<'_>, reply: &mut Reply<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        echo(request, reply);
    });
    let kept_for = Nanos::from_secs(1);
    let server = Running::on(bound(&[("workers", "2")]), Once::new(handler).keeping(64, kept_for));
    let [client, other] = [(); 2].map(|()| client(&server));
    let made_for = |socket, question: &str, times| {
        let before = made.load(Ordering::SeqCst);
        (0..times).for_each(|_| assert_eq!(ask_from(socket, question), question));
        made.load(Ordering::SeqCst) - before
    };
    let begin = clock::now();
    let first = made_for(&client, "a", 10);
    assert!(first == 1 || clock::now().minus(begin) > kept_for, "made {first} times");
    assert_eq!(made_for(&other, "a", 1), 1, "of another source");
    assert_eq!(made_for(&client, "b", 1), 1, "other bytes");
    assert_eq!(made_for(&client, &"c".repeat(1_300), 3), 3, "too long to be kept");
    thread::sleep(kept_for.into());
    assert_eq!(made_for(&client, "a", 1), 1, "no longer kept");
    server.ends_as(fates! { received: 16, answered: 16 }, "");
}
