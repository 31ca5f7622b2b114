//! Does a capture have the times at which requests arrived, and not the times at which they were
//! received? Method: the only worker is held while a second request arrives.

use forebay::time::Nanos;
use support::prelude::*;

/// The second request waits for at least this long.
const HELD: Nanos = Nanos::from_millis(300);

#[test]
fn a_capture_has_the_times_of_arrival() {
    let (server, script) = run_scripted(&[("policy", "isolated"), ("workers", "1")]);
    let client = Client::new(server.udp);
    // A capture that began late, or has ended, lacks a request.
    let is_captured = std::iter::repeat_with(|| {
        thread::scope(|scope| {
            let captured = scope.spawn(|| page(server.admin, "/capture?seconds=1"));
            thread::sleep(Nanos::from_millis(100).into());
            let (held, begin) = (script.blockers().len(), clock::now());
            client.request(0, Nanos::ZERO, &[Act::Hold as u8]);
            await_until(|| script.blockers().len() > held, "the worker is not held");
            client.request(1, Nanos::ZERO, b"-");
            let apart_most = clock::now().minus(begin);
            thread::sleep(HELD.into());
            script.release();
            (0..2).for_each(|id| assert_eq!(client.receive().header.id, id));
            let text = captured.join().expect("no panic");
            // The first line is the header. The second word of each other line is the time of
            // arrival.
            let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
            let came = lines.filter_map(|line| line.split(' ').nth(1)?.parse::<Nanos>().ok());
            let [first, second] = came.collect::<Vec<_>>()[..] else { return false };
            let apart = second.minus(first);
            // If the host delays the server, it reads two clocks at different times.
            let is_sure = apart_most.times(2) < HELD;
            assert!(!is_sure || apart < HELD, "{apart} apart, and sent within {apart_most}: {text}");
            is_sure
        })
    });
    assert!(is_captured.take(20).any(|is| is), "no capture has both requests");
}
