//! HTTP: routes, limits per connection, and the page at `/`.

use super::flight;
use crate::metrics::{Format, slow_text, weight};
use crate::output::{PAGE_CHARTS, PAGE_STYLE};
use crate::runtime::continuation::helpers::PRIORITIES;
use crate::server::admin::{CONNECTIONS, Desk, Question};
use crate::time::Nanos;
use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};
use std::iter;
use std::net::{IpAddr, TcpListener};
use std::sync::LazyLock;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Limits on clients. A connection carries one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    /// The most open connections; a further one closes the oldest. A healthy connection lasts for
    /// milliseconds, so the oldest is a stalled one.
    pub(crate) connections: usize,
    /// The longest time from accepting a connection to the end of the request's header.
    pub(crate) header: Nanos,
    /// The longest time from accepting a connection to the last byte of the reply. A capture takes
    /// at most 62 s.
    pub(crate) connection: Nanos,
}

impl ClientLimits {
    pub(crate) const DEFAULT: ClientLimits =
        ClientLimits { connections: CONNECTIONS, header: Nanos::from_secs(5), connection: Nanos::from_secs(75) };
}

/// The largest request in bytes. It is the smallest limit that hyper allows; a scraper's request
/// has a few hundred bytes.
const REQUEST_MAX_BYTES: usize = 8_192;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

type PageAnswer = Response<Full<Bytes>>;

/// The pause after a failed `accept`, because a missing resource (descriptors, memory) does not
/// return at once.
const ACCEPT_AGAIN_AFTER: Nanos = Nanos::from_millis(100);

/// Accepts connections until `stop` becomes true. Then drops the listener and waits for ever.
pub(crate) async fn accept(
    listener: Option<TcpListener>,
    asker: mpsc::Sender<Question>,
    limits: ClientLimits,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    if let Some(listener) = listener {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = serve(listener, asker, limits) => {}
            Ok(_) = stop.wait_for(|released| *released) => {}
        }
    }
    pending().await
}

/// Accepts and serves connections until dropped.
async fn serve(listener: tokio::net::TcpListener, asker: mpsc::Sender<Question>, limits: ClientLimits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Some(limits.header.into()))
        .max_buf_size(REQUEST_MAX_BYTES)
        .keep_alive(false);
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
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
        // An error of a connection concerns only its client, so it is dropped.
        let task = tokio::spawn(async move { drop(timeout(limits.connection.into(), connection).await) });
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

/// The paths of all pages, in the order of the error text.
const PAGES: &str = "/ /metrics /latency /latency.hlog /history /slow /capture /config /healthz /readyz";

async fn respond(request: Request<Incoming>, asker: mpsc::Sender<Question>) -> Result<PageAnswer, Infallible> {
    let path = request.uri().path();
    if !PAGES.split(' ').any(|page| page == path) {
        return Ok(text(StatusCode::NOT_FOUND, format!("try one of {PAGES}\n")));
    }
    // hyper omits the body of a reply to HEAD.
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, String::new());
        return Ok(with(refused, header::ALLOW, "GET,HEAD"));
    }
    // Any prober may ask for the health, under any host name.
    let is_free = ["/healthz", "/readyz"].contains(&path);
    if !(is_free || names_host(&request)) || ["/capture", "/config"].contains(&path) && is_led(&request) {
        let why = "a page of another site may not ask: name this host by its address or as localhost\n";
        return Ok(text(StatusCode::FORBIDDEN, why.to_owned()));
    }
    let as_text = request.uri().query() == Some("text");
    let answer = match path {
        "/" => Some(page()),
        "/healthz" => ask(&asker, |desk| desk.probe.check_health()).await.map(|state| of_state(state, "ok\n")),
        "/readyz" => ask(&asker, |desk| desk.probe.ready()).await.map(|state| of_state(state, &ready_text())),
        "/slow" => ask(&asker, |desk| desk.slow()).await.map(|report| match as_text {
            true => text(StatusCode::OK, slow_text(&report)),
            false => packed(&request, JSON, report.to_string().into()),
        }),
        "/history" => {
            ask(&asker, |desk| desk.flight.history.to_json()).await.map(|body| packed(&request, JSON, body.into()))
        }
        "/capture" => capture(&asker, request.uri().query()).await,
        "/config" => {
            ask(&asker, |desk| desk.probe.reloads().to_json()).await.map(|body| packed(&request, JSON, body.into()))
        }
        _ => ask(&asker, |desk| desk.snapshot()).await.map(|snapshot| match path {
            "/latency" if as_text => text(StatusCode::OK, snapshot.to_text()),
            "/latency" => packed(&request, JSON, snapshot.to_json().into()),
            "/latency.hlog" => packed(&request, TEXT, snapshot.to_interval_log().into()),
            _ => {
                let format = Format::accepted(Some(&values(&request, header::ACCEPT)));
                packed(&request, format.content_type(), snapshot.to_prometheus(format))
            }
        }),
    };
    Ok(answer.unwrap_or_else(|| text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())))
}

