//! `PUT /policy` and `PUT /log`: a client changes a setting of the running server, until that reads its configuration again.

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use std::net::SocketAddr;
use tokio::sync::oneshot;

/// The longest value in bytes. Names are far shorter.
pub(super) const VALUE_BYTES_MAX: usize = 256;

/// A setting that a client changes.
#[derive(Debug)]
pub(in crate::server) struct Put {
    pub(in crate::server) key: &'static str,
    pub(in crate::server) value: String,
    pub(in crate::server) peer: SocketAddr,
    /// Takes how long the value stays, or all that is wrong with it.
    pub(in crate::server) answer: oneshot::Sender<Result<String, String>>,
}

/// The setting that a PUT of `path` changes.
pub(super) fn setting(path: &str) -> Option<&'static str> {
    match path {
        "/policy" => Some("policy"),
        "/log" => Some("log-level"),
        _ => None,
    }
}

/// The value in `body`; `None` where it is longer than any.
pub(super) async fn value(body: Incoming) -> Option<String> {
    let body = Limited::new(body, VALUE_BYTES_MAX).collect().await.ok()?;
    Some(String::from_utf8_lossy(&body.to_bytes()).trim().to_owned())
}

/// Whether `peer` may change a setting: it is on this host, or has the token.
pub(super) fn may_put(peer: SocketAddr, authorization: &str, is_token: impl FnOnce(&str) -> bool) -> bool {
    let given = authorization.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    peer.ip().to_canonical().is_loopback() || given.is_some_and(|(_, given)| is_token(given.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Who may change a setting, and does a wrong token, or another scheme, count as none?
    #[test]
    fn another_host_needs_the_token() {
        let may = |peer: &str, authorization: &str| {
            may_put(peer.parse().expect("an address"), authorization, |given| given == "secret")
        };
        for here in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(may(here, "") && may(here, "Bearer wrong"), "{here}");
        }
        for elsewhere in ["10.0.0.1:1", "[fd00::1]:1", "[::ffff:10.0.0.1]:1", "0.0.0.0:1", "[::]:1"] {
            for authorization in ["Bearer secret", "bearer  secret"] {
                assert!(may(elsewhere, authorization), "{elsewhere} {authorization}");
            }
            for authorization in ["", "secret", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "Bearer secret,x"]
            {
                assert!(!may(elsewhere, authorization), "{elsewhere} {authorization:?}");
            }
        }
    }
}
