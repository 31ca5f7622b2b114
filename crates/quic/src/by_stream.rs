//! A handler's requests over streams: each bidirectional stream is one request.

use crate::application::{Application, REFUSED, code_of};
use crate::connection::{Connection, RecvStream, SendStream, Unserved};
use crate::tls::{STREAM_LEAST, WINDOW};
use forebay::Handler;
use quinn_proto::TransportConfig;
use std::sync::Arc;

/// A handler whose requests come over streams. The client sends a request and finishes its side.
/// The server answers with the reply, and finishes its own.
pub struct ByStream<H> {
    /// The handler.
    pub handler: Arc<H>,
    /// The application protocol.
    pub protocol: String,
    /// The longest request, in bytes.
    pub request_max: usize,
    /// The longest reply, in bytes.
    pub reply_max: usize,
}

impl<H: Handler + Send + 'static> Application for ByStream<H> {
    fn protocols(&self) -> Vec<String> {
        vec![self.protocol.clone()]
    }

    /// No request fills the window of its stream before it ends.
    fn configure(&self, limits: &mut TransportConfig) {
        let window = u32::try_from(self.request_max + 1).unwrap_or(WINDOW);
        limits.stream_receive_window(window.clamp(STREAM_LEAST, WINDOW).into());
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        while let Ok((send, receive)) = connection.accept_bi().await {
            let (own, on) = (Arc::clone(&self), connection.clone());
            // There may be more tasks than streams, so there is room.
            let _ = connection.spawn(async move { own.answer(&on, send, receive).await });
        }
    }
}

impl<H: Handler + Send + 'static> ByStream<H> {
    /// Serves the request of a stream.
    async fn answer(&self, connection: &Connection, mut send: SendStream, mut receive: RecvStream) {
        let code = match receive.read_to_end(self.request_max).await {
            Err(_) => REFUSED,
            Ok(request) => {
                let served = connection.serve(&self.handler, request, self.reply_max);
                match send.unless_stopped(served).await {
                    Some(Ok(reply)) => return drop(send.write_chunk(reply.into()).await),
                    Some(Err(Unserved::As(fate))) => code_of(fate),
                    Some(Err(Unserved::ConnectionLost(_))) | None => REFUSED,
                }
            }
        };
        // The client may have closed a side itself.
        let _ = receive.stop(code);
        let _ = send.reset(code);
    }
}
