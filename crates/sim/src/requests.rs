//! The requests in the server, by number. A number is used again after its request has ended. So
//! memory depends on the requests present, and not on the length of the run.

use super::ArrivingRequest;
use forebay_base::fate::Fate;
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;
use forebay_sched::overload::Stay;

/// A request's number.
pub(crate) type RequestId = u32;

/// One request in the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// When the request should have arrived: latency counts from then.
    pub due: Nanos,
    /// CPU time that the request needs in all.
    pub cost: Nanos,
    /// When it arrived, how long it may wait, and its service so far.
    pub stay: Stay,
    /// The worker to whose socket it came.
    pub socket: WorkerId,
    /// The worker that received it, or last ran it.
    pub held_by: WorkerId,
    pub class: u8,
    /// The network of the client.
    pub source: u16,
    /// Whether the request was interrupted before.
    pub continuation: bool,
    /// Whether the request has asked for a permit to work uninterrupted.
    pub asked: bool,
    /// Whether the request came after the warm-up.
    pub counts: bool,
}

impl Request {
    /// A request that has just arrived.
    pub(crate) fn new(incoming: &ArrivingRequest) -> Request {
        let &ArrivingRequest { at, due, cost, class, socket, source, deadline, counts } = incoming;
        let deadline = (deadline != Nanos::MAX).then_some(deadline);
        let stay = Stay { expires_at: deadline.map_or(Nanos::MAX, |after| at.plus(after)), deadline, ..Stay::new(at) };
        Request { due, cost, stay, socket, held_by: socket, class, source, continuation: false, asked: false, counts }
    }

    /// CPU time that the request still needs.
    pub(crate) fn left(&self) -> Nanos {
        self.cost.minus(self.stay.service)
    }
}

/// All requests that have arrived and not ended.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    places: Vec<Request>,
    free: Vec<RequestId>,
}

impl Requests {
    pub(crate) fn add(&mut self, request: Request) -> RequestId {
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = request;
            return id;
        }
        self.places.push(request);
        // The bounds on sockets and packets keep the number of requests far below the range of this
        // type.
        (self.places.len() - 1) as RequestId
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Request {
        self.free.push(id);
        self.places[id as usize]
    }

    pub(crate) fn get(&self, id: RequestId) -> &Request {
        &self.places[id as usize]
    }

    pub(crate) fn of(&mut self, id: RequestId) -> &mut Request {
        &mut self.places[id as usize]
    }
}

/// Runs a request that still needs `left` for one slice. The slice ends at the end of the request,
/// or at the first checkpoint after `ask_after` or `expires_after`. Returns the work done, the time
/// taken with checkpoints, and the request's fate if it ends; `None` if it pauses.
pub(crate) fn stretch(
    left: Nanos,
    step: Nanos,
    checkpoint: Nanos,
    ask_after: Nanos,
    expires_after: Nanos,
) -> (Nanos, Nanos, Option<Fate>) {
    let until = ask_after.min(expires_after);
    if left <= step || until == Nanos::MAX && checkpoint == Nanos::ZERO {
        return (left, left, Some(Fate::Answered));
    }
    // There is a checkpoint after each step except the last.
    let checkpoints = (left.get() - 1) / step.get();
    let each = step.plus(checkpoint);
    let asked = until.get().div_ceil(each.get()).max(1);
    if asked > checkpoints {
        return (left, left.plus(checkpoint.times(checkpoints)), Some(Fate::Answered));
    }
    let expired = each.times(asked) >= expires_after;
    (step.times(asked), each.times(asked), expired.then_some(Fate::ShedExpired))
}
