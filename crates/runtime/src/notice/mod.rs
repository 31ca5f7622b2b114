//! How a running job learns that a fresh request waits. README.md in this folder describes notices
//! and looks, their costs, and why no arrival is missed.
//!
//! Before each slice, the worker sets how closely its job watches (`begin`). Each checkpoint of
//! the job calls `is_raised`, which costs one or two loads, and some checkpoints call `looks`,
//! which may poll. After the slice, the worker takes the result (`take`).

mod ring;

use super::sleep::readiness::WatchSet;
use crate::clock;
use crate::sched::{Noticed, Watch, look_interval};
use crate::time::{Breaker, Nanos};
use crossbeam_utils::CachePadded;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use ring::Ring;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// A worker's flag: another worker asks it to yield.
pub(super) type Flag = Arc<CachePadded<AtomicBool>>;

/// The interval at which a worker that gets the kernel's notices still looks, as a safeguard.
const BACKSTOP: Nanos = Nanos::from_micros(50);

/// How jobs look for arrivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    /// Least CPU time that a look counts as costing; the measured time counts if it is longer.
    pub(super) cost: Nanos,
    /// Factor by which emulated cores are slower than real ones.
    pub(super) time_scale: u64,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { cost: Nanos::ZERO, time_scale: 1 }
    }
}

/// State of one worker's thread for noticing arrivals.
struct Notice {
    flag: Flag,
    watch_set: Arc<WatchSet>,
    /// The ring for the kernel's notices, if the kernel gives them.
    ring: Option<Ring>,
    /// Open for a minute after the ring has failed; meanwhile the worker uses looks.
    breaker: Breaker,
    /// The interval between looks of a worker that watches by looks.
    interval: Nanos,
    /// [`BACKSTOP`], multiplied by the time scale.
    backstop: Nanos,
    watch: Watch,
    /// When this worker last looked.
    looked_at: Nanos,
    /// The sockets that the last look found, until the worker takes them.
    seen: Option<Noticed>,
    /// Number of looks that found nothing since the last [`take_vain`].
    vain: u64,
}

