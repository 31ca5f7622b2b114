//! `PUT /policy` and `PUT /log`: a client changes a setting of the running server, until that reads its configuration again.

use std::net::SocketAddr;
use tokio::sync::oneshot;

/// A setting that a client changes.
#[derive(Debug)]
pub(in crate::server) struct Put {
    pub(in crate::server::admin) key: &'static str,
    pub(in crate::server::admin) value: String,
    pub(in crate::server::admin) peer: SocketAddr,
    /// Takes how long the value stays, or all that is wrong with it.
    pub(in crate::server::admin) answer: oneshot::Sender<Result<String, String>>,
}
