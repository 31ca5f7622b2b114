//! Does the endpoint report that the server, or a part of it, does not serve? Method: handlers that
//! hold workers without a checkpoint, and an address that is removed.

use support::prelude::*;

// A stuck server is not ready after a second, and unhealthy after the configured time, until it
// continues. Jobs that pass checkpoints never count as stuck.
#[test]
fn a_stuck_server_says_so() {
    let (stuck, script) = run_scripted(&[("workers", "2"), ("unhealthy-after", "1500ms")]);
    let (patient, patients) = run_scripted(&[("workers", "1"), ("unhealthy-after", "0s")]);
    let (well, _) = run_scripted(&[("workers", "1"), ("unhealthy-after", "1s")]);
    let begun = clock::now();
    Client::new(patient.udp).request(0, Nanos::ZERO, &[Act::Hold as u8]);
    Client::new(well.udp).request(0, GIVE_UP_AFTER, &[Act::Step as u8]);
    // If the second request comes to the worker that has the first one, another worker steals it.
    (0..2).for_each(|_| Client::new(stuck.udp).request(0, Nanos::ZERO, &[Act::Hold as u8]));
    await_until(|| script.begun() == 2, "a worker is never held");
    let get = |server: &Running, page: &str| http(server.admin, page).map(|reply| (reply.status, reply.body));
    let status = |server: &Running, page: &str| get(server, page).map(|reply| reply.0);
    let mut said = String::new();
    for (page, least) in [("GET /readyz", 1_000), ("GET /healthz", 1_500)] {
        await_until(
            || {
                let (status, body) = get(&stuck, page).expect("an answer");
                said = body;
                status == 503
            },
            "nothing is noticed",
        );
        assert!(clock::now().minus(begun) >= Nanos::from_millis(least), "{page} {said}");
        assert!(said.starts_with("stuck: of the 2 workers of the server none has moved for "), "{page}: {said}");
    }
    assert_eq!([status(&patient, "GET /readyz"), status(&patient, "GET /healthz")], [Some(503), Some(200)]);
    assert_eq!([status(&well, "GET /readyz"), status(&well, "GET /healthz")], [Some(200), Some(200)]);
    let busy = metric(&stuck.metrics(), "forebay_worker_busy_seconds_total{worker=\"1\"}");
    assert!((1.0..30.0).contains(&busy), "{busy} s");
    [script, patients].iter().for_each(|script| script.release());
    await_until(|| status(&stuck, "GET /healthz") == Some(200), "it never gets well");
    await_until(|| status(&stuck, "GET /readyz") == Some(200), "it never gets ready");
    stuck.quiescent(2);
}

#[test]
fn a_lost_address_says_so() {
    if !in_own_network("serve::health::a_lost_address_says_so") {
        return;
    }
    lonely_device();
    let listen = format!("{HERE}:9000,[{HERE_V6}]:9000,127.0.0.1:9000,[::]:9001");
    let (server, _) = run_scripted(&[("listen", &listen)]);
    let all_there = (200, "ready\n".to_owned());
    for (address, length, named) in
        [(HERE.to_string(), 16, format!("{HERE}:9000")), (HERE_V6.to_string(), 64, format!("[{HERE_V6}]:9000"))]
    {
        assert_eq!(ready(server.admin), all_there);
        ip(&format!("addr del {address}/{length} dev near"));
        assert_eq!(ready(server.admin), (503, format!("gone: this host has no longer the address of {named}\n")));
        ip(&format!("addr add {address}/{length} dev near nodad"));
    }
    assert_eq!(ready(server.admin), all_there);
}
