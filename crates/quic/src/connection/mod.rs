//! A connection, as the application sees it.
//!
//! The tasks of a connection live in its shard (`tasks`): the events of the shard poll them. A
//! handle acts on what the connection's handles share (`shared`). `wake` wakes the task that
//! may then go on. What takes long is begun as a request of its own (`requests`).

pub(crate) mod begun;
mod recv;
pub(crate) mod requests;
mod send;
pub(crate) mod shared;
pub(crate) mod tasks;
pub(crate) mod told;
pub(crate) mod wake;

pub use recv::{ReadError, ReadExactError, ReadToEndError, RecvStream};
pub use requests::Unserved;
pub use send::{SendStream, WriteError};
pub use tasks::TASKS_MAX;
pub use told::Told;

use bytes::Bytes;
use forebay::handler::Full;
use forebay::time::Nanos;
use forebay::{Admitted, Handler};
use quinn_proto::{ConnectionError, ConnectionStats, Dir, SendDatagramError, StreamId, VarInt};
use shared::Shared;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A QUIC connection. Cheap to clone. Methods that quinn has too mean what they mean there.
///
/// Its tasks run in its shard, one at a time, in the events of its packets. So a task takes no lock
/// that another thread holds, and must not compute for long: meanwhile the packets of the whole
/// shard wait. What takes long goes to [`begin`](Connection::begin), or
/// [`serve`](Connection::serve) if a [`Handler`] does it. Tasks pass
/// [checkpoints](forebay::checkpoint) without a pause. They may wait for anything, such as
/// [`forebay::handler::sleep`] or a channel.
///
/// A handle may be given to other threads. The connection is closed when its last task has ended,
/// whether or not there are handles. Before, what the tasks have written is sent, as far as the
/// congestion window allows. When it has ended in another way, its tasks learn that from
/// errors. They are dropped once the protocol has done with it, seconds later at most.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
}

