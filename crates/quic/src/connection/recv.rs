//! [`RecvStream`]: the client's side of a stream.

use super::shared::{Shared, State};
use bytes::Bytes;
use quinn_proto::{ClosedStream, ConnectionError, ReadableError, StreamId, VarInt};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// A stream on which the server receives. All methods mean what they mean in quinn.
///
/// Dropped before its end, it is stopped with the code 0.
#[derive(Debug)]
pub struct RecvStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// Whether nothing more comes.
    ended: bool,
}

/// Why nothing can be read from a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The client has reset it with this error code.
    #[error("the client has reset the stream with the code {0}")]
    Reset(VarInt),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// It was stopped before.
    #[error("the stream is closed")]
    ClosedStream,
}

/// Why not all of a stream could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadToEndError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stream is longer than was allowed.
    #[error("the stream is too long")]
    TooLong,
}

/// Why a buffer could not be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadExactError {
    /// The stream ended after this number of bytes.
    #[error("the stream ended after {0} bytes")]
    FinishedEarly(usize),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl RecvStream {
    pub(crate) fn new(shared: &Arc<Shared>, id: StreamId) -> RecvStream {
        RecvStream { shared: Arc::clone(shared), id, ended: false }
    }

    /// As [`RecvStream::read_chunk`], for futures that are written by hand.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn poll_read_chunk(&mut self, context: &Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        let id = self.id;
        let read = self.shared.act(|state: &mut State| {
            let mut stream = state.connection.recv_stream(id);
            let mut chunks = match stream.read(true) {
                Ok(chunks) => chunks,
                Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                    return Poll::Ready(Err(ReadError::ClosedStream));
                }
            };
            let next = chunks.next(most);
            // The result does not matter: after each event, all packets are sent.
            let _ = chunks.finalize();
            match next {
                Ok(chunk) => Poll::Ready(Ok(chunk.map(|chunk| chunk.bytes))),
                Err(quinn_proto::ReadError::Reset(code)) => Poll::Ready(Err(ReadError::Reset(code))),
                Err(quinn_proto::ReadError::Blocked) => match &state.lost {
                    Some(why) => Poll::Ready(Err(why.clone().into())),
                    None => state.wait(|state| &mut state.readers, id, context),
                },
            }
        });
        self.ended |= matches!(read, Poll::Ready(Ok(None) | Err(ReadError::Reset(_))));
        read
    }

    /// Reads at most `most` bytes, as they have come, without a copy. `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_chunk(&mut self, most: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|context| self.poll_read_chunk(context, most)).await
    }

    /// Reads some bytes into `buffer`. Returns how many; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let chunk = self.read_chunk(buffer.len()).await?;
        Ok(chunk.map(|chunk| {
            buffer[..chunk.len()].copy_from_slice(&chunk);
            chunk.len()
        }))
    }

    /// Fills `buffer`. If the future is dropped, what it has read is lost.
    ///
    /// # Errors
    /// [`ReadExactError`].
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = self.read(&mut buffer[filled..]).await?;
            filled += read.ok_or(ReadExactError::FinishedEarly(filled))?;
        }
        Ok(())
    }

    /// Reads all that comes, at most `limit` bytes. If the future is dropped, what it has read is
    /// lost.
    ///
    /// # Errors
    /// [`ReadToEndError`].
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk((limit - all.len()).saturating_add(1)).await? {
            if all.len() + chunk.len() > limit {
                return Err(ReadToEndError::TooLong);
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Tells the client to send no more, with an error code. What has come and was not read is
    /// dropped.
    ///
    /// # Errors
    /// [`ClosedStream`] if it has ended, or was stopped before.
    pub fn stop(&mut self, code: impl Into<VarInt>) -> Result<(), ClosedStream> {
        self.shared.act(|state| state.connection.recv_stream(self.id).stop(code.into()))
    }

    /// The stream's ID.
    pub fn id(&self) -> StreamId {
        self.id
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let (id, ended) = (self.id, self.ended);
        self.shared.act(|state| {
            state.readers.remove(&id);
            if !ended {
                // It may have ended unread, or been stopped.
                let _ = state.connection.recv_stream(id).stop(VarInt::from_u32(0));
            }
        });
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = self.get_mut().poll_read_chunk(context, buffer.remaining());
        read.map_ok(|chunk| buffer.put_slice(&chunk.unwrap_or_default())).map_err(io::Error::from)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        let kind = match error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(_) | ReadError::ClosedStream => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, error)
    }
}
