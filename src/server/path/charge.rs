//! What emulated cores pay for the steps of this path. [`emulation`] says when a charge is paid; real
//! cores pay by themselves, and nothing here does anything.

use super::execute::Engine;
use crate::emulation;
use crate::handler::Handler;
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
        if self.common.emulated { emulation::start(ready_at) } else { now.unwrap_or_else(clock::now) }
    }

    /// The current time of this worker's core: an emulated core is unaware of what its thread overslept.
    pub(super) fn core_now(&self) -> Nanos {
        if self.common.emulated { emulation::busy_until() } else { self.now }
    }

    /// The clock of this worker's core.
    pub(super) fn core_clock(&self) -> fn() -> Nanos {
        if self.common.emulated { emulation::busy_until } else { clock::now }
    }

    /// Notes whether this worker's core has searched everywhere, and looks on.
    pub(super) fn look_on(&self, looks_on: bool) {
        if self.common.emulated {
            emulation::look_on(looks_on);
        }
    }

    /// Notes that this worker's core has nothing to do.
    pub(super) fn rest_core(&self) {
        if self.common.emulated {
            emulation::rest();
        }
    }

    /// Charges the looks that saw nothing within the slice that is over.
    pub(super) fn charge_vain_looks(&self) {
        if self.common.emulated {
            emulation::charge(emulation::price().look.times(notice::take_vain()));
        }
    }

    /// Charges the look, or the notice, that saw that something waits.
    pub(super) fn charge_look(&self, Looked { waiting, by_kernel }: Looked) {
        if self.common.emulated && waiting > 0 {
            emulation::charge(emulation::price().learning(by_kernel, waiting));
        }
    }

    /// Charges a look within a search that has named `named` sockets: one system call, and one for each.
    pub(super) fn charge_look_around(&self, named: usize) {
        if self.common.emulated {
            emulation::delay(emulation::price().look_at(named));
        }
    }

    /// Charges a steal from another worker's deque.
    pub(super) fn charge_steal(&self) {
        if self.common.emulated {
            emulation::charge(emulation::price().steal);
        }
    }

    /// Pays for a continuation that is about to be put into a queue; returns when it is put there.
    pub(super) fn pay_for_requeueing(&self, why: Requeued) -> Nanos {
        if !self.common.emulated {
            return self.now;
        }
        let price = emulation::price();
        emulation::charge(match why {
            Requeued::Hopped(_) => price.hop,
            Requeued::Yielded | Requeued::Woken => price.yield_,
        });
        emulation::pay()
    }

    /// Pays for `count` datagrams that were just received, before any of them is seen by another worker.
    pub(super) fn pay_for_receiving(&mut self, count: usize) {
        if !self.common.emulated {
            return;
        }
        let price = emulation::price();
        if count == 0 {
            return emulation::delay(price.poll);
        }
        emulation::charge(price.receive.times(count as u64));
        // The core was idle if none of them had come when it was through with its last job.
        let waited = self.link.datagrams()[..count].iter().map(|datagram| datagram.kernel_wait).max();
        emulation::start(self.now.minus(waited.unwrap_or(Nanos::ZERO)));
        emulation::pay();
        self.recorder.charged(emulation::take_charged());
        self.now = clock::now();
    }

    /// Pays for the datagrams of the replies that wait to be sent: none leaves earlier than its core's time.
    pub(super) fn pay_for_sending(&mut self) {
        if !self.common.emulated {
            return;
        }
        let paid = emulation::price().send.times(self.outbox.datagrams() as u64);
        if paid > Nanos::ZERO {
            emulation::charge(paid);
            let late = emulation::pay_on_time();
            self.recorder.overshoot(std::mem::take(&mut self.slept).plus(paid), late);
            self.recorder.charged(emulation::take_charged());
        }
    }

    /// Notes that a request ended at `end`, for which the core slept `service` in all. Where its reply is paid for, it is
    /// that payment whose end may be late.
    pub(super) fn has_slept(&mut self, service: Nanos, end: Nanos) {
        if !self.common.emulated {
            return;
        }
        if emulation::price().send > Nanos::ZERO {
            self.slept = self.slept.plus(service);
        } else if service > Nanos::ZERO {
            self.recorder.overshoot(service, self.now.minus(end));
        }
    }
}