/// Whether the request's Host is an address or `localhost`. A browser may resolve a foreign name to
/// this host (DNS rebinding), and the foreign page could then read the answer.
fn names_host(request: &Request<Incoming>) -> bool {
    let is_own = |authority: Authority| {
        let name = authority.host().trim_matches(['[', ']']);
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    };
    values(request, header::HOST).parse().is_ok_and(is_own)
}

/// Whether a page of another site made a browser send this request.
fn is_led(request: &Request<Incoming>) -> bool {
    let (host, origin) = (values(request, header::HOST), values(request, header::ORIGIN));
    let site = values(request, HeaderName::from_static("sec-fetch-site"));
    !(origin.is_empty() || origin.split_once("://").is_some_and(|(_, from)| from == host))
        || !["", "none", "same-origin"].contains(&&*site)
}

/// Makes a capture of the length in `query`, and returns the answer. `None` after the control loop
/// has stopped.
async fn capture(asker: &mpsc::Sender<Question>, query: Option<&str>) -> Option<PageAnswer> {
    let Some(seconds) = seconds(query) else {
        let allowed = "/capture?seconds=N: N is 1 to 60; without it 1\n".to_owned();
        return Some(text(StatusCode::BAD_REQUEST, allowed));
    };
    let (captured, live) = ask(asker, move |desk| (desk.capture(seconds), desk.probe.reloads().live())).await?;
    let Some(captured) = captured else {
        return Some(text(StatusCode::CONFLICT, "another client captures: wait until it is answered\n".to_owned()));
    };
    Some(text(StatusCode::OK, flight::to_text(&captured.await.ok()?, &live.config).await))
}

/// The length of a capture from the query of its request; `None` if the length is not allowed.
fn seconds(query: Option<&str>) -> Option<Nanos> {
    let seconds = query.map_or(Some(1), |query| query.strip_prefix("seconds=")?.parse().ok())?;
    (1..=60).contains(&seconds).then(|| Nanos::from_secs(seconds))
}

/// All values of a header, separated by commas.
fn values(request: &Request<Incoming>, name: HeaderName) -> String {
    request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
}

/// The answer to `question`; `None` after the control loop has stopped.
async fn ask<T: Send + 'static>(
    asker: &mpsc::Sender<Question>,
    question: impl FnOnce(&mut Desk<'_, '_>) -> T + Send + 'static,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    // If the connection is closed, no answer is needed.
    asker.send(Box::new(|desk| drop(answer.send(question(desk))))).await.ok()?;
    answered.await.ok()
}

fn of_state(state: Result<(), String>, well: &str) -> PageAnswer {
    match state {
        Ok(()) => text(StatusCode::OK, well.to_owned()),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

/// What `/readyz` says of a server that is ready, and what an operator should know of it.
fn ready_text() -> String {
    iter::once("ready".to_owned()).chain(PRIORITIES.remarks()).map(|line| line + "\n").collect()
}

fn text(status: StatusCode, body: String) -> PageAnswer {
    let mut reply = reply(TEXT, body.into());
    *reply.status_mut() = status;
    reply
}

/// A reply with this body, compressed by gzip if the client accepts it. It uses the fastest level,
/// because the thread has other work.
fn packed(request: &Request<Incoming>, content_type: &'static str, mut body: Vec<u8>) -> PageAnswer {
    let packs = weight(&values(request, header::ACCEPT_ENCODING), &["gzip"]) > 0.0;
    if packs {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&body).expect("a vector takes everything");
        body = packed.finish().expect("a vector takes everything");
    }
    let reply = with(reply(content_type, body), header::VARY, "accept, accept-encoding");
    if packs { with(reply, header::CONTENT_ENCODING, "gzip") } else { reply }
}

/// The nonce of the page's Content-Security-Policy: a browser runs only scripts and styles that
/// carry this random text.
static NONCE: LazyLock<String> = LazyLock::new(|| format!("{:016x}", RandomState::new().hash_one("page")));

/// The page at `/`. It may connect only to this server. The browser polls the other paths and
/// draws, so the server keeps no state for the page.
fn page() -> PageAnswer {
    let body = include_str!("../page.html").replace("/*style*/", PAGE_STYLE).replace("/*charts*/", PAGE_CHARTS);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        *NONCE
    );
    let mut page = reply("text/html; charset=utf-8", body.replace("{nonce}", &NONCE).into());
    let policy = HeaderValue::try_from(policy).expect("letters and signs");
    page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    with(with(page, header::CACHE_CONTROL, "no-store"), header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn reply(content_type: &'static str, body: Vec<u8>) -> PageAnswer {
    with(Response::new(Full::from(body)), header::CONTENT_TYPE, content_type)
}

fn with(mut reply: PageAnswer, name: HeaderName, value: &'static str) -> PageAnswer {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}
