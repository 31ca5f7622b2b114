//! An admin endpoint that says what it is told to.

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
