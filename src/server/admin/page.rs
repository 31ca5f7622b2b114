//! The page at `/`. The browser polls the other paths and draws, so the server keeps nothing for the page.

use crate::output::{PAGE_CHARTS, PAGE_STYLE};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

const PAGE: &str = include_str!("page.html");

/// A browser runs only scripts and styles that carry this text, which others cannot guess.
static NONCE: LazyLock<String> = LazyLock::new(|| format!("{:016x}", RandomState::new().hash_one("page")));

/// The page, which may talk to this server alone.
pub(super) fn page() -> Response<Full<Bytes>> {
    let body = PAGE.replace("/*style*/", PAGE_STYLE).replace("/*charts*/", PAGE_CHARTS).replace("{nonce}", &NONCE);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        *NONCE
    );
    Response::builder()
        .header(CONTENT_TYPE, "text/html; charset=utf-8")
        .header(CONTENT_SECURITY_POLICY, policy)
        .header(CACHE_CONTROL, "no-store")
        .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .body(Full::from(body))
        .expect("headers of letters and signs")
}
