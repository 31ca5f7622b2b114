//! The HTTP side: routes, and the bounds of a connection.

use super::{About, Answer, Question};
use crate::metrics::Format;
use crate::time::Nanos;
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Bounds of what clients may take. A connection carries one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open connections; one more cuts the oldest off. A healthy one takes milliseconds, so the oldest is one that
    /// stalls.
    pub(super) connections: usize,
    /// From accepting to the end of the request's header.
    pub(super) header: Nanos,
    /// From accepting to the last byte of the reply.
    pub(super) connection: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 32, header: Nanos::from_secs(5), connection: Nanos::from_secs(10) }
    }
}

/// Bytes that a request may fill, the least that hyper allows; a scraper's has some hundred.
const REQUEST_MAX_BYTES: usize = 8_192;

/// The pause after a failed `accept`: what it lacks (descriptors, memory) does not come back at once.
const ACCEPT_AGAIN_AFTER: Nanos = Nanos::from_millis(100);

/// Accepts and serves connections until it is dropped.
pub(super) async fn serve(listener: TcpListener, asker: mpsc::Sender<Question>, limits: Limits) {
    let service = TowerToHyperService::new(router(asker));
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
        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
        // How a connection ends is its client's business.
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

fn router(asker: mpsc::Sender<Question>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/latency", get(latency))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .fallback(|| async { (StatusCode::NOT_FOUND, "try /metrics, /latency, /healthz or /readyz\n") })
        .with_state(asker)
}

async fn metrics(State(asker): State<mpsc::Sender<Question>>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    ask(&asker, About::Metrics(Format::accepted(accept))).await
}

async fn latency(State(asker): State<mpsc::Sender<Question>>) -> Response {
    ask(&asker, About::Latency).await
}

async fn readiness(State(asker): State<mpsc::Sender<Question>>) -> Response {
    ask(&asker, About::Readiness).await
}

async fn health(State(asker): State<mpsc::Sender<Question>>) -> Response {
    ask(&asker, About::Health).await
}

async fn ask(asker: &mpsc::Sender<Question>, about: About) -> Response {
    let (answer, answered) = oneshot::channel();
    // Neither fails while the control loop runs; after it has stopped there is nobody to answer.
    let asked = asker.send(Question { about, answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(Answer::Ready(Ok(())))) => "ready\n".into_response(),
        (Ok(()), Ok(Answer::Healthy(Ok(())))) => "ok\n".into_response(),
        (Ok(()), Ok(Answer::Ready(Err(reason)) | Answer::Healthy(Err(reason)))) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
        }
        (Ok(()), Ok(Answer::Text { content_type, body })) => ([(CONTENT_TYPE, content_type)], body).into_response(),
        (Err(_), _) | (_, Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}
