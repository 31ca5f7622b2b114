//! Does a run send again what is shed or not answered in time, as its clients would, and count
//! requests and attempts apart? Method: a server that treats requests in turn in each possible way,
//! by the attempt that a stamp names.

use crate::faulty::*;

fn attempt(request: &Header) -> u8 {
    (request.stamp & 0xff) as u8
}

fn shed() -> Answers {
    vec![(Status::ShedWaited, Nanos::ZERO)]
}

/// By the request's number, so that the expected counts follow from the schedule.
fn misbehave(request: &Header) -> Answers {
    match (request.id % 6, attempt(request)) {
        (0, _) => answer(),
        (1, 0) | (3, _) => shed(),
        (2, 0) | (4, _) => Vec::new(),
        // The retry is answered before the first attempt is.
        (5, 0) => vec![(Status::Ok, Nanos::from_millis(700))],
        _ => answer(),
    }
}

#[test]
fn requests_and_attempts_are_counted_apart() {
    ["", " --threads 3 --flows 8"].into_iter().for_each(counts_apart);
}

fn counts_apart(threads: &str) {
    let server = Server::start(misbehave);
    let flags = "--rate 600 --duration 1s --warmup 0s --timeout 500ms --retries 2 --backoff 40ms --percentile 50";
    let flags = &format!("{flags}{threads}");
    let (report, heard, output) = run(server, flags);
    let sent = number(&report, "/sent") as u64;
    let [n0, n1, n2, n3, n4, n5] = [0, 1, 2, 3, 4, 5].map(|residue| (0..sent).filter(|id| id % 6 == residue).count());
    let fate = |name: &str| number(&report, &format!("/fates/{name}")) as usize;
    assert_eq!((fate("answered"), fate("shed"), fate("lost")), (n0 + n1 + n2 + n5, n3, n4), "{}", report["fates"]);
    let fates = report["fates"].as_object().expect("an object").values();
    assert_eq!(fates.filter_map(|count| count.as_u64()).sum::<u64>(), sent);
    let attempts = |name: &str| number(&report, &format!("/attempts/{name}")) as usize;
    assert_eq!(attempts("sent"), heard.len());
    assert_eq!(attempts("sent"), n0 + 2 * (n1 + n2 + n5) + 3 * (n3 + n4));
    assert_eq!((attempts("after_shed"), attempts("after_timeout")), (n1 + 2 * n3, n2 + 2 * n4 + n5));
    assert_eq!((attempts("answered"), attempts("shed")), (n0 + n1 + n2 + 2 * n5, n1 + 3 * n3));
    assert_eq!((attempts("unanswered"), number(&report, "/duplicates") as usize), (n2 + 3 * n4, n5));
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("{} attempts, up to 3 for each request", group(heard.len()))), "{text}");
}

/// The number as people read it, below a million.
fn group(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

// Over the server's hint and the pause. Without retries a shed answer is the end.
#[test]
fn latency_counts_from_the_first_send() {
    let behave = |request: &Header| if attempt(request) == 0 { shed() } else { answer() };
    let flags = "--rate 300 --duration 1s --warmup 0s --timeout 2s --percentile 50";
    let (report, ..) = run(Server::start(behave), &format!("{flags} --retries 1 --backoff 40ms"));
    let [p50, sent] = ["/latency_us/all/p50", "/sent"].map(|pointer| number(&report, pointer));
    assert!(p50 >= HINT.as_micros_f64() + 20_000.0 && p50 < 1e6, "{p50} us");
    assert_eq!(number(&report, "/fates/answered"), sent);
    let (report, heard, _) = run(Server::start(behave), flags);
    let counted = ["/fates/shed", "/attempts/sent"].map(|pointer| number(&report, pointer));
    assert_eq!(counted, [heard.len() as f64; 2]);
}
