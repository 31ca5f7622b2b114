//! The HTTP side: routes, and the bounds of a connection.

use super::page;
use super::put::{Put, VALUE_BYTES_MAX, may_put, setting, value};
use super::{Desk, Limits, Question};
use crate::metrics::{Format, weight};
use crate::time::Nanos;
use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    ORIGIN, VARY,
};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The largest request in bytes, the smallest bound that hyper allows; a scraper's request has some hundred.
const REQUEST_MAX_BYTES: usize = 8_192;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Full<Bytes>>;

/// How much longer a connection may last, once its request is known to take long.
type Longer = Arc<OnceLock<Nanos>>;

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
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the admin endpoint cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER.into()).await;
                continue;
            }
        };
        make_room(&mut open, limits.connections);
        let asker = asker.clone();
        let longer = Longer::default();
        let of_service = longer.clone();
        let service = service_fn(move |request| respond(request, peer, asker.clone(), of_service.clone()));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // The end of a connection concerns only its client.
        let task = tokio::spawn(async move {
            let mut connection = pin!(connection);
            if timeout(limits.connection.into(), &mut connection).await.is_err()
                && let Some(longer) = longer.get()
            {
                drop(timeout((*longer).into(), connection).await);
            }
        });
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

/// The pages, in the order of the hint.
const PAGES: [&str; 12] = [
    "/",
    "/metrics",
    "/latency",
    "/latency.hlog",
    "/slow",
    "/trace",
    "/capture",
    "/config",
    "/healthz",
    "/readyz",
    "/policy",
    "/log",
];

async fn respond(
    request: Request<Incoming>,
    peer: SocketAddr,
    asker: mpsc::Sender<Question>,
    longer: Longer,
) -> Result<Answer, Infallible> {
    let path = request.uri().path();
    if !PAGES.contains(&path) {
        return Ok(text(StatusCode::NOT_FOUND, format!("try one of {}\n", PAGES.join(" "))));
    }
    let setting = setting(path);
    let allowed = if setting.is_some() { "PUT" } else { "GET,HEAD" };
    // hyper leaves the body out of a reply to HEAD.
    if !allowed.split(',').any(|method| method == request.method()) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, String::new());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        return Ok(refused);
    }
    if (setting.is_some() || ["/trace", "/capture", "/config"].contains(&path)) && is_foreign(&request) {
        let why = "a page of another site may not ask: name this host by its address or as localhost\n";
        return Ok(text(StatusCode::FORBIDDEN, why.to_owned()));
    }
    if let Some(key) = setting {
        return Ok(put(&asker, key, request, peer).await.unwrap_or_else(stopping));
    }
    let answer = match path {
        "/" => Some(page::page()),
        "/healthz" => ask(&asker, |desk| desk.probe.healthy()).await.map(|state| of_state(state, "ok\n")),
        "/readyz" => ask(&asker, |desk| desk.probe.ready()).await.map(|state| of_state(state, "ready\n")),
        "/slow" => ask(&asker, |desk| desk.slow()).await.map(|body| packed(&request, JSON, body.into())),
        "/trace" => match seconds(request.uri().query()) {
            Some(seconds) => ask(&asker, move |desk| desk.trace(seconds))
                .await
                .map(|body| packed(&request, "application/x-protobuf", body)),
            None => Some(out_of_range(path)),
        },
        "/capture" => match seconds(request.uri().query()) {
            Some(seconds) => capture(&asker, seconds, &longer).await,
            None => Some(out_of_range(path)),
        },
        "/config" => ask(&asker, |desk| desk.probe.config()).await.map(|body| packed(&request, JSON, body.into())),
        _ => ask(&asker, |desk| desk.snapshot()).await.map(|snapshot| match path {
            "/latency" => packed(&request, JSON, snapshot.to_json().into()),
            "/latency.hlog" => packed(&request, TEXT, snapshot.to_interval_log().into()),
            _ => {
                let format = Format::accepted(Some(&header(&request, ACCEPT)));
                packed(&request, format.content_type(), snapshot.to_prometheus(format))
            }
        }),
    };
    Ok(answer.unwrap_or_else(stopping))
}