impl Connection {
    /// The next bidirectional stream that the client opens.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((SendStream::new(&self.shared, id), RecvStream::new(&self.shared, id)))
    }

    /// The next unidirectional stream that the client opens.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Dir::Uni).await?;
        Ok(RecvStream::new(&self.shared, id))
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        self.shared.until(&self.shared.opened[dir as usize], |state| state.accept(dir)).await
    }

    /// Opens a bidirectional stream, once the client allows one more. The client learns of it when
    /// something is written.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((SendStream::new(&self.shared, id), RecvStream::new(&self.shared, id)))
    }

    /// Opens a unidirectional stream, once the client allows one more. The client learns of it when
    /// something is written.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let id = self.open(Dir::Uni).await?;
        Ok(SendStream::new(&self.shared, id))
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        self.shared.until(&self.shared.available[dir as usize], |state| state.open(dir)).await
    }

    /// The next datagram of the connection (RFC 9221). There are none unless
    /// [`Application::configure`](crate::Application::configure) gives them a buffer.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let next = |state: &mut shared::State| {
            let datagram = state.connection.datagrams().recv().map(Ok);
            datagram.or_else(|| state.lost.clone().map(Err))
        };
        self.shared.until(&self.shared.datagrams, next).await
    }

    /// Sends a datagram of the connection (RFC 9221), which may be lost. If the buffer is full, it
    /// replaces the oldest one.
    ///
    /// # Errors
    /// If the connection has ended, the client takes no datagrams, or this one is too long.
    pub fn send_datagram(&self, bytes: Bytes) -> Result<(), DatagramError> {
        self.shared.act(|state| match &state.lost {
            Some(why) => Err(DatagramError::ConnectionLost(why.clone())),
            None => Ok(state.connection.datagrams().send(bytes, true)?),
        })
    }

    /// The bytes of the longest datagram that may be sent now. `None` if the client takes none.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.shared.lock().connection.datagrams().max_size()
    }

    /// Lets `task` run in the connection's shard, beside the other tasks of the connection.
    ///
    /// # Errors
    /// [`Full`] with `task`, if the connection has [`TASKS_MAX`] tasks already, or has ended.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) -> Result<(), Full<F>> {
        self.shared.act(|state| {
            if state.tasks >= TASKS_MAX || state.lost.is_some() {
                return Err(Full(task));
            }
            state.tasks += 1;
            state.spawned.push(Box::pin(task));
            Ok(())
        })
    }

    /// Lets `work` run as a request of its own, on any worker, and returns its result. The other
    /// tasks go on meanwhile. As with [`Out::begin`](forebay::Out::begin), the policy treats it as
    /// a fresh request, with the class, the deadline and the expected CPU time of `admitted`. Its
    /// client is that of the connection. It may pass checkpoints, hop and fork.
    ///
    /// If too many are under way, this waits until there is room. If the future is dropped, `work`
    /// ends where it next pauses.
    ///
    /// # Errors
    /// [`Unserved`] if `work` ended in another way, or the connection has.
    pub async fn begin<W>(&self, admitted: Admitted, work: W) -> Result<W::Output, Unserved>
    where
        W: Future<Output: Send + 'static> + Send + 'static,
    {
        requests::begin(&self.shared, admitted, work).await
    }

    /// Lets `handler` serve `request` as a request of its own, on any worker, and returns the
    /// reply, of at most `reply_max` bytes. It is empty if the handler has written none. The other
    /// tasks go on meanwhile. See [`Out::serve`](forebay::Out::serve): to `handler` it is a request
    /// as datagrams bring them.
    ///
    /// If too many are under way, this waits until there is room. If the future is dropped, the
    /// request ends where it next pauses.
    ///
    /// # Errors
    /// [`Unserved`] if the request has no reply, or the connection has ended.
    pub async fn serve<H>(&self, handler: &Arc<H>, request: Vec<u8>, reply_max: usize) -> Result<Vec<u8>, Unserved>
    where
        H: Handler + Send + 'static,
    {
        requests::serve(&self.shared, handler, request, reply_max).await
    }

    /// For how long the tasks of the connection may still compute in this event; see
    /// [`Application::here`](crate::Application::here). Zero on other threads.
    pub fn here(&self) -> Nanos {
        if self.shared.link.is_driven_here() { self.shared.lock().here() } else { Nanos::ZERO }
    }

    /// Waits until the server stops, or the connection has ended. Nothing comes from the client any
    /// more. The connection is closed once the requests that its tasks have begun are over, and
    /// what the congestion window allows has been sent.
    pub async fn stopping(&self) {
        let stops = |state: &mut shared::State| (state.is_stopping || state.lost.is_some()).then_some(());
        self.shared.until(&self.shared.stopping, stops).await;
    }

    /// Waits until the connection has ended, and returns why.
    pub async fn closed(&self) -> ConnectionError {
        self.shared.until(&self.shared.closed, |state| state.lost.clone()).await
    }

    /// Why the connection has ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared.lock().lost.clone()
    }

    /// Closes the connection at once, with an error code and a reason that the client is told. What
    /// has not arrived is lost.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.shared.close(code, reason);
    }

    /// The client's address now. Clients may move.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared.lock().connection.remote_address()
    }

    /// The server's address that the client knows.
    pub fn local_address(&self) -> SocketAddr {
        self.shared.local
    }

    /// The latest estimate of the round-trip time.
    pub fn rtt(&self) -> Duration {
        self.shared.lock().connection.rtt()
    }

    /// Figures of the connection.
    pub fn stats(&self) -> ConnectionStats {
        self.shared.lock().connection.stats()
    }

    /// The client's certificates, if it has sent some: a `Vec<rustls::pki_types::CertificateDer>`.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.shared.lock().connection.crypto_session().peer_identity()
    }

    /// What the handshake has agreed on: a `quinn_proto::crypto::rustls::HandshakeData`, with the
    /// application protocol and the server's name that the client asked for.
    pub fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.shared.lock().connection.crypto_session().handshake_data()
    }

    /// Sets how many bidirectional streams the client may have open.
    pub fn set_max_concurrent_bi_streams(&self, count: VarInt) {
        self.shared.act(|state| state.connection.set_max_concurrent_streams(Dir::Bi, count));
    }

    /// Sets how many unidirectional streams the client may have open.
    pub fn set_max_concurrent_uni_streams(&self, count: VarInt) {
        self.shared.act(|state| state.connection.set_max_concurrent_streams(Dir::Uni, count));
    }
}

/// Why a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The connection takes no such datagram.
    #[error(transparent)]
    NotTaken(#[from] SendDatagramError),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    ConnectionLost(ConnectionError),
}
