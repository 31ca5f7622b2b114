//! The datagrams of a connection, and those that wait while a helper thread has it.

use bytes::BytesMut;
use forebay::Request;
use quinn_proto::{DatagramEvent, EcnCodepoint, Endpoint};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most datagrams that wait for a connection that a helper thread has. Clients send two to
/// four before they hear from the server, and repeat what is lost.
const INBOX_MAX: usize = 8;

/// A signature for a client that has been silent for this long would come too late. Clients repeat
/// their first packet after a second.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// Now, for the protocol.
#[expect(clippy::disallowed_methods, reason = "the protocol counts so")]
pub fn now() -> Instant {
    Instant::now()
}

/// A datagram that has come.
#[derive(Debug)]
pub struct Datagram {
    at: Instant,
    peer: SocketAddr,
    local: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: BytesMut,
}

impl Datagram {
    /// The datagram of `request` with these `bytes`.
    pub fn of(request: Request<'_>, bytes: &[u8]) -> Datagram {
        let ecn = EcnCodepoint::from_bits(request.ecn());
        Datagram { at: now(), peer: request.peer(), local: request.local(), ecn, bytes: BytesMut::from(bytes) }
    }

    /// The server's address at which it came.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Gives the datagram to `endpoint`, which may write an answer to it.
    pub fn enter(self, endpoint: &mut Endpoint, answer: &mut Vec<u8>) -> Option<DatagramEvent> {
        endpoint.handle(self.at, self.peer, Some(self.local.ip()), self.ecn, self.bytes, answer)
    }
}

/// The datagrams that wait for a connection that a helper thread has.
#[derive(Debug, Default)]
pub struct Inbox(Mutex<VecDeque<Datagram>>);

impl Inbox {
    /// Adds a datagram. Without room it is lost, as in a network.
    pub fn add(&self, datagram: Datagram) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < INBOX_MAX {
            waiting.push_back(datagram);
        }
    }

    /// Takes the oldest datagram.
    pub fn next(&self) -> Option<Datagram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Forgets all datagrams.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether the newest datagram came so long ago that its client sends it again, or has gone.
    pub fn is_late(&self, now: Instant) -> bool {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.back().is_none_or(|newest| now.saturating_duration_since(newest.at) >= SILENT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(at: Instant) -> Datagram {
        let address = ([192, 0, 2, 1], 9).into();
        Datagram { at, peer: address, local: address, ecn: None, bytes: BytesMut::new() }
    }

    // How much waits for a connection that is away? Is it late only if its newest part is?
    #[test]
    fn an_inbox_has_a_bound_and_knows_when_it_is_late() {
        let (inbox, then) = (Inbox::default(), now());
        (0..INBOX_MAX + 5).for_each(|_| inbox.add(datagram(then)));
        let later = |ms| then + Duration::from_millis(ms);
        assert!(!inbox.is_late(later(999)) && inbox.is_late(later(1_000)));
        assert_eq!(std::iter::from_fn(|| inbox.next()).count(), INBOX_MAX);
        for ms in [0, 600] {
            inbox.add(datagram(later(ms)));
        }
        assert!(!inbox.is_late(later(1_500)) && inbox.is_late(later(1_600)));
        inbox.clear();
        assert!(inbox.is_empty() && inbox.is_late(then));
    }
}
