//! [`SendStream`]: the server's side of a stream.

use super::shared::{Shared, State};
use bytes::Bytes;
use quinn_proto::{ClosedStream, ConnectionError, FinishError, StreamId, VarInt};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use tokio::io::AsyncWrite;

/// The error code of streams whose task panics.
pub(crate) const PANICKED: VarInt = VarInt::from_u32(6);

/// A stream on which the server sends. All methods mean what they mean in quinn.
///
/// Dropped, it is finished: what was written still goes to the client. If its task panics, it is
/// reset with the code 6.
#[derive(Debug)]
pub struct SendStream {
    shared: Arc<Shared>,
    id: StreamId,
}

/// Why nothing can be written to a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The client has stopped it with this error code.
    #[error("the client has stopped the stream with the code {0}")]
    Stopped(VarInt),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// It was finished or reset before.
    #[error("the stream is closed")]
    ClosedStream,
}

impl SendStream {
    pub(crate) fn new(shared: &Arc<Shared>, id: StreamId) -> SendStream {
        SendStream { shared: Arc::clone(shared), id }
    }

    /// Writes what `write` does, or waits until it can.
    fn poll_with<T>(
        &self,
        context: &Context<'_>,
        write: impl FnOnce(quinn_proto::SendStream<'_>) -> Result<T, quinn_proto::WriteError>,
    ) -> Poll<Result<T, WriteError>> {
        self.shared.act(|state: &mut State| {
            if let Some(why) = &state.lost {
                return Poll::Ready(Err(why.clone().into()));
            }
            match write(state.connection.send_stream(self.id)) {
                Ok(done) => Poll::Ready(Ok(done)),
                Err(quinn_proto::WriteError::Blocked) => state.wait(|state| &mut state.writers, self.id, context),
                Err(quinn_proto::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code))),
                Err(quinn_proto::WriteError::ClosedStream) => Poll::Ready(Err(WriteError::ClosedStream)),
            }
        })
    }

    /// As [`SendStream::write`], for futures that are written by hand.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn poll_write_some(&mut self, context: &Context<'_>, bytes: &[u8]) -> Poll<Result<usize, WriteError>> {
        self.poll_with(context, |mut stream| stream.write(bytes))
    }

    /// Writes some of `bytes`. Returns how many.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|context| self.poll_write_some(context, bytes)).await
    }

    /// Writes all of `bytes`. If the future is dropped, some of them may be written.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.write(bytes).await?..];
        }
        Ok(())
    }

    /// Writes all of `chunk`, without a copy. If the future is dropped, some of it may be written.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        let mut chunks = [chunk];
        while !chunks[0].is_empty() {
            // It leaves in `chunks` what is not written.
            poll_fn(|context| self.poll_with(context, |mut stream| stream.write_chunks(&mut chunks))).await?;
        }
        Ok(())
    }

    /// Tells the client that nothing more comes.
    ///
    /// # Errors
    /// [`ClosedStream`] if it was finished or reset before. It is no error if the client has
    /// stopped it.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        self.shared.act(|state| match state.connection.send_stream(self.id).finish() {
            Ok(()) | Err(FinishError::Stopped(_)) => Ok(()),
            Err(FinishError::ClosedStream) => Err(ClosedStream::default()),
        })
    }

    /// Ends it with an error code. What was written and has not arrived is dropped.
    ///
    /// # Errors
    /// [`ClosedStream`] if it was finished or reset before.
    pub fn reset(&mut self, code: impl Into<VarInt>) -> Result<(), ClosedStream> {
        self.shared.act(|state| state.connection.send_stream(self.id).reset(code.into()))
    }

    /// Waits until the client has stopped it, and returns the client's error code. `None` if all
    /// that was written has arrived, or if it was reset.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn stopped(&mut self) -> Result<Option<VarInt>, ConnectionError> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            match state.connection.send_stream(self.id).stopped() {
                Err(ClosedStream { .. }) => Poll::Ready(Ok(None)),
                Ok(Some(code)) => Poll::Ready(Ok(Some(code))),
                Ok(None) => match &state.lost {
                    Some(why) => Poll::Ready(Err(why.clone())),
                    None => state.wait(|state| &mut state.stopped, self.id, context),
                },
            }
        })
        .await
    }

    /// What `work` returns. `None` if the client stops the stream before, or the connection ends;
    /// `work` is then dropped.
    pub async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut stopped) = (pin!(work), pin!(self.stopped()));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => stopped.as_mut().poll(context).map(|_| None),
        })
        .await
    }

    /// Sets the priority. Of the streams of a connection, those with the highest number send first;
    /// it is 0 at the beginning.
    ///
    /// # Errors
    /// [`ClosedStream`] if it was finished or reset before.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        self.shared.act(|state| state.connection.send_stream(self.id).set_priority(priority))
    }

    /// The priority.
    ///
    /// # Errors
    /// [`ClosedStream`] if it was finished or reset before.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        self.shared.lock().connection.send_stream(self.id).priority()
    }

    /// The stream's ID.
    pub fn id(&self) -> StreamId {
        self.id
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let id = self.id;
        self.shared.act(|state| {
            state.writers.remove(&id);
            state.stopped.remove(&id);
            let mut stream = state.connection.send_stream(id);
            // It may be closed already.
            let _ = match thread::panicking() {
                true => stream.reset(PANICKED).ok(),
                false => match stream.finish() {
                    Err(FinishError::Stopped(code)) => stream.reset(code).ok(),
                    _ => None,
                },
            };
        });
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_some(context, bytes).map_err(io::Error::from)
    }

    /// Packets leave at the end of each event, so there is nothing to do.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().finish().map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error)))
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> io::Error {
        let kind = match error {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::ConnectionLost(_) | WriteError::ClosedStream => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, error)
    }
}
