//! The connection and the streams of forebay-quic, as h3 sees them.

use bytes::{Buf, Bytes};
use forebay_quic::connection::{ReadError, WriteError};
use forebay_quic::quinn_proto::{ConnectionError, StreamId, VarInt};
use forebay_quic::{Connection, RecvStream, SendStream};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, WriteBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A future that is made when it is first polled, and anew after its end.
struct Again<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Again<T> {
    fn poll<F>(&mut self, context: &mut Context<'_>, make: impl FnOnce() -> F) -> Poll<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let made = ready!(self.0.get_or_insert_with(|| Box::pin(make())).as_mut().poll(context));
        self.0 = None;
        Poll::Ready(made)
    }
}

/// What accepting or opening a stream results in.
type Opened<S> = Again<Result<S, ConnectionError>>;

/// A connection, for [`h3::server::builder`] and [`h3::client::builder`].
pub struct Transport {
    connection: Connection,
    accepts: Opened<(SendStream, RecvStream)>,
    accepts_uni: Opened<RecvStream>,
    opens: Opened<(SendStream, RecvStream)>,
    opens_uni: Opened<SendStream>,
}

impl Transport {
    /// That of `connection`.
    pub fn new(connection: Connection) -> Transport {
        Transport {
            connection,
            accepts: Again(None),
            accepts_uni: Again(None),
            opens: Again(None),
            opens_uni: Again(None),
        }
    }
}

impl<B: Buf> quic::Connection<B> for Transport {
    type RecvStream = Receiving;
    type OpenStreams = Transport;

    fn poll_accept_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Receiving, ConnectionErrorIncoming>> {
        let on = &self.connection;
        let accepted = self.accepts_uni.poll(context, || {
            let on = on.clone();
            async move { on.accept_uni().await }
        });
        accepted.map_ok(Receiving).map_err(lost)
    }

    fn poll_accept_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Both<B>, ConnectionErrorIncoming>> {
        let on = &self.connection;
        let accepted = self.accepts.poll(context, || {
            let on = on.clone();
            async move { on.accept_bi().await }
        });
        accepted.map_ok(Both::new).map_err(lost)
    }

    fn opener(&self) -> Transport {
        Transport::new(self.connection.clone())
    }
}

impl<B: Buf> quic::OpenStreams<B> for Transport {
    type BidiStream = Both<B>;
    type SendStream = Sending<B>;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Both<B>, StreamErrorIncoming>> {
        let on = &self.connection;
        let opened = self.opens.poll(context, || {
            let on = on.clone();
            async move { on.open_bi().await }
        });
        opened.map_ok(Both::new).map_err(gone)
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<Sending<B>, StreamErrorIncoming>> {
        let on = &self.connection;
        let opened = self.opens_uni.poll(context, || {
            let on = on.clone();
            async move { on.open_uni().await }
        });
        opened.map_ok(Sending::new).map_err(gone)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(code_of(code.value()), reason);
    }
}

/// A stream on which the server sends.
pub struct Sending<B> {
    stream: SendStream,
    /// What is still to be written.
    held: Option<WriteBuf<B>>,
}

impl<B> Sending<B> {
    fn new(stream: SendStream) -> Sending<B> {
        Sending { stream, held: None }
    }
}

// Nothing in it is pinned.
impl<B> Unpin for Sending<B> {}

impl<B: Buf> quic::SendStream<B> for Sending<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(held) = &mut self.held {
            if !held.has_remaining() {
                self.held = None;
                break;
            }
            let written = ready!(self.stream.poll_write_some(context, held.chunk())).map_err(unwritten)?;
            held.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.held.is_some() {
            let text = "more is sent before the stream is ready".to_owned();
            let connection_error = ConnectionErrorIncoming::InternalError(text);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.held = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(quic::SendStream::<B>::poll_ready(self, context))?;
        Poll::Ready(self.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        let _ = self.stream.reset(code_of(code));
    }

    fn send_id(&self) -> quic::StreamId {
        id_of(self.stream.id())
    }
}

/// A stream on which the client sends.
pub struct Receiving(RecvStream);

impl quic::RecvStream for Receiving {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_read_chunk(context, usize::MAX).map_err(unread)
    }

    fn stop_sending(&mut self, code: u64) {
        let _ = self.0.stop(code_of(code));
    }

    fn recv_id(&self) -> quic::StreamId {
        id_of(self.0.id())
    }
}

/// Both sides of a bidirectional stream.
pub struct Both<B> {
    send: Sending<B>,
    receive: Receiving,
}

impl<B> Both<B> {
    fn new((send, receive): (SendStream, RecvStream)) -> Both<B> {
        Both { send: Sending::new(send), receive: Receiving(receive) }
    }
}

impl<B: Buf> quic::BidiStream<B> for Both<B> {
    type SendStream = Sending<B>;
    type RecvStream = Receiving;

    fn split(self) -> (Sending<B>, Receiving) {
        (self.send, self.receive)
    }
}

impl<B: Buf> quic::SendStream<B> for Both<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> quic::StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for Both<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> quic::StreamId {
        self.receive.recv_id()
    }
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn id_of(id: StreamId) -> quic::StreamId {
    u64::from(id).try_into().expect("both are numbers below 2^62 (RFC 9000, section 2.1)")
}

fn lost(why: ConnectionError) -> ConnectionErrorIncoming {
    match why {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn gone(why: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: lost(why) }
}

fn unread(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(why) => gone(why),
        closed @ ReadError::ClosedStream => StreamErrorIncoming::Unknown(Box::new(closed)),
    }
}

fn unwritten(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(why) => gone(why),
        closed @ WriteError::ClosedStream => StreamErrorIncoming::Unknown(Box::new(closed)),
    }
}
