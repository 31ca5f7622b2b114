//! Is no request lost in a restart, if a successor takes the sockets over? Method: several binaries
//! one after another. The full size: `FOREBAY_HANDOVER=1000000 cargo test --test alone
//! handover::a_restart -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use support::prelude::*;

const PER_SECOND: u64 = 20_000;

fn requests() -> u64 {
    let size = env::var("FOREBAY_HANDOVER").map(|size| size.parse().expect("FOREBAY_HANDOVER is a number of requests"));
    size.unwrap_or(PER_SECOND)
}

/// `received` and `kernel_dropped` in the summary of a server that answered every received request.
#[track_caller]
fn all_answered(said: &str) -> (u64, u64) {
    let received = figure(said, "received");
    assert_eq!(figure(said, "answered"), received, "{said}");
    (received, figure(said, "kernel_dropped"))
}

#[test]
fn a_restart_loses_nothing() {
    let _alone = alone();
    const SUCCESSORS: u64 = 10;
    let (place, total) = (Place::new("echo"), requests());
    let first = place.start();
    assert_eq!(fs::metadata(place.path()).expect("a socket").permissions().mode() & 0o777, 0o600);
    let (udp, admin) = (first.udp, first.admin);
    let (became, (last, mut summaries)) = answered_while(PER_SECOND, total, udp, |wait_for| {
        let (mut runs, mut summaries) = (first, Vec::new());
        for number in 1..=SUCCESSORS {
            wait_for(total * number / (SUCCESSORS + 2));
            let successor = place.start();
            assert_eq!((successor.udp, successor.admin, ready(admin).0), (udp, admin, 200));
            summaries.push(std::mem::replace(&mut runs, successor).ends_well());
        }
        let received = || fates(&latency(admin)).received;
        await_until(|| received() > 0, "the last one serves nothing");
        (runs, summaries)
    });
    summaries.push(last.stop());
    let (received, dropped): (Vec<u64>, Vec<u64>) = summaries.iter().map(|said| all_answered(said)).unzip();
    println!("{became:?}, received {received:?}, dropped {dropped:?}");
    assert_eq!((received.iter().sum::<u64>(), dropped.iter().sum::<u64>()), (became.sent, 0), "{received:?}");
    assert!(received.iter().all(|received| *received > 0), "each served: {received:?}");
    assert!(!place.path().exists(), "the last one removes the socket");
}

// Is each drop counted by exactly one of both servers? Sockets overflow before, during and after
// the hand-over. The number sent must be the sum of both servers' received and dropped datagrams.
#[test]
fn drops_are_counted_by_one_of_both() {
    let _alone = alone();
    let mut place = Place::new("spin");
    // Under this policy the surplus waits in sockets, so none is shed from a full queue.
    place.flags.push(("--policy", "steal".to_owned()));
    let first = place.start();
    let (client, admin) = (Client::new(first.udp), first.admin);
    let sent = Cell::new(0);
    // Twice the capacity of a socket. On a busy host a server keeps up with less, while this thread
    // checks whether it is enough.
    let flood = |enough: &mut dyn FnMut() -> bool| {
        let give_up = clock::now().plus(GIVE_UP_AFTER.times(2));
        while !enough() {
            assert!(clock::now() < give_up, "no socket overflows");
            (0..16_000).for_each(|_| client.request(0, Nanos::from_micros(50), b""));
            sent.set(sent.get() + 16_000);
        }
    };
    let dropped = || fates(&latency(admin)).kernel_dropped.expect("the kernel tells");
    flood(&mut || dropped() > 0);
    thread::scope(|scope| {
        let starting = scope.spawn(|| place.start());
        flood(&mut || starting.is_finished());
        let said = first.ends_well();
        let second = starting.join().expect("it serves");
        let before = dropped();
        flood(&mut || dropped() > before);
        let counts = [all_answered(&said), all_answered(&second.stop())];
        let sum: u64 = counts.iter().map(|(received, dropped)| received + dropped).sum();
        assert_eq!(sum, sent.get(), "{counts:?}");
        assert!(counts.iter().all(|(_, dropped)| *dropped > 0), "{counts:?}");
    });
}

// Are all addresses handed over, with the requests that wait at each, while both workers of the
// predecessor are busy?
#[test]
fn all_addresses_are_handed_over() {
    let _alone = alone();
    let mut place = Place::new("spin");
    place.flags[0].1 = format!("{},127.0.0.2:0,[::1]:0", listen());
    place.flags.extend([("--policy", "isolated".to_owned()), ("--cost-cap", "10s".to_owned())]);
    let first = place.start();
    let addresses = first.addresses.clone();
    assert_eq!(addresses.len(), 3);
    let owned = |worker: usize| {
        let client = || (0..).map(|_| Client::new(addresses[0])).find(|client| client.owner() == worker);
        client().expect("flows are spread")
    };
    let busy = [0, 1].map(owned);
    let before = fates(&latency(first.admin)).received;
    busy.iter().for_each(|client| client.request(1, Nanos::from_millis(600), b""));
    await_until(|| fates(&latency(first.admin)).received == before + 2, "they were not received");
    let waiting: Vec<Client> = (0..24).map(|number| Client::new(addresses[number % 3])).collect();
    waiting.iter().for_each(|client| client.request(2, Nanos::ZERO, b""));
    let second = place.start();
    assert_eq!(second.addresses, addresses);
    assert_eq!(all_answered(&first.ends_well()), (before + 2, 0), "what waited is the successor's");
    for client in &waiting {
        assert_eq!(client.receive().header.id, 2);
    }
    addresses.iter().for_each(|address| assert_eq!(status_at(*address), Status::Ok, "{address}"));
    assert_eq!(all_answered(&second.stop()), (27, 0));
}
