//! A request, as its handler sees it.

use super::Arrival;
use super::admission::time_of_day;
use crate::time::Nanos;
use std::net::SocketAddr;
use std::time::SystemTime;

/// A request that was admitted.
#[derive(Debug)]
pub struct Request<'a, T = ()> {
    arrival: &'a Arrival<'a>,
    ticket: &'a T,
    class: u8,
    expires_at: Option<Nanos>,
    worker: usize,
}

// Not derived: a request is a reference, whatever its ticket is.
impl<T> Clone for Request<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Request<'_, T> {}

impl<'a, T> Request<'a, T> {
    /// A request of class 0 without a deadline, on worker 0; for tests of handlers, too.
    pub fn new(arrival: &'a Arrival<'a>, ticket: &'a T) -> Request<'a, T> {
        Request { arrival, ticket, class: 0, expires_at: None, worker: 0 }
    }

    pub(crate) fn admitted(self, class: u8, expires_at: Option<Nanos>, worker: usize) -> Request<'a, T> {
        Request { class, expires_at, worker, ..self }
    }

    /// The datagram, at most `--datagram-max` bytes long.
    pub fn bytes(&self) -> &'a [u8] {
        self.arrival.bytes()
    }

    /// The source address of the datagram.
    pub fn peer(&self) -> SocketAddr {
        self.arrival.peer()
    }

    /// The address that the datagram was sent to; the reply leaves from it.
    pub fn local(&self) -> SocketAddr {
        self.arrival.local()
    }

    /// When the datagram came to the socket, by the kernel's receive stamp, on the clock of
    /// [`clock::now`](crate::time::clock::now).
    pub fn arrived_at(&self) -> Nanos {
        self.arrival.arrived_at()
    }

    /// When the datagram came to the socket, as a time of day: for protocols that send it, such as NTP.
    pub fn time_of_arrival(&self) -> SystemTime {
        time_of_day(self.arrived_at())
    }

    /// When the answer becomes worthless, on the clock of [`clock::now`](crate::time::clock::now); `None` without a
    /// deadline.
    pub fn expires_at(&self) -> Option<Nanos> {
        self.expires_at
    }

    /// The class that [`Handler::admit`](super::Handler::admit) put the request into.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// The worker on which the request began, counted from 0: for memory of the handler's own that workers do not
    /// contend for. After a checkpoint the request may be on another one.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The ticket that [`Handler::admit`](super::Handler::admit) gave the request.
    pub fn ticket(&self) -> &'a T {
        self.ticket
    }

    /// The same request with another ticket, for a handler that passes it on to another one.
    pub fn with_ticket<'b, U>(&self, ticket: &'b U) -> Request<'b, U>
    where
        'a: 'b,
    {
        let Request { arrival, class, expires_at, worker, .. } = *self;
        Request { arrival, ticket, class, expires_at, worker }
    }
}
