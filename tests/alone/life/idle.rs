//! Does an idle server use almost no CPU time, and does it answer at once when a request comes?
//! Method: its CPU time over a quiet second before and after a burst, under every policy; then one
//! request.

use support::prelude::*;

const QUIET: Nanos = Nanos::from_secs(1);
/// 1 % of a core over [`QUIET`].
const IDLE_MAX: Nanos = Nanos::from_millis(10);
/// Far above a wake-up, and far below one second, after which the server would look by itself.
const PROMPT: Nanos = Nanos::from_millis(100);
/// Half of that second. If a wake-up is lost, a request waits this long on average.
const LOST: Nanos = Nanos::from_millis(500);
const BURST: u64 = 2_000;

#[test]
fn an_idle_server_burns_nothing() {
    let _alone = alone();
    let servers: Vec<(&str, Forebay)> = policies()
        .map(|policy| {
            let own: &[&str] = if policy == "pools" { &["--pools", "front=2,heavy=2"] } else { &[] };
            let flags =
                [&["--policy", policy, "--workers", "4", "--wait", "adaptive", "--handler", "spin"], own].concat();
            (policy, Forebay::start(&flags))
        })
        .collect();
    assert_quiet(&servers, "after the start");
    for (policy, server) in &servers {
        burst(server);
        let fates = quiescent(server.admin, BURST);
        assert_eq!((fates.answered, fates.arrived()), (fates.received, Some(BURST)), "{policy}");
        // Adding up the burst's figures belongs to the burst. It takes an unoptimised build a
        // hundredth of a second.
        let measured = || latency(server.admin)["since_start"]["total"]["all"]["count"].as_u64();
        await_until(|| measured() == Some(fates.answered), "the burst is never added up");
    }
    assert_quiet(&servers, "after a burst");
    for (policy, server) in &servers {
        // The machine may be busy. A wake-up that is sometimes lost shows in the longest wait. A
        // wake-up that is always late shows in the shortest.
        let waits: Vec<Nanos> = (0..8).map(|_| wait_of(&Client::new(server.udp))).collect();
        let (shortest, longest) = (waits.iter().min().expect("eight"), waits.iter().max().expect("eight"));
        assert!(*shortest < PROMPT && *longest < LOST, "{policy}: requests after the idle time took {waits:?}");
    }
}

/// One quiet stretch of four is enough. If a thread does not come to rest, it uses CPU time in
/// every later stretch, however rare the fault is. Each server looks at all sockets and threads
/// once a second, and other processes make this look longer.
fn assert_quiet(servers: &[(&str, Forebay)], when: &str) {
    // What a start or a burst leaves to do is done in a moment, but that moment is not idle.
    thread::sleep(Nanos::from_millis(200).into());
    let stretches: Vec<Vec<(&str, Nanos)>> = (0..4).map_while(|_| loud(servers)).collect();
    assert!(stretches.len() < 4, "CPU time in {QUIET} {when}: {stretches:?}");
}

/// The servers that were not idle over a quiet stretch, if any.
fn loud<'a>(servers: &[(&'a str, Forebay)]) -> Option<Vec<(&'a str, Nanos)>> {
    let before: Vec<Nanos> = servers.iter().map(|(_, server)| server.cpu_time()).collect();
    thread::sleep(QUIET.into());
    let used = servers.iter().zip(before).map(|((policy, server), before)| (*policy, server.cpu_time().minus(before)));
    let loud: Vec<_> = used.filter(|(_, used)| *used >= IDLE_MAX).collect();
    (!loud.is_empty()).then_some(loud)
}

/// Keeps every worker busy for a while: many ports, and some requests that run out of their slice.
fn burst(server: &Forebay) {
    let clients: Vec<Client> = (0..20).map(|_| Client::new(server.udp)).collect();
    for id in 0..BURST {
        let cost = if id % 100 == 0 { Nanos::from_millis(2) } else { Nanos::from_micros(5) };
        clients[usize::try_from(id).expect("small") % clients.len()].request(id, cost, b"");
    }
}

fn wait_of(client: &Client) -> Nanos {
    let sent = clock::now();
    assert_eq!(client.ask(&Header::request(0, 0, Nanos::ZERO), b"").header.status, Status::Ok);
    clock::now().minus(sent)
}
