//! Requests over streams: each bidirectional stream is one request, for a handler or in a form of
//! the application's own.

use crate::application::{Application, REFUSED, code_of};
use crate::connection::{Connection, RecvStream, SendStream, Unserved};
use crate::tls::{STREAM_LEAST, WINDOW};
use forebay::Handler;
use quinn_proto::TransportConfig;
use std::sync::Arc;

/// What answers the bidirectional streams of a client, each in a task of its own.
pub trait Streams: Send + Sync + 'static {
    /// Answers a stream. An error is the code with which both of its sides end.
    fn answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> impl Future<Output = Result<(), u32>> + Send;
}

/// Answers all bidirectional streams of a connection, until it ends: an
/// [`Application::serve`].
pub async fn serve_streams<S: Streams>(streams: Arc<S>, connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let (own, on) = (Arc::clone(&streams), connection.clone());
        let stream = async move {
            if let Err(code) = own.answer(&on, &mut send, &mut receive).await {
                // The client may have closed a side itself.
                let _ = receive.stop(code);
                let _ = send.reset(code);
            }
        };
        // There may be more tasks than streams, so there is room.
        let _ = connection.spawn(stream);
    }
}

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
        serve_streams(self, connection).await;
    }
}

impl<H: Handler + Send + 'static> Streams for ByStream<H> {
    async fn answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> Result<(), u32> {
        let request = receive.read_to_end(self.request_max).await.map_err(|_| REFUSED)?;
        let served = connection.serve(&self.handler, request, self.reply_max);
        let reply = send.unless_stopped(served).await.ok_or(REFUSED)?.map_err(|unserved| match unserved {
            Unserved::As(fate) => code_of(fate),
            Unserved::ConnectionLost(_) => REFUSED,
        })?;
        // If the client is gone, it misses no reply.
        let _ = send.write_chunk(reply.into()).await;
        Ok(())
    }
}
