//! If a running server changes its policy or its sizes, is no request lost or left in an old queue?
//! Method: clients that wait for each reply continue while the policy changes, from every policy to
//! every other one.

use support::prelude::*;

/// A sequence with every policy after every other one, and after itself with other sizes, each
/// once.
fn tour() -> Vec<&'static str> {
    let all: Vec<&str> = policies().collect();
    let mut tour = Vec::new();
    for (index, first) in all.iter().enumerate() {
        tour.push(*first);
        tour.extend(all[index + 1..].iter().flat_map(|other| [*first, *other]));
    }
    tour.push(all[0]);
    tour
}

fn settings(policy: &str, turn: usize) -> String {
    let pools = ["front=1,heavy=3", "front=2,heavy=2", "front=3,heavy=1", "front=1,middle=1,heavy=2"][turn % 4];
    let slice = ["1us", "100us", "1ms"][turn % 3];
    format!(
        "policy = \"{policy}\"\npools = \"{pools}\"\nslice = \"{slice}\"\nclassify = \"header\"\nmax-wait = \"off\"\n"
    )
}

// Requests of `fork` have parts and checkpoints, and hop if the policy has pools.
#[test]
fn a_switch_under_load_strands_nothing() {
    const CLIENTS: u8 = 6;
    at_once(["adaptive", "park"], |wait| {
        let running =
            Configured::start_with(&["--workers", "4", "--handler", "fork", "--wait", wait], &settings("auto", 0));
        let (replies, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (udp, replies, over) = (running.server.udp, &replies, &over);
                scope.spawn(move || {
                    let client = Client::new(udp);
                    while !over.load(Ordering::SeqCst) {
                        let id = replies.load(Ordering::SeqCst);
                        let answer = client.ask(&Header::request(id, number % 3, Nanos::from_micros(500)), b"");
                        assert_eq!((answer.header.status, answer.header.id), (Status::Ok, id));
                        replies.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let over = EndOf(&over);
            for (turn, policy) in tour().into_iter().enumerate() {
                assert_eq!(running.reload(&settings(policy, turn))["ok"], true, "{policy}");
                let before = replies.load(Ordering::SeqCst);
                await_until(|| replies.load(Ordering::SeqCst) >= before + 30, &format!("{policy}: no replies"));
            }
            drop(over);
        });
        let sent = replies.load(Ordering::SeqCst);
        let said = running.server.stop();
        assert!(said.starts_with(&format!("received {sent}, answered {sent}\n")), "{wait}: {said}");
    });
}

// Does `/latency` name the present policy, and do the workers follow it?
#[test]
fn the_workers_follow_what_is_announced() {
    let running = Configured::start("policy = \"steal\"\nslice = \"1us\"\n");
    let way = || {
        let cost = Nanos::from_millis(1);
        let served = Client::new(running.server.udp).ask(&Header::request(1, 0, cost), b"").header.served;
        (served.pool, served.hops)
    };
    assert_eq!(way(), (0, 0));
    running.reload("policy = \"pools\"\nslice = \"1us\"\n");
    assert_eq!(latency(running.server.admin)["policy"], "pools");
    await_until(|| way() == (1, 1), "the workers do not follow");
    running.server.stop();
}
