//! What emulated cores pay for the steps of this path. [`emulated`] says when a charge is paid; real
//! cores pay by themselves, and nothing here does anything.

use super::execute::Engine;
use crate::handler::Handler;
use crate::handler::builtin::emulated;
use crate::net::Link;
use crate::runtime::notice;
use crate::sched::Looked;
use crate::sched::turn::Requeued;
use crate::server::path::packet::Packet;
use crate::time::{Nanos, clock};
use std::future::Future;

impl<'s, H, M, F, L> Engine<'s, '_, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// The start of a job that has been ready since `ready_at`.
    pub(super) fn start(&self, ready_at: Nanos, now: Option<Nanos>) -> Nanos {
        if self.common.emulated { emulated::start(ready_at) } else { now.unwrap_or_else(clock::now) }
    }

    /// The current time of this worker's core: an emulated core is unaware of what its thread overslept.
    pub(super) fn core_now(&self) -> Nanos {
        if self.common.emulated { emulated::busy_until() } else { self.now }
    }

    /// Charges the looks that saw nothing within the slice that is over.
    pub(super) fn charge_vain_looks(&self) {
        if self.common.emulated {
            emulated::charge(emulated::price().look.times(notice::take_vain()));
        }
    }

    /// Charges the look, or the notice, that saw that something waits.
    pub(super) fn charge_look(&self, Looked { waiting, by_kernel }: Looked) {
        if self.common.emulated && waiting > 0 {
            emulated::charge(emulated::price().learning(by_kernel, waiting));
        }
    }

    /// Charges a look within a search that has named `named` sockets: one system call, and one for each.
    pub(super) fn charge_look_around(&self, named: usize) {
        if self.common.emulated {
            emulated::delay(emulated::price().look_at(named));
        }
    }

    /// Charges a steal from another worker's deque.
    pub(super) fn charge_steal(&self) {
        if self.common.emulated {
            emulated::charge(emulated::price().steal);
        }
    }

    /// Pays for a continuation that is about to be put into a queue; returns when it is put there.
    pub(super) fn pay_for_requeueing(&self, why: Requeued) -> Nanos {
        if !self.common.emulated {
            return self.now;
        }
        let price = emulated::price();
        emulated::charge(match why {
            Requeued::Hopped(_) => price.hop,
            Requeued::Yielded | Requeued::Woken => price.yield_,
        });
        emulated::pay()
    }

    /// Pays for `count` datagrams that were just received, before any of them is seen by another worker.
    pub(super) fn pay_for_receiving(&mut self, count: usize) {
        if !self.common.emulated {
            return;
        }
        let price = emulated::price();
        if count == 0 {
            return emulated::delay(price.poll);
        }
        emulated::charge(price.receive.times(count as u64));
        // The core was idle if none of them had come when it was through with its last job.
        let waited = self.link.datagrams()[..count].iter().map(|datagram| datagram.kernel_wait).max();
        emulated::start(self.now.minus(waited.unwrap_or(Nanos::ZERO)));
        emulated::pay();
        self.recorder.charged(emulated::take_charged());
        self.now = clock::now();
    }

    /// Pays for the datagrams of the replies that wait to be sent: none leaves earlier than its core's time.
    pub(super) fn pay_for_sending(&mut self) {
        if !self.common.emulated {
            return;
        }
        let paid = emulated::price().send.times(self.outbox.datagrams() as u64);
        if paid > Nanos::ZERO {
            emulated::charge(paid);
            let late = emulated::pay_on_time();
            self.recorder.overshoot(std::mem::take(&mut self.slept).plus(paid), late);
            self.recorder.charged(emulated::take_charged());
        }
    }

    /// Notes that a request ended at `end`, for which the core slept `service` in all. Where its reply is paid for, it is
    /// that payment whose end may be late.
    pub(super) fn has_slept(&mut self, service: Nanos, end: Nanos) {
        if !self.common.emulated {
            return;
        }
        if emulated::price().send > Nanos::ZERO {
            self.slept = self.slept.plus(service);
        } else if service > Nanos::ZERO {
            self.recorder.overshoot(service, self.now.minus(end));
        }
    }
}
