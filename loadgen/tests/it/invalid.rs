//! Is a run INVALID, with exit code 3 and the reason, whenever its figures are not what they say
//! they are? Method: for each defect a run that has it, against servers, admin endpoints and
//! kernels that misbehave.

use crate::faulty::*;
use forebay::inside::get;
use support::generator::started;
use support::generator::{run, serve};
use support::network::{in_own_network, shaped};

/// Half a second of requests, all of which count.
const SHORT: &str = "--rate 1000 --duration 500ms --warmup 0s --timeout 300ms --percentile 50";

#[test]
fn a_dead_target() {
    let address =
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port that is free again");
    let result = run(address, "--rate 1000 --duration 60s --warmup 0s --timeout 300ms --percentile 50");
    result.is_invalid("the target's host says that no server has this port");
    // A few seconds, and not the minute; a sender that the host holds up sends later.
    assert!(result.report["sent"].as_u64() < Some(10_000), "{}", result.report["sent"]);
    // What a busy host sends late is not judged.
    let (sent, fates) = (&result.report["sent"], &result.report["fates"]);
    result.is_invalid(&format!("nothing was answered in time: of {sent} requests {} were lost", fates["lost"]));
    let count = |fate: &str| fates[fate].as_u64().expect("a count");
    assert_eq!(Some(count("lost") + count("unjudged")), sent.as_u64(), "{fates}");
}

// Does the report name the port from which replies come that no client takes? Method: a server
// answers every other request from a second socket, then all of them.
#[test]
fn replies_from_another_port() {
    for every in [2, 1] {
        let (other, from) = bound();
        let mut asked = 0;
        let server = serve(move |socket, request, client| {
            asked += 1;
            let replying = if asked % every == 0 { &other } else { socket };
            replying.send_to(request, client).expect("a reply on loopback");
        });
        let flags =
            "--payload 7b{counter:4} --flows 1 --rate 200 --duration 500ms --warmup 0s --timeout 300ms --percentile 50";
        let result = run(server, flags);
        let said = String::from_utf8_lossy(&result.output.stdout).replace("\n  ", " ");
        let count = result.report["sent"].as_u64().expect("a count") / every;
        let named = format!("{count} datagrams to the first flow came from {from}, not from the target");
        assert!(said.contains(&named) && !said.contains("is a server listening"), "{named}: {said}");
        if every == 1 {
            result.is_invalid(&named);
        }
    }
}

#[test]
fn a_server_restarted_in_mid_run() {
    // Below the ports that the system gives to sockets without one, and others for each process
    // that runs this test.
    let port = u16::try_from(10_000 + std::process::id() % 10_000).expect("a port");
    let (udp, admin) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 10_000));
    let arguments = ["--workers", "1", "--policy", "isolated", "--listen", &udp, "--admin", &admin];
    let start = || started(arguments);
    let received = || {
        let (_, text) = get(&admin, "/latency", Duration::from_secs(5)).ok()?;
        let body: Value = serde_json::from_str(&text).ok()?;
        body["fates"]["received"].as_u64()
    };
    let first = start();
    let flags = format!("--rate 500 --duration 6s --warmup 0s --timeout 300ms --percentile 50 --admin {admin}");
    let generator = Generator::start(udp.parse().expect("an address"), &flags);
    eventually("requests arrive", || received().filter(|received| *received > 100));
    drop(first);
    // It has more than the first had when the run began, so that `received` alone does not tell.
    let _second = start();
    eventually("the second server is up and has requests", || received().filter(|received| *received > 0));
    let result = generator.finish();
    result.is_invalid("the server was restarted in the course of the run: its start time was");
    assert!(result.report.get("reconciled").is_none(), "counts of two servers: {}", result.report);
}

// Datagrams for which `sendto` returned success, and which the device's queue threw away.
#[test]
fn an_own_queue_that_is_full() {
    if !in_own_network("invalid::an_own_queue_that_is_full") || !shaped("lo", "rate 400kbit burst 1600 limit 1600") {
        return;
    }
    let server = honest();
    let result = run(server, SHORT);
    let fates = &result.report["fates"];
    // Nobody else sends in this network: each request without an answer was thrown away by our
    // kernel, or its reply was. On a busy host some were sent late, and are not judged.
    let [lost, answered, unjudged] = ["lost", "answered", "unjudged"].map(|fate| fates[fate].as_u64().unwrap_or(0));
    assert!(lost > 0 && answered > 0, "{fates}");
    let unsent = lost + unjudged;
    result.is_invalid(&format!("our own kernel did not send {unsent} datagrams for want of room (SndbufErrors"));
    assert_eq!(result.report["send_errors"], json!({}), "no send failed");
}

