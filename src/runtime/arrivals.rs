//! One watched ingress, and what it takes to notice an arrival there: for `forebay calibrate`, which measures what the
//! workers of a server pay.

use super::notice::{self, Flag, Looks};
use super::sleep::idle::Readiness;
use super::sleep::readiness::Descriptors;
use crate::sched::Watch;
use crate::time::{Nanos, clock};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A watched ingress.
pub(crate) struct Arrivals {
    descriptors: Descriptors,
}

impl Arrivals {
    /// Watches `ingress`, which must outlive this.
    ///
    /// # Errors
    /// When the kernel has no more descriptors for readiness queues.
    pub(crate) fn watch(ingress: RawFd) -> io::Result<Arrivals> {
        let (descriptors, _) = Descriptors::new(1, &[ingress])?;
        descriptors.watch(0, true);
        Ok(Arrivals { descriptors })
    }

    /// Number of ingresses in which something waits, by a look.
    pub(crate) fn look(&self) -> usize {
        self.descriptors.watch_set().arrivals().waiting()
    }

    /// Times to take the kernel's notice of an arrival and to ask for the next one, for `count` arrivals. `arrive` makes
    /// an arrival, and `drain` takes it out of the ingress. Call this on a separate thread: the end of a ring interrupts
    /// the thread's next system call that waits.
    pub(crate) fn notices(&self, count: usize, mut arrive: impl FnMut(), mut drain: impl FnMut()) -> Vec<Nanos> {
        let _open = notice::open(Flag::default(), Arc::clone(self.descriptors.watch_set()), Looks::default(), true);
        notice::begin(Watch::Closely);
        let notice = |_| {
            arrive();
            let raised = clock::now();
            let _ = notice::take(raised);
            let taken = clock::now();
            drain();
            let drained = clock::now();
            notice::begin(Watch::Closely);
            taken.minus(raised).plus(clock::now().minus(drained))
        };
        (0..count).map(notice).collect()
    }
}
