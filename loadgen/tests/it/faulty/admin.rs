//! An admin endpoint that says what it is told to.

use forebay::metrics::Fates;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Answers each request, counted from 0, with `body`, and returns its address.
pub(crate) fn endpoint(body: impl Fn(usize) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket on loopback");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for (nth, connection) in listener.incoming().enumerate() {
            let mut connection = connection.expect("a connection");
            let mut request = BufReader::new(connection.try_clone().expect("a second handle")).lines();
            while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let body = body(nth);
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = connection.write_all((head + &body).as_bytes());
        }
    });
    address
}

/// The body of a server under `policy` with two workers. It received and answered `received`
/// datagrams, and its kernel dropped others (a number, or null).
pub(crate) fn body(policy: &str, received: u64, kernel_dropped: impl Into<Value>) -> Value {
    let block = json!({"count": 0, "p50": 0, "p90": 0, "p99": 0, "p99_9": 0, "p99_95": 0, "p99_99": 0, "max": 0});
    let stages =
        ["total", "kernel", "queue", "aside", "service", "send"].map(|stage| (stage.to_owned(), json!({"all": block})));
    let latencies: Value = stages.into_iter().collect::<serde_json::Map<_, _>>().into();
    let mut fates = json!(Fates::default());
    (fates["received"], fates["answered"], fates["kernel_dropped"]) =
        (received.into(), received.into(), kernel_dropped.into());
    json!({
        "schema": "forebay-latency/2", "policy": policy, "workers": 2, "burn": "cpu", "time_scale": 1,
        "fates": fates,
        "malformed_by_reason": {}, "since_start": latencies, "windows": {"10s": latencies, "60s": latencies},
    })
}