fn stopping() -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())
}

/// Whether the page of another origin may have led a browser here. It may have sent the request. Or its owner lets a name mean
/// this host (DNS rebinding).
fn is_foreign(request: &Request<Incoming>) -> bool {
    let host = header(request, HOST);
    let is_own = |authority: Authority| {
        let name = authority.host().trim_matches(['[', ']']);
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    };
    let origin = header(request, ORIGIN);
    let site = header(request, HeaderName::from_static("sec-fetch-site"));
    !host.parse().is_ok_and(is_own)
        || !(origin.is_empty() || origin.split_once("://").is_some_and(|(_, from)| from == host))
        || !["", "none", "same-origin"].contains(&&*site)
}

/// The answer of a capture of so many `seconds`; `None` after the control loop has stopped.
async fn capture(asker: &mpsc::Sender<Question>, seconds: Nanos, longer: &Longer) -> Option<Answer> {
    // A connection carries one request.
    let _ = longer.set(seconds);
    let Some(seen) = ask(asker, move |desk| desk.capture(seconds)).await? else {
        return Some(text(StatusCode::CONFLICT, "another client captures: wait until it is answered\n".to_owned()));
    };
    Some(text(StatusCode::OK, seen.await.ok()?.to_text().await))
}

/// The answer to `peer`, which puts a value of `key`; `None` after the server has begun to stop.
async fn put(
    asker: &mpsc::Sender<Question>,
    key: &'static str,
    request: Request<Incoming>,
    peer: SocketAddr,
) -> Option<Answer> {
    let authorization = header(&request, AUTHORIZATION);
    if !ask(asker, move |desk| may_put(peer, &authorization, |token| desk.probe.is_token(token))).await? {
        let why = "allowed: from this host, or with Authorization: Bearer TOKEN, the token of --admin-token-file\n";
        return Some(text(StatusCode::FORBIDDEN, why.to_owned()));
    }
    let Some(value) = value(request.into_body()).await else {
        return Some(text(StatusCode::PAYLOAD_TOO_LARGE, format!("allowed: {VALUE_BYTES_MAX} bytes\n")));
    };
    let (answer, answered) = oneshot::channel();
    ask(asker, move |desk| desk.probe.put(Put { key, value, peer, answer })).await?;
    Some(match answered.await.ok()? {
        Ok(until) => text(StatusCode::OK, until),
        Err(problems) => text(StatusCode::BAD_REQUEST, problems),
    })
}

fn out_of_range(path: &str) -> Answer {
    text(StatusCode::BAD_REQUEST, format!("{path}?seconds=N: N is 1 to 60; without it 1\n"))
}

/// The time that a trace covers.
fn seconds(query: Option<&str>) -> Option<Nanos> {
    let seconds = query.map_or(Some(1), |query| query.strip_prefix("seconds=")?.parse().ok())?;
    (1..=60).contains(&seconds).then(|| Nanos::from_secs(seconds))
}

/// All values of a header, separated by commas.
fn header(request: &Request<Incoming>, name: HeaderName) -> String {
    request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
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

fn of_state(state: Result<(), String>, well: &str) -> Answer {
    match state {
        Ok(()) => text(StatusCode::OK, well.to_owned()),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    reply(status, TEXT, body.into())
}

/// A page, by gzip if the client takes that. The lowest level: the thread has other work.
fn packed(request: &Request<Incoming>, content_type: &'static str, mut body: Vec<u8>) -> Answer {
    let packs = weight(&header(request, ACCEPT_ENCODING), &["gzip"]) > 0.0;
    if packs {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&body).expect("a vector takes everything");
        body = packed.finish().expect("a vector takes everything");
    }
    let mut reply = reply(StatusCode::OK, content_type, body);
    reply.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if packs {
        reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    reply
}

fn reply(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}
