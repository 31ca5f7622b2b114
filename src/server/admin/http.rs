//! The HTTP side: routes, and the bounds of a connection.

use super::{About, Answer, Question};
use crate::metrics::Format;
use crate::time::Nanos;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Bounds on clients. A connection carries one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open connections; one more cuts the oldest off. A healthy connection takes milliseconds, so the oldest is a
    /// stalled one.
    pub(super) connections: usize,
    /// The longest time from accepting to the end of the request's header.
    pub(super) header: Nanos,
    /// The longest time from accepting to the last byte of the reply.
    pub(super) connection: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 32, header: Nanos::from_secs(5), connection: Nanos::from_secs(10) }
    }
}

/// The largest request in bytes, the smallest bound that hyper allows; a scraper's request has some hundred.
const REQUEST_MAX_BYTES: usize = 8_192;

/// The pause after a failed `accept`: the missing resource (descriptors, memory) does not return at once.
const ACCEPT_AGAIN_AFTER: Nanos = Nanos::from_millis(100);

/// Accepts and serves connections until dropped.
pub(super) async fn serve(listener: TcpListener, asker: mpsc::Sender<Question>, limits: Limits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Some(limits.header.into()))
        .max_buf_size(REQUEST_MAX_BYTES)
        .keep_alive(false);
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the admin endpoint cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER.into()).await;
                continue;
            }
        };
        make_room(&mut open, limits.connections);
        let asker = asker.clone();
        let service = service_fn(move |request| respond(request, asker.clone()));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // The end of a connection concerns only its client.
        let task = tokio::spawn(tokio::time::timeout(limits.connection.into(), connection));
        open.push_back(task.abort_handle());
    }
}

fn make_room(open: &mut VecDeque<AbortHandle>, connections: usize) {
    open.retain(|connection| !connection.is_finished());
    if open.len() >= connections
        && let Some(oldest) = open.pop_front()
    {
        oldest.abort();
    }
}

async fn respond(request: Request<Incoming>, asker: mpsc::Sender<Question>) -> Result<Response<String>, Infallible> {
    let Some(about) = asked(request.uri().path(), request.headers()) else {
        return Ok(text(StatusCode::NOT_FOUND, "try /metrics, /latency, /config, /healthz or /readyz\n".to_owned()));
    };
    Ok(match *request.method() {
        // hyper leaves the body out of a reply to HEAD.
        Method::GET | Method::HEAD => ask(&asker, about).await,
        _ => method_not_allowed(),
    })
}

/// The question that `path` asks; `None` for an unknown path.
fn asked(path: &str, headers: &HeaderMap) -> Option<About> {
    match path {
        "/metrics" => {
            let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
            Some(About::Metrics(Format::accepted(accept)))
        }
        "/latency" => Some(About::Latency),
        "/config" => Some(About::Config),
        "/healthz" => Some(About::Health),
        "/readyz" => Some(About::Readiness),
        _ => None,
    }
}

async fn ask(asker: &mpsc::Sender<Question>, about: About) -> Response<String> {
    let (answer, answered) = oneshot::channel();
    // Neither call fails while the control loop runs; after it has stopped there is no client to answer.
    let asked = asker.send(Question { about, answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(Answer::Ready(Ok(())))) => text(StatusCode::OK, "ready\n".to_owned()),
        (Ok(()), Ok(Answer::Healthy(Ok(())))) => text(StatusCode::OK, "ok\n".to_owned()),
        (Ok(()), Ok(Answer::Ready(Err(reason)) | Answer::Healthy(Err(reason)))) => {
            text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n")
        }
        (Ok(()), Ok(Answer::Text { content_type, body })) => reply(StatusCode::OK, content_type, body),
        (Err(_), _) | (_, Err(_)) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<String> {
    reply(status, "text/plain; charset=utf-8", body)
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

fn method_not_allowed() -> Response<String> {
    let mut reply = Response::new(String::new());
    *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
    reply
}
