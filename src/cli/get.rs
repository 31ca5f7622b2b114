//! `get`: asks the admin endpoint of a server over HTTP.

use httparse::{EMPTY_HEADER, Response, Status};
use hyper::StatusCode;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// The longest answer taken, in bytes. A capture of a minute has a few million.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// The most headers of an answer.
const HEADERS_MAX: usize = 32;

/// Requests `http://{authority}{path}` and returns status and text. `authority` is an address or a
/// name, with a port. Uses no proxy.
///
/// # Errors
/// If no complete answer comes within `patience`.
pub fn get(authority: &str, path: &str, patience: Duration) -> io::Result<(StatusCode, String)> {
    let asking = async {
        let mut stream = TcpStream::connect(authority).await?;
        // With another name the server would suspect a page of another site. In HTTP 1.0 the answer
        // ends with the connection.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).await?;
        read(&answer)
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async { timeout(patience, asking).await });
    // A name look-up may hang for longer.
    runtime.shutdown_background();
    answer.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {patience:?}"))))
}

/// The status and the text of a whole answer.
fn read(answer: &[u8]) -> io::Result<(StatusCode, String)> {
    let cut_off = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is cut off");
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut head = Response::new(&mut headers);
    let Status::Complete(begin) = head.parse(answer).map_err(io::Error::other)? else { return Err(cut_off()) };
    let status = StatusCode::from_u16(head.code.unwrap_or_default()).map_err(io::Error::other)?;
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| str::from_utf8(header.value).ok()?.parse().ok());
    let body = &answer[begin..];
    if length.is_some_and(|length: usize| body.len() < length) {
        return Err(cut_off());
    }
    Ok((status, String::from_utf8(body.to_vec()).map_err(io::Error::other)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let whole = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nstopping\n";
        let (status, text) = read(whole).expect("an answer");
        assert_eq!((status.as_u16(), &*text), (503, "stopping\n"));
        for cut in [0, 10, whole.len() - 1] {
            assert_eq!(read(&whole[..cut]).expect_err("a part").kind(), io::ErrorKind::UnexpectedEof);
        }
        let (_, text) = read(b"HTTP/1.0 200 OK\r\n\r\nuntil the end").expect("no length");
        assert_eq!(text, "until the end");
        assert!(read(b"SSH-2.0-x\r\n\r\n").is_err() && read(b"HTTP/1.0 200 OK\r\n\r\n\xFF").is_err());
    }
}
