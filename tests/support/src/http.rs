//! A minimal HTTP client: one request for each connection.

use super::GIVE_UP_AFTER;
use forebay::metrics::Fates;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The answer of an HTTP server.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Lower case.
    pub head: String,
    pub body: String,
}

/// Sends `line`, such as `GET /latency`; `None` without an answer.
pub fn http(admin: SocketAddr, line: &str) -> Option<Reply> {
    let (head, body) = exchange(admin, line, "")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, head, body: String::from_utf8(body).ok()? })
}

/// Sends `line` with `headers`, each with its line end. Returns the head of the answer in lower
/// case, and its body.
pub fn exchange(admin: SocketAddr, line: &str, headers: &str) -> Option<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(GIVE_UP_AFTER.into())).ok()?;
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let body = answer.split_off(end + 4);
    Some((String::from_utf8(answer).ok()?.to_lowercase(), body))
}

/// The page at `path`, which must exist.
pub fn page(admin: SocketAddr, path: &str) -> String {
    let reply = http(admin, &format!("GET {path}")).expect("the endpoint answers");
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.body
}

/// The answer of `/readyz`.
pub fn ready(admin: SocketAddr) -> (u16, String) {
    http(admin, "GET /readyz").map(|reply| (reply.status, reply.body)).expect("an answer")
}

pub fn latency(admin: SocketAddr) -> Value {
    serde_json::from_str(&page(admin, "/latency")).expect("JSON")
}

pub fn config(admin: SocketAddr) -> Value {
    serde_json::from_str(&page(admin, "/config")).expect("JSON")
}

/// The fates in a body of `/latency`.
pub fn fates(latency: &Value) -> Fates {
    serde_json::from_value(latency["fates"].clone()).expect("every fate")
}

/// The value of exactly this series in `text`, a body of `/metrics`.
pub fn metric(text: &str, series: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no series {series} in\n{text}")).parse().expect("a number")
}
