//! The requests that are under way, by number. A number is used again when its request has ended, so memory follows the
//! requests that are under way and not those that ever came.

use super::ArrivingRequest;
use crate::sched::WorkerId;
use crate::time::Nanos;

/// A request's number.
pub(super) type RequestId = u32;

/// One request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// When the request should have come to the socket: latency counts from then.
    pub(super) due: Nanos,
    /// CPU time that the request needs in all.
    pub(super) cost: Nanos,
    /// CPU time that the request still needs.
    pub(super) left: Nanos,
    /// The time from which on the answer is worthless.
    pub(super) expires_at: Nanos,
    /// How long after it came the request expires.
    pub(super) deadline: Nanos,
    /// When the request came to its socket.
    pub(super) came_at: Nanos,
    /// The worker to whose socket it came.
    pub(super) socket: WorkerId,
    /// Whether the request has come out of a queue of continuations, and is not shed any more for having waited.
    pub(super) resumed: bool,
    /// Requests that were in queues of continuations when it first went into one, and when that was.
    pub(super) behind: usize,
    pub(super) put_at: Nanos,
    /// The time from which on the request must be looked at before it begins, or resumes from a queue.
    pub(super) start_by: Nanos,
    pub(super) class: u8,
    /// Whether the request was interrupted before.
    pub(super) continuation: bool,
    /// Whether the request came after the warm-up.
    pub(super) counts: bool,
}

impl Request {
    /// A request that has just come.
    pub(super) fn new(incoming: &ArrivingRequest) -> Request {
        Request {
            due: incoming.due,
            cost: incoming.cost,
            left: incoming.cost,
            expires_at: incoming.at.plus(incoming.deadline),
            deadline: incoming.deadline,
            came_at: incoming.at,
            socket: incoming.socket,
            resumed: false,
            behind: 0,
            put_at: Nanos::ZERO,
            start_by: Nanos::MAX,
            class: incoming.class,
            continuation: false,
            counts: incoming.counts,
        }
    }
}

/// All requests that are under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    places: Vec<Request>,
    free: Vec<RequestId>,
}

impl Requests {
    /// The number of requests that are under way.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn add(&mut self, request: Request) -> RequestId {
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = request;
            return id;
        }
        self.places.push(request);
        // Sockets and packets bound the requests under way far below this.
        (self.places.len() - 1) as RequestId
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Request {
        self.free.push(id);
        self.places[id as usize]
    }

    pub(super) fn get(&self, id: RequestId) -> &Request {
        &self.places[id as usize]
    }

    pub(super) fn of(&mut self, id: RequestId) -> &mut Request {
        &mut self.places[id as usize]
    }
}