#[test]
fn own_sends_that_are_refused() {
    let way = "rate 64kbit burst 1600 limit 100000000";
    if !in_own_network("invalid::own_sends_that_are_refused") || !shaped("lo", way) {
        return;
    }
    let server = honest();
    let result = run(server, "--rate 3000 --duration 500ms --warmup 0s --timeout 300ms --percentile 50 --flows 1");
    let refused: u64 =
        result.report["send_errors"].as_object().expect("by reason").values().filter_map(Value::as_u64).sum();
    assert!(refused > 0, "{}", result.report["send_errors"]);
    result.is_invalid(&format!("our own kernel refused {refused} of {} requests, above 0.1 %", result.report["sent"]));
    result.is_invalid("Resource temporarily unavailable");
}

#[test]
fn replies_dropped_at_own_sockets() {
    let generator_id = Arc::new(AtomicI32::new(0));
    let id = Arc::clone(&generator_id);
    let server = serve(move |socket, datagram, client| {
        if reply(socket, datagram, client).id == 100 {
            let id = Pid::from_raw(eventually("the generator is known", || {
                Some(id.load(Ordering::SeqCst)).filter(|id| *id > 0)
            }));
            kill(id, Signal::SIGSTOP).expect("a running process");
            let is_stopped = || status(id, "State:").filter(|state| state.starts_with('T'));
            eventually("the generator stands still", is_stopped);
            // The more of one reply; nothing foreign.
            for _ in 0..20_000 {
                reply(socket, datagram, client);
            }
            kill(id, Signal::SIGCONT).expect("a stopped process");
        }
    });
    let generator = Generator::start(server, SHORT);
    generator_id.store(generator.id().as_raw(), Ordering::SeqCst);
    let result = generator.finish();
    let dropped = &result.report["own_socket_drops"];
    assert!(dropped.as_u64() > Some(0), "{}", result.report);
    result.is_invalid(&format!("the kernel dropped {dropped} replies at the generator's own sockets"));
}

#[test]
fn an_admin_endpoint_that_says_something_else() {
    let mut other = admin::body("steal", 0, 0);
    other["schema"] = json!("forebay-latency/9");
    let dead = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port without TCP");
    let says = |body: String| admin::endpoint(move |_| body.clone());
    for (admin, reason) in [
        (says("{}".into()), "no forebay-latency/2: /schema is missing"),
        (says("hello".into()), "asking the admin endpoint, http://127.0.0.1:"),
        (says(other.to_string()), "/schema is \"forebay-latency/9\", and has to be"),
        (dead.to_string(), "asking the admin endpoint, http://127.0.0.1:"),
    ] {
        let server = honest();
        let result = run(server, &format!("{SHORT} --admin {admin}"));
        result.is_invalid("the server's admin endpoint did not answer: ");
        result.is_invalid(reason);
        let said = String::from_utf8_lossy(&result.output.stderr);
        assert!(said.contains("warning: the run will be INVALID: ") && said.contains(reason), "{said}");
        // What only the endpoint can tell is missed before anything is sent.
        for flags in [format!("--target {server} --load 0.5"), "--rate 100".to_owned()] {
            let (code, stdout, said) = loadgen(&format!("run {flags} --duration 1min --admin {admin}"));
            assert!(!matches!(code, Some(0 | 3)) && said.contains(reason), "{flags}: {said}");
            assert_eq!(stdout, "", "{flags}");
        }
    }
}

// Method: a server that tells of five datagrams fewer than it had, and of two that it dropped.
// `src/report/validity/tests.rs` has what else it may tell.
#[test]
fn what_the_server_tells_of_the_run() {
    let received = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&received);
    let server = serve(move |socket, datagram, client| {
        heard.fetch_add(1, Ordering::SeqCst);
        reply(socket, datagram, client);
    });
    let admin = admin::endpoint(move |nth| {
        // What it had before the run is not the run's.
        let (missing, dropped) = if nth < 2 { (0, 5) } else { (5, 7) };
        admin::body("steal", 1_000 + received.load(Ordering::SeqCst) - missing, dropped).to_string()
    });
    let result = run(server, &format!("{SHORT} --admin {admin}"));
    assert_eq!(result.report["reconciled"]["client_sent"], result.report["sent"], "{}", result.report);
    assert_eq!(result.report["reconciled"]["unaccounted"], 3, "{}", result.report);
    result.is_invalid("3 datagrams are unaccounted for: ");
}
