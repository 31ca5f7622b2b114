//! The alarm of timers: when to wake a worker, and whether one has been woken.

use super::{NEVER, Ready};
use crate::runtime::continuation::Outside;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// When the alarm wakes a worker again for timers that may not fire yet. Its clock is no finer, and
/// workers that are busy look in each turn.
const AGAIN: Nanos = Nanos::from_millis(1);

/// Wakes a worker once a timer is due.
pub(super) struct Alarm {
    /// A time in ns that is not later than the earliest timer of any shard.
    pub(super) next: CachePadded<AtomicU64>,
    /// While timers that are due may not fire yet, when to try again, in ns; otherwise 0.
    pub(super) held_until: AtomicU64,
    /// Until when the alarm waits, in ns; 0 while it waits for a worker to come.
    pub(super) waits_until: AtomicU64,
    /// Notified when `next` becomes earlier than `waits_until`, or when a worker has come.
    pub(super) changed: Notify,
    /// Whether [`Ready::Events`] is queued, and no worker has taken it yet.
    pub(super) rings: AtomicBool,
    /// Whether timers no longer fire.
    pub(super) stopped: AtomicBool,
}

impl Alarm {
    pub(super) fn new() -> Alarm {
        Alarm {
            next: CachePadded::new(AtomicU64::new(NEVER)),
            held_until: AtomicU64::new(0),
            waits_until: AtomicU64::new(0),
            changed: Notify::new(),
            rings: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Publishes that a timer is due at `time`.
    pub(super) fn lower(&self, time: u64) {
        self.next.fetch_min(time, Ordering::SeqCst);
        if time < self.waits_until.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// When to wake a worker, in ns.
    pub(super) fn rings_at(&self) -> u64 {
        self.next.load(Ordering::SeqCst).max(self.held_until.load(Ordering::SeqCst))
    }

    /// Notes that timers are due at `now` that may not fire yet.
    pub(super) fn hold(&self, now: Nanos) {
        self.held_until.store(now.plus(AGAIN).get(), Ordering::SeqCst);
    }

    /// Notes that all timers that are due may fire.
    pub(super) fn release(&self) {
        if self.held_until.load(Ordering::Relaxed) != 0 {
            self.held_until.store(0, Ordering::SeqCst);
            self.changed.notify_one();
        }
    }

    /// Wakes a worker, unless one has been woken for events and has not come yet.
    pub(super) fn ring_now(&self, outside: &Outside) {
        if !self.rings.swap(true, Ordering::SeqCst) {
            outside.put(Ready::Events);
        }
    }
}
