//! The HTTP side: routes, and the bounds of a connection.

use super::{Desk, Limits, Question};
use crate::metrics::Format;
use crate::time::Nanos;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// The largest request in bytes, the smallest bound that hyper allows; a scraper's request has some hundred.
const REQUEST_MAX_BYTES: usize = 8_192;

const JSON: &str = "application/json";

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
    let path = request.uri().path();
    if !["/metrics", "/latency", "/slow", "/config", "/healthz", "/readyz"].contains(&path) {
        let hint = "try /metrics, /latency, /slow, /config, /healthz or /readyz\n";
        return Ok(text(StatusCode::NOT_FOUND, hint.to_owned()));
    }
    // hyper leaves the body out of a reply to HEAD.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, String::new());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
        return Ok(refused);
    }
    let answer = match path {
        "/healthz" => ask(&asker, |desk| desk.probe.healthy()).await.map(|state| of_state(state, "ok\n")),
        "/readyz" => ask(&asker, |desk| desk.probe.ready()).await.map(|state| of_state(state, "ready\n")),
        "/config" => ask(&asker, |desk| desk.probe.config()).await.map(|body| reply(StatusCode::OK, JSON, body)),
        "/slow" => ask(&asker, |desk| desk.slow()).await.map(|body| reply(StatusCode::OK, JSON, body)),
        _ => ask(&asker, |desk| desk.snapshot()).await.map(|snapshot| {
            if path == "/latency" {
                return reply(StatusCode::OK, JSON, snapshot.to_json());
            }
            let format = Format::accepted(request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()));
            reply(StatusCode::OK, format.content_type(), snapshot.to_prometheus(format))
        }),
    };
    Ok(answer.unwrap_or_else(|| text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())))
}

/// The answer of `question`; `None` after the control loop has stopped.
async fn ask<T: Send + 'static>(
    asker: &mpsc::Sender<Question>,
    question: impl FnOnce(&mut Desk<'_, '_>) -> T + Send + 'static,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    // A closed connection needs no answer.
    asker.send(Box::new(|desk| drop(answer.send(question(desk))))).await.ok()?;
    answered.await.ok()
}

fn of_state(state: Result<(), String>, well: &str) -> Response<String> {
    match state {
        Ok(()) => text(StatusCode::OK, well.to_owned()),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
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
