//! What a worker does between its jobs, beside receiving: it rests, and its steals are counted.

use super::execute::Engine;
use crate::handler::Handler;
use crate::metrics::{Counter, Steal};
use crate::net::Link;
use crate::sched::{Outcome, Step};
use crate::server::path::packet::Packet;
use std::future::Future;

impl<'s, H, M, F, L> Engine<'s, '_, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// Before the worker rests.
    pub(super) fn rest(&mut self) {
        self.send();
        self.shedding.on_rest(self.now);
        self.spare.clear();
        self.recorder.hand_over();
        self.rest_core();
    }

    /// Counts an attempt to find work at another worker.
    #[inline]
    pub(super) fn on_steal(&mut self, step: Step, outcome: Outcome) {
        let result = match (step, outcome) {
            (Step::Steal(_), Outcome::Found) => {
                self.charge_steal();
                Steal::Found
            }
            (Step::Steal(_), Outcome::Empty) => Steal::Empty,
            (Step::Steal(_), Outcome::Contended) => Steal::Contended,
            (Step::Receive(owner), Outcome::Found) if owner != self.worker => Steal::SocketFound,
            (Step::Receive(owner), _) if owner != self.worker => Steal::SocketEmpty,
            _ => return,
        };
        self.recorder.count(Counter::Steals(result));
    }
}