thread_local! {
    static NOTICE: RefCell<Option<Notice>> = const { RefCell::new(None) };
    /// Whether the running job watches for arrivals.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// While this value lives, jobs on the calling thread notice arrivals.
pub(super) struct Open {
    /// Makes the type not `Send`, because the state is thread-local.
    here: PhantomData<*const ()>,
}

/// Checks whether this kernel gives notices of arrivals.
///
/// # Errors
/// Why the kernel gives none.
pub fn probe() -> io::Result<()> {
    let tried = || -> io::Result<()> {
        let watch_set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ring::new(watch_set.0.as_raw_fd())?.arm().map(drop)
    };
    // On a separate thread, because to close a ring interrupts the thread's next waiting system
    // call.
    thread::Builder::new().spawn(tried)?.join().unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
}

/// Lets jobs on the calling thread notice arrivals in `watch_set`, and requests to yield in `flag`.
/// They use looks, and if `by_kernel` also the kernel's notices.
pub(super) fn open(flag: Flag, watch_set: Arc<WatchSet>, looks: Looks, by_kernel: bool) -> Open {
    let interval = look_interval(looks.cost.max(watch_set.look_cost));
    let backstop = BACKSTOP.times(looks.time_scale);
    let mut notice = Notice {
        flag,
        watch_set,
        ring: None,
        breaker: Breaker::default(),
        interval,
        backstop,
        watch: Watch::Never,
        looked_at: Nanos::ZERO,
        seen: None,
        vain: 0,
    };
    if by_kernel {
        // If the kernel refuses a ring, this worker uses looks instead.
        notice.renew();
    }
    NOTICE.set(Some(notice));
    WATCHES.set(false);
    Open { here: PhantomData }
}

impl Drop for Open {
    fn drop(&mut self) {
        NOTICE.set(None);
        WATCHES.set(false);
    }
}

/// Sets how closely the next slice on this thread watches.
#[inline]
pub(super) fn begin(watch: Watch) {
    let watches = watch != Watch::Never;
    if watches || WATCHES.get() {
        WATCHES.set(watches);
        with(|notice| notice.begin(watch));
    }
}

/// Stops notices for this worker until the next slice that watches by them. Until then, the kernel
/// gives the next notice to another worker.
pub(super) fn pause() {
    with(|notice| {
        if notice.ring.as_mut().is_some_and(|ring| ring.disarm().is_err()) {
            notice.lose();
        }
    });
}

/// Takes the result of the slice: which sockets hold datagrams. `None` if there was no notice and
/// no look.
pub(super) fn take() -> Option<Noticed> {
    with(Notice::take).flatten()
}

/// Looks for a watched socket that holds datagrams, for a worker without a job.
pub(super) fn look() -> Noticed {
    with(|notice| notice.watch_set.next_arrival()).unwrap_or_default()
}

/// Number of looks of this thread's jobs that found nothing since the last call.
pub fn take_vain() -> u64 {
    with(|notice| std::mem::take(&mut notice.vain)).unwrap_or(0)
}

/// Called at a checkpoint: whether the running job must return to its worker because of an arrival.
/// Costs one or two loads.
#[inline]
pub(super) fn is_raised() -> bool {
    WATCHES.get() && with(Notice::is_raised).unwrap_or(false)
}

/// Called at a checkpoint that has read the clock: looks if a look is due. `Ok` = the job must
/// return to its worker. `Err` = the time until the next look.
pub(super) fn looks(now: Nanos) -> Result<(), Nanos> {
    if !WATCHES.get() {
        return Err(Nanos::MAX);
    }
    with(|notice| notice.looks(now)).unwrap_or(Err(Nanos::MAX))
}

#[inline]
fn with<R>(action: impl FnOnce(&mut Notice) -> R) -> Option<R> {
    NOTICE.with_borrow_mut(|notice| notice.as_mut().map(action))
}

impl Notice {
    fn begin(&mut self, watch: Watch) {
        self.watch = watch;
        // The result for an earlier job does not concern this one.
        self.seen = None;
        if watch == Watch::Notices {
            self.arm();
        }
    }

    /// Asks the kernel for notice of the next arrival.
    fn arm(&mut self) {
        // Up to two attempts. The first may end at once with an old arrival, whose datagram was
        // received meanwhile; then no notice is armed.
        for _ in 0..2 {
            match self.ring.as_mut().map(Ring::arm) {
                Some(Ok(true)) => {}
                Some(Err(_)) => return self.lose(),
                Some(Ok(false)) | None => return,
            }
            // If the datagram still waits, the first checkpoint returns.
            let seen = self.watch_set.arrivals().by_kernel();
            let waits = seen.waiting > 0;
            self.seen = Some(seen);
            if waits {
                return;
            }
            self.vain += 1;
        }
    }

    #[inline]
    fn is_raised(&mut self) -> bool {
        // Ordering: relaxed, see `Acts::flag`.
        self.flag.load(Ordering::Relaxed)
            || self.watch == Watch::Notices && self.ring.as_mut().is_some_and(Ring::is_raised)
            || self.seen.as_ref().is_some_and(|seen| seen.waiting > 0)
    }

    fn looks(&mut self, now: Nanos) -> Result<(), Nanos> {
        if self.is_raised() {
            return Ok(());
        }
        if self.breaker.is_open() && self.breaker.allows(now) && self.watch == Watch::Notices {
            self.renew();
            self.arm();
        }
        let (every, together) = match self.watch {
            Watch::Never => return Err(Nanos::MAX),
            Watch::Every(slice) => (slice, false),
            Watch::Notices if self.ring.is_some() => (self.backstop, false),
            Watch::Notices | Watch::Looks => (self.interval, true),
        };
        let passed = now.minus(self.looked_at);
        if passed < every {
            return Err(every.minus(passed));
        }
        self.looked_at = now;
        // A look of one worker counts for all workers that watch closely.
        let looked = if together { self.watch_set.look(every, now) } else { Some(self.watch_set.arrivals()) };
        let Some(seen) = looked else { return Err(every) };
        let waits = seen.waiting > 0;
        self.seen = Some(seen);
        self.vain += u64::from(!waits);
        // After a rare look, the worker asks the policy how closely to watch from now on.
        if waits || matches!(self.watch, Watch::Every(_)) { Ok(()) } else { Err(every) }
    }

    /// Drops the ring, which has failed. This worker then uses looks.
    #[cold]
    fn lose(&mut self) {
        self.ring = None;
        if self.breaker.fails(clock::now()) {
            self.watch_set.without_ring.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes a ring for this thread, or a new one in place of a failed one.
    #[cold]
    fn renew(&mut self) {
        match Ring::new(self.watch_set.descriptor()) {
            Ok(ring) => {
                self.ring = Some(ring);
                if self.breaker.works() {
                    self.watch_set.without_ring.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(_) => self.lose(),
        }
    }

    fn take(&mut self) -> Option<Noticed> {
        if self.watch == Watch::Notices && self.ring.as_mut().is_some_and(Ring::is_raised) {
            if self.ring.as_mut().is_some_and(|ring| ring.take().is_err()) {
                self.lose();
            }
            self.seen = Some(self.watch_set.arrivals().by_kernel());
        }
        self.seen.take()
    }
}

#[cfg(test)]
mod tests;
