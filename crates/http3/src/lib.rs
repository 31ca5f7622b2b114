//! HTTP/3 (RFC 9114) over [`forebay_quic`], by the crate [`h3`].
//!
//! [`serve`] answers the requests of a connection, each in a task of its own. README.md shows a
//! whole program. What takes long goes to [`Connection::begin`], so that it holds up no other
//! request of the connection. [`Transport`] is for programs that use [`h3`] themselves.

mod transport;

pub use transport::{Both, Receiving, Sending, Transport};

use bytes::Bytes;
use forebay_quic::Connection;
use forebay_quic::quinn_proto::TransportConfig;
use http::Request;
use std::sync::Arc;

/// The application protocol, for [`Application::protocols`](forebay_quic::Application::protocols).
pub const PROTOCOL: &str = "h3";

/// The unidirectional streams that a client may open. One has its settings, and two are for headers
/// (RFC 9114, section 6.2). Others are unknown here, and ignored.
const CLIENT_STREAMS: u32 = 8;

/// The stream of one request: its body comes from it, and the answer goes to it.
pub type Stream = h3::server::RequestStream<Both<Bytes>, Bytes>;

/// Sets the limits that HTTP/3 needs, for
/// [`Application::configure`](forebay_quic::Application::configure).
pub fn configure(limits: &mut TransportConfig) {
    limits.max_concurrent_uni_streams(CLIENT_STREAMS.into());
}

/// Answers the requests of a connection, until it ends. Each call of `answer` runs as a task of its
/// own, and ends with the connection.
///
/// A request that is not valid is answered as [`h3`] does. A client that breaks the protocol loses
/// its connection.
pub async fn serve<F>(connection: &Connection, answer: impl Fn(Request<()>, Stream) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(mut requests) = h3::server::builder().build(Transport::new(connection.clone())).await else { return };
    let answer = Arc::new(answer);
    while let Ok(Some(resolver)) = requests.accept().await {
        let answer = Arc::clone(&answer);
        let task = async move {
            // Its headers may come in parts. Meanwhile others are accepted.
            if let Ok((request, stream)) = resolver.resolve_request().await {
                answer(request, stream).await;
            }
        };
        // There may be more tasks than streams, so there is room.
        let _ = connection.spawn(task);
    }
}
