//! How running jobs notice arrivals in virtual time: notices of the kernel, and looks at the watched sockets.

use super::world::{Notice, VirtualWorld};
use crate::sched::bounds::LOOK_MAX;

impl<J> VirtualWorld<J> {
    /// Number of watched sockets in which something waits.
    pub(super) fn sockets_with_arrivals(&self) -> usize {
        if self.in_sockets == 0 {
            return 0;
        }
        let waits = self.sockets.iter().filter(|socket| socket.watched && socket.datagrams > 0);
        waits.take(LOOK_MAX).count()
    }

    /// Makes the kernel give this worker notice of the next arrival, or of one that waits already.
    pub(super) fn arm(&mut self) {
        if self.notices[self.me] == Notice::Off {
            if self.sockets_with_arrivals() > 0 {
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
