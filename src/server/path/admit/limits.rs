//! How long requests may wait, and how long they are expected to take: written by the control thread once a second,
//! read by the workers.

use crate::fate::CLASSES;
use crate::sched::overload::{self, QueueBounds, WaitBounds};
use crate::time::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// [`WaitBounds`] that change.
#[derive(Debug, Default)]
struct Bounds {
    target_ns: AtomicU64,
    interval_ns: AtomicU64,
    bound_ns: AtomicU64,
}

impl Bounds {
    // Ordering: relaxed, as for all of [`Limits`].

    fn set(&self, bounds: WaitBounds) {
        let WaitBounds { target, interval, bound } = bounds;
        self.target_ns.store(target.get(), Ordering::Relaxed);
        self.interval_ns.store(interval.get(), Ordering::Relaxed);
        self.bound_ns.store(bound.get(), Ordering::Relaxed);
    }

    fn get(&self) -> WaitBounds {
        let read = |number: &AtomicU64| Nanos::new(number.load(Ordering::Relaxed));
        WaitBounds { target: self.target(), interval: read(&self.interval_ns), bound: read(&self.bound_ns) }
    }

    fn target(&self) -> Nanos {
        Nanos::new(self.target_ns.load(Ordering::Relaxed))
    }
}

/// Shared by all workers of a server.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// For requests that have not begun.
    fresh: Bounds,
    /// For requests that stepped aside.
    interrupted: Bounds,
    /// Nanoseconds of service, by class; every class has the same where none may be known.
    expected_ns: [AtomicU64; CLASSES],
}

impl Limits {
    /// These bounds, and no service expected.
    pub(crate) fn new(bounds: QueueBounds) -> Limits {
        let limits = Limits::default();
        limits.set_bounds(bounds);
        limits
    }

    // Ordering: relaxed throughout, numbers for comparisons. A worker that sees those of two seconds mixed errs for one
    // request by what they differ.

    pub(crate) fn set_bounds(&self, bounds: QueueBounds) {
        self.fresh.set(bounds.fresh);
        self.interrupted.set(bounds.interrupted);
    }

    fn of(&self, begun: bool) -> &Bounds {
        if begun { &self.interrupted } else { &self.fresh }
    }

    pub(crate) fn set_expected(&self, class: usize, service: Nanos) {
        self.expected_ns[class].store(service.get(), Ordering::Relaxed);
    }
}

impl overload::Limits for Limits {
    fn bounds(&self, begun: bool) -> WaitBounds {
        self.of(begun).get()
    }

    fn target(&self, begun: bool) -> Nanos {
        self.of(begun).target()
    }

    fn expected(&self, class: u8) -> Nanos {
        Nanos::new(self.expected_ns[usize::from(class).min(CLASSES - 1)].load(Ordering::Relaxed))
    }
}
