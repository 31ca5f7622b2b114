//! Do several sending threads do together what one does? Method: servers that count.

use crate::faulty::*;
use std::collections::BTreeSet;
use support::generator::run as run_at;
use support::generator::started;

// Is every datagram of both threads, retries among them, one that the server received or dropped?
// Method: an emulated worker with less capacity than is asked for, so that clients lose patience.
#[test]
fn counts_are_those_of_the_server() {
    let of_server = "--workers 1 --policy global --burn sleep --time-scale 100 --overheads none --max-wait off";
    let server = started(of_server.split(' ').chain("--listen 127.0.0.1:0 --admin 127.0.0.1:0".split(' ')));
    let flags = "--cost fixed:20us --rate 700 --duration 1s --warmup 0s --timeout 100ms --percentile 50 --threads 2 \
                 --flows 7 --retries 2 --backoff 20ms --admin";
    let report = run_at(server.udp, &format!("{flags} http://{}", server.admin)).report;
    let of = |pointer: &str| number(&report, pointer);
    let (attempts, reconciled) = (&report["attempts"], &report["reconciled"]);
    let retries = of("/attempts/after_timeout");
    assert!(retries > 50.0, "{attempts}");
    assert_eq!((of("/attempts/sent"), of("/threads")), (of("/sent") + retries, 2.0), "{attempts}");
    assert_eq!(
        (of("/reconciled/client_sent"), of("/reconciled/unaccounted")),
        (of("/attempts/sent"), 0.0),
        "{reconciled}"
    );
    assert!(of("/reconciled/server_received") >= of("/attempts/answered"), "{reconciled}");
    let fates = report["fates"].as_object().expect("an object").values();
    assert_eq!(fates.filter_map(Value::as_f64).sum::<f64>(), of("/sent"), "{}", report["fates"]);
    assert_eq!((of("/foreign"), &report["send_errors"]), (0.0, &json!({})));
}

// Are the requests the same for any number of threads? Method: the numbers,
// costs and classes that a server hears.
#[test]
fn requests_are_those_of_one_thread() {
    let heard = |threads: u16| {
        let flags = "--rate 1000 --duration 500ms --warmup 0s --flows 3 --timeout 5s --percentile 50";
        let (report, heard, _) = run(Server::start(|_| answer()), &format!("{flags} --threads {threads}"));
        assert_eq!(number(&report, "/fates/answered"), number(&report, "/sent"), "{}", report["fates"]);
        heard.iter().map(|header| (header.id, header.cost, header.class)).collect::<BTreeSet<_>>()
    };
    let by_one = heard(1);
    assert!(by_one.len() > 300 && [2, 3].into_iter().all(|threads| heard(threads) == by_one));
}
