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
use futures_util::future::{Either, select};
use http::Request;
use std::pin::pin;
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
/// its connection. If the server [stops](Connection::stopping), the client learns which requests it
/// may send elsewhere (GOAWAY, RFC 9114, section 5.2). The others are answered.
pub async fn serve<F>(connection: &Connection, answer: impl Fn(Request<()>, Stream) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(mut requests) = h3::server::builder().build(Transport::new(connection.clone())).await else { return };
    let answer = Arc::new(answer);
    let mut stopping = pin!(connection.stopping());
    loop {
        let accepted = match select(pin!(requests.accept()), stopping.as_mut()).await {
            Either::Left((accepted, _)) => Some(accepted),
            Either::Right(_) => None,
        };
        let resolver = match accepted {
            Some(Ok(Some(resolver))) => resolver,
            Some(Err(_)) => return,
            // The client wants nothing more.
            Some(Ok(None)) => break,
            None => {
                // The number is that of the first request that is not served.
                let _ = requests.shutdown(1).await;
                break;
            }
        };
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
    // Without `requests`, the connection would be closed before the last answers have left.
    connection.closed().await;
}
