//! `get`: asks the admin endpoint of a server over HTTP.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// The longest answer taken, in bytes. A capture of a minute has a few million.
const ANSWER_MAX_BYTES: usize = 64 << 20;

/// Requests `http://{authority}{path}` and returns status and text. `authority` is an address or a
/// name, with a port. Uses no proxy.
///
/// # Errors
/// If no complete answer comes within `patience`.
pub fn get(authority: &str, path: &str, patience: Duration) -> io::Result<(StatusCode, String)> {
    let asking = async {
        let stream = TcpStream::connect(authority).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // When the connection ends, the answer ends too.
        drop(tokio::spawn(connection));
        // With another name the server would suspect a page of another site.
        let request = Request::get(path).header(HOST, "localhost").body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await.map_err(io::Error::other)?;
        let text = String::from_utf8(body.to_bytes().into()).map_err(io::Error::other)?;
        Ok((head.status, text))
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async { timeout(patience, asking).await });
    // A name look-up may hang for longer.
    runtime.shutdown_background();
    answer.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {patience:?}"))))
}
