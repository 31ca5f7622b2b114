//! What a server does with its connections.

use crate::connection::Connection;
use forebay::fate::Fate;
use forebay::handler::aside_wait;
use forebay::time::Nanos;
use quinn_proto::TransportConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The error code of a stream whose request is not valid, or not served.
pub const REFUSED: u32 = 1;

/// An application over QUIC: what a server does with each connection.
///
/// ```
/// use forebay_quic::{Application, Connection};
/// use std::sync::Arc;
///
/// /// Sends back what each stream brings.
/// struct Echo;
///
/// impl Application for Echo {
///     fn protocols(&self) -> Vec<String> {
///         vec!["echo".into()]
///     }
///
///     async fn serve(self: Arc<Self>, connection: Connection) {
///         while let Ok((mut send, mut receive)) = connection.accept_bi().await {
///             let stream = async move {
///                 while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX).await {
///                     if send.write_chunk(chunk).await.is_err() {
///                         return;
///                     }
///                 }
///             };
///             let _ = connection.spawn(stream); // a client may open fewer streams than there may be tasks
///         }
///     }
/// }
/// ```
pub trait Application: Send + Sync + 'static {
    /// The application protocols (ALPN, RFC 7301) that clients may offer, the preferred one first.
    fn protocols(&self) -> Vec<String>;

    /// Changes the limits of each connection. Without it, a client may have 64 bidirectional
    /// streams open and none else, and datagrams (RFC 9221) are off.
    fn configure(&self, limits: &mut TransportConfig) {
        let _ = limits;
    }

    /// For how long the tasks of a connection may compute in one event. They learn the rest by
    /// [`Connection::here`].
    fn here(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Says what becomes of a client that asks for a connection, before the server computes for it.
    /// Clients that the [bounds](crate::service::Bounds) do not admit are not served either way.
    fn incoming(&self, incoming: &Incoming) -> Wish {
        let _ = incoming;
        Wish::Accept
    }

    /// Serves a connection whose handshake is complete: the first of its tasks. The connection is
    /// closed when its last task has ended.
    ///
    /// # Panics
    /// A panic ends the task, not the connection. The event of the shard counts as `failed`.
    fn serve(self: Arc<Self>, connection: Connection) -> impl Future<Output = ()> + Send + 'static;
}

/// A client that asks for a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Incoming {
    /// The client's address, which may be forged.
    pub remote_address: SocketAddr,
    /// The server's address at which the client asks.
    pub local_address: SocketAddr,
    /// Whether the client has proven its address, by the answer to a Retry packet.
    pub is_proven: bool,
    /// How long its signature would wait for a helper thread.
    pub wait: Duration,
}

impl Incoming {
    pub(crate) fn of(incoming: &quinn_proto::Incoming, local_address: SocketAddr) -> Incoming {
        Incoming {
            remote_address: incoming.remote_address(),
            local_address,
            is_proven: incoming.remote_address_validated(),
            wait: aside_wait(),
        }
    }
}

/// What an application wants with a client that asks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The connection may begin.
    Accept,
    /// It may begin once the client has proven its address.
    Retry,
    /// The client is told that there is none.
    Refuse,
    /// The client is told nothing, and repeats its first packet.
    Ignore,
}

/// The error code of a stream whose request ended as `fate`: the number of its status
/// ([`Status`](forebay::fate::Status)), and [`REFUSED`] for what gets no answer.
pub fn code_of(fate: Fate) -> u32 {
    fate.status().map_or(REFUSED, |status| status as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::fate::Status;

    // Does a client see by the code why its stream was reset?
    #[test]
    fn each_fate_has_a_code() {
        assert_eq!([Fate::Malformed, Fate::Ignored, Fate::Refused].map(code_of), [REFUSED; 3]);
        assert_eq!([Fate::ShedWaited, Fate::Failed].map(code_of), [8, 6]);
        assert_eq!(Status::ALL[8], Status::ShedWaited);
    }
}
