//! What a server does with its connections.

use crate::connection::Connection;
use forebay::fate::Fate;
use forebay::time::Nanos;
use quinn_proto::TransportConfig;
use std::sync::Arc;

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

    /// Serves a connection whose handshake is complete: the first of its tasks. The connection is
    /// closed when its last task has ended.
    ///
    /// # Panics
    /// A panic ends the task, not the connection. The event of the shard counts as `failed`.
    fn serve(self: Arc<Self>, connection: Connection) -> impl Future<Output = ()> + Send + 'static;
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
