//! How running jobs notice arrivals in virtual time: notices of the kernel, and looks at the watched sockets.

use super::contention::Serial;
use super::world::{Notice, VirtualWorld};
use crate::sched::bounds::LOOK_MAX;
use crate::sched::{Noticed, WorkerId};
use crate::time::Nanos;

impl<J> VirtualWorld<J> {
    /// The watched sockets in which something waits, at most `most`; the one that the last look named first comes last.
    pub(super) fn seen(&mut self, most: usize) -> Noticed {
        if self.in_sockets == 0 {
            return Noticed::default();
        }
        let (sockets, first) = (self.sockets.len(), self.looks_from);
        let owners = (0..sockets).map(|offset| (first + offset) % sockets);
        let waits = owners.filter(|owner| self.has_arrivals(*owner)).take(most);
        let noticed = Noticed::of(waits);
        if let Some(named) = noticed.first() {
            self.looks_from = (named + 1) % sockets;
            self.hold(Serial::WatchSet, 1);
        }
        noticed
    }

    fn has_arrivals(&self, owner: WorkerId) -> bool {
        self.sockets[owner].watched && self.sockets[owner].datagrams > 0
    }

    /// Before a slice of a job that watches closely; returns when it is to ask.
    pub(super) fn watch_closely(&mut self, longest: Nanos) -> Nanos {
        let next_checkpoint = Nanos::new(1);
        let pace = &self.paces[self.me];
        if pace.prefers_looks() {
            let passed = self.now.minus(self.looked_at);
            return pace.interval(longest).minus(passed).max(next_checkpoint);
        }
        self.arm();
        next_checkpoint
    }

    /// What such a job has noticed. One worker's look serves all that watch closely.
    pub(super) fn noticed_closely(&mut self, longest: Nanos, now: Nanos) -> Option<Noticed> {
        let me = self.me;
        let by_kernel = self.notices[me] == Notice::Raised;
        let pace = &self.paces[me];
        if by_kernel {
            self.notices[me] = Notice::Off;
        } else if pace.prefers_looks() && now.minus(self.looked_at) >= pace.interval(longest) {
            self.looked_at = now;
        } else {
            return None;
        }
        let noticed = self.seen(LOOK_MAX);
        self.paces[me].looked(by_kernel || noticed.waiting() > 0, now);
        Some(if by_kernel { noticed.by_kernel() } else { noticed })
    }

    /// Makes the kernel give this worker notice of the next arrival, or of one that waits already.
    pub(super) fn arm(&mut self) {
        if self.notices[self.me] == Notice::Off {
            if self.in_sockets > 0 && (0..self.sockets.len()).any(|owner| self.has_arrivals(owner)) {
                self.notices[self.me] = Notice::Raised;
            } else {
                self.notices[self.me] = Notice::Armed;
                self.armed.push_back(self.me);
            }
        }
    }

    /// Lets the kernel give notice to other workers only.
    pub(super) fn disarm(&mut self) {
        if self.notices[self.me] == Notice::Armed {
            self.notices[self.me] = Notice::Off;
            self.armed.retain(|worker| *worker != self.me);
        }
    }

    /// Gives one of the workers that want to know notice of an arrival.
    pub(super) fn notify(&mut self) {
        if let Some(worker) = self.armed.pop_front() {
            self.notices[worker] = Notice::Raised;
        }
    }
}
