//! How a running job learns that a fresh request waits. README.md beside this file has the ways,
//! their prices and the argument why no arrival is missed.
//!
//! Before each slice the worker says how closely its job watches ([`begin`]). The job's checkpoints
//! ask [`is_raised`], which costs a load or two, and now and then [`looks`], which may look. After
//! the slice the worker takes what was noticed ([`take`]).

mod ring;

use super::sleep::readiness::WatchSet;
use crate::sched::{Noticed, Watch, look_interval};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use mio::Poll;
use ring::Ring;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// A worker's mark that it is asked to step aside.
pub(super) type Flag = Arc<CachePadded<AtomicBool>>;

/// A worker that hears of arrivals from the kernel looks nevertheless once in this time.
const BACKSTOP: Nanos = Nanos::from_micros(50);

/// How jobs look for arrivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    /// CPU time of a look, if it is more than what a look takes here.
    pub(super) cost: Nanos,
    /// The factor by which emulated cores are slower than this one.
    pub(super) time_scale: u64,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { cost: Nanos::ZERO, time_scale: 1 }
    }
}

/// What one worker's thread uses to notice arrivals.
struct Notice {
    flag: Flag,
    watch_set: Arc<WatchSet>,
    /// The kernel's notices, where it gives any.
    ring: Option<Ring>,
    /// The time between two looks of a worker that watches by looks.
    interval: Nanos,
    /// [`BACKSTOP`], scaled.
    backstop: Nanos,
    watch: Watch,
    /// When this worker looked last.
    looked_at: Nanos,
    /// The sockets in which the last look saw something, until the worker takes it.
    seen: Option<Noticed>,
    /// Number of looks that saw nothing since [`take_vain`].
    vain: u64,
}

thread_local! {
    static NOTICE: RefCell<Option<Notice>> = const { RefCell::new(None) };
    /// Whether the job that runs watches for arrivals.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread notices arrivals for one worker as long as this lives.
pub(super) struct Open {
    /// What it opens is a thread-local.
    here: PhantomData<*const ()>,
}

/// Whether this kernel gives notices of arrivals.
///
/// # Errors
/// Why it does not.
pub fn probe() -> io::Result<()> {
    let tried = || -> io::Result<()> {
        let watch_set = Poll::new()?;
        Ring::new(watch_set.as_raw_fd())?.arm().map(drop)
    };
    // On a thread of its own: the end of a ring interrupts the next call of its thread that waits.
    thread::Builder::new().spawn(tried)?.join().unwrap_or_else(|_| Err(io::Error::other("the probe panicked")))
}

/// Makes the calling thread notice arrivals in `watch_set`, by the kernel's notices too if
/// `by_kernel`, and `flag`.
pub(super) fn open(flag: Flag, watch_set: Arc<WatchSet>, looks: Looks, by_kernel: bool) -> Open {
    // Where the kernel refuses one worker what it granted the probe, looks serve that worker.
    let ring = if by_kernel { Ring::new(watch_set.descriptor()).ok() } else { None };
    let interval = look_interval(looks.cost.max(watch_set.look_cost()));
    let backstop = BACKSTOP.times(looks.time_scale);
    let notice = Notice {
        flag,
        watch_set,
        ring,
        interval,
        backstop,
        watch: Watch::Never,
        looked_at: Nanos::ZERO,
        seen: None,
        vain: 0,
    };
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

/// The next slice of this thread's worker watches as closely as `watch` says.
#[inline]
pub(super) fn begin(watch: Watch) {
    let watches = watch != Watch::Never;
    if watches || WATCHES.get() {
        WATCHES.set(watches);
        with(|notice| notice.begin(watch));
    }
}

/// This thread's worker is out of reach for some time: the kernel's next notice is for another one.
pub(super) fn pause() {
    with(|notice| {
        if notice.ring.as_mut().is_some_and(|ring| ring.disarm().is_err()) {
            notice.ring = None;
        }
    });
}

/// What was noticed since the slice began: the sockets in which something waits; `None` where the
/// worker has not looked.
pub(super) fn take() -> Option<Noticed> {
    with(Notice::take).flatten()
}

/// A watched socket in which something waits, for a worker that has no job.
pub(super) fn look() -> Noticed {
    with(|notice| notice.watch_set.next_arrival()).unwrap_or_default()
}

/// How often this thread's jobs looked and saw nothing since the last call.
pub(crate) fn take_vain() -> u64 {
    with(|notice| std::mem::take(&mut notice.vain)).unwrap_or(0)
}

/// At a checkpoint: whether the running job must return to its worker for what has come. Costs a
/// load or two.
#[inline]
pub(super) fn is_raised() -> bool {
    WATCHES.get() && with(Notice::is_raised).unwrap_or(false)
}

/// At a checkpoint that has read the clock: looks, if it is time to. `Ok`: the job must return to
/// its worker for what has come; `Err`: the time until the next look.
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
        // What a job saw that has ended meanwhile is nothing to the next one.
        self.seen = None;
        if watch == Watch::Notices {
            self.arm();
        }
    }

    /// Asks the kernel for notice of the next arrival.
    fn arm(&mut self) {
        // Twice: the first answer may be of an arrival that has been received meanwhile, and is
        // followed by no notice.
        for _ in 0..2 {
            match self.ring.as_mut().map(Ring::arm) {
                Some(Ok(true)) => {}
                Some(Err(_)) => return self.ring = None,
                Some(Ok(false)) | None => return,
            }
            // Where it still waits the first checkpoint returns.
            let seen = self.watch_set.arrivals().by_kernel();
            let waits = seen.waiting() > 0;
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
            || self.seen.as_ref().is_some_and(|seen| seen.waiting() > 0)
    }

    fn looks(&mut self, now: Nanos) -> Result<(), Nanos> {
        if self.is_raised() {
            return Ok(());
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
        // One worker's look serves all that watch closely.
        let looked = if together { self.watch_set.look(every, now) } else { Some(self.watch_set.arrivals()) };
        let Some(seen) = looked else { return Err(every) };
        let waits = seen.waiting() > 0;
        self.seen = Some(seen);
        self.vain += u64::from(!waits);
        // After a rare look the worker asks the policy how closely to watch from now on.
        if waits || matches!(self.watch, Watch::Every(_)) { Ok(()) } else { Err(every) }
    }

    fn take(&mut self) -> Option<Noticed> {
        if self.watch == Watch::Notices && self.ring.as_mut().is_some_and(Ring::is_raised) {
            if self.ring.as_mut().is_some_and(|ring| ring.take().is_err()) {
                self.ring = None;
            }
            self.seen = Some(self.watch_set.arrivals().by_kernel());
        }
        self.seen.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sleep::idle::Readiness;
    use super::super::sleep::readiness::Descriptors;
    use super::*;
    use mio::unix::pipe;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    const LATER: Nanos = Nanos::from_secs(1);

    /// What a look sees where something waits in the one ingress.
    fn first() -> Noticed {
        Noticed::of([0])
    }

    /// A watched ingress, and this thread as the worker that notices what comes to it.
    struct Watched {
        sender: pipe::Sender,
        receiver: pipe::Receiver,
        flag: Flag,
        _open: Open,
        _descriptors: Descriptors,
    }

    fn watched(by_kernel: bool) -> Watched {
        let (sender, receiver) = pipe::new().expect("a pipe");
        let (descriptors, _polls) = Descriptors::new(1, &[receiver.as_fd()]).expect("readiness queues");
        descriptors.watch(0, true);
        let flag = Flag::default();
        let open = open(Arc::clone(&flag), Arc::clone(descriptors.watch_set()), Looks::default(), by_kernel);
        Watched { sender, receiver, flag, _open: open, _descriptors: descriptors }
    }

    impl Watched {
        fn send(&mut self) {
            assert_eq!(self.sender.write(b"x").expect("room"), 1);
        }

        fn receive(&mut self) {
            assert_eq!(self.receiver.read(&mut [0; 8]).expect("a byte"), 1);
        }
    }

    // Does a job that watches closely learn of each arrival at its next checkpoint, without a look?
    #[test]
    fn the_kernel_gives_notice_of_each_arrival() {
        let mut ingress = watched(true);
        for round in 0..3 {
            begin(Watch::Notices);
            assert!(!is_raised() && take().is_none(), "{round}: nothing has come, and there was no look");
            ingress.send();
            assert!(is_raised(), "{round}");
            assert_eq!((take(), is_raised()), (Some(first().by_kernel()), false), "{round}");
            begin(Watch::Notices);
            assert!(is_raised(), "{round}: it still waits");
            assert_eq!(take(), Some(first().by_kernel()), "{round}");
            ingress.receive();
        }
    }

    // Is what is seen for one job nothing to the next, and is a notice of what has been received
    // followed by another?
    #[test]
    fn what_has_been_received_is_noticed_no_more() {
        let mut ingress = watched(true);
        begin(Watch::Notices);
        ingress.send();
        begin(Watch::Notices);
        assert!(is_raised(), "it waits");
        ingress.receive();
        for round in 0..3 {
            // The job ends with the notice of an arrival that this worker then receives.
            begin(Watch::Notices);
            assert!(!is_raised(), "{round}: it has been received");
            ingress.send();
            assert!(is_raised(), "{round}: this is another one");
            ingress.receive();
        }
    }

    // Does a worker that is out of reach leave the notice to others, and get the next one when it
    // is back?
    #[test]
    fn a_worker_out_of_reach_gets_no_notice() {
        let mut ingress = watched(true);
        begin(Watch::Notices);
        pause();
        ingress.send();
        assert!(!is_raised());
        begin(Watch::Notices);
        assert!(is_raised() && take() == Some(first().by_kernel()), "what waits is noticed at once");
    }

    // Where only looks tell: are they as far apart as they should be, and is what they see kept for
    // the worker?
    #[test]
    fn looks_see_what_waits_when_it_is_time_to() {
        let mut ingress = watched(false);
        begin(Watch::Notices);
        let Err(interval) = looks(LATER) else { panic!("nothing has come") };
        assert!(interval >= Nanos::from_micros(1), "33 looks, each a system call: {interval}");
        ingress.send();
        assert!(!is_raised());
        let half = interval.get() / 2;
        assert_eq!(looks(LATER.plus(Nanos::new(half))), Err(Nanos::new(interval.get() - half)));
        assert_eq!(looks(LATER.plus(interval)), Ok(()));
        assert!(is_raised(), "until the worker has taken it");
        assert_eq!((take(), take()), (Some(first()), None));
    }

    // Is each look that sees nothing counted, and none that was not made or saw something?
    #[test]
    fn looks_in_vain_are_counted() {
        let mut ingress = watched(false);
        begin(Watch::Notices);
        let Err(interval) = looks(LATER) else { panic!("nothing has come") };
        assert!(looks(LATER.plus(interval)).is_err() && looks(LATER.plus(interval)).is_err());
        assert_eq!((take_vain(), take_vain()), (2, 0), "the third was no look");
        ingress.send();
        assert_eq!((looks(LATER.plus(interval.times(2))), take_vain()), (Ok(()), 0));
    }

    // Does a worker with notices look all the same now and then, and one that looks once in a slice
    // not listen to them?
    #[test]
    fn the_backstop_looks_and_a_slice_is_a_slice() {
        let mut ingress = watched(true);
        begin(Watch::Notices);
        assert_eq!(looks(LATER), Err(BACKSTOP));
        let slice = Nanos::from_micros(20);
        begin(Watch::Every(slice));
        ingress.send();
        assert!(!is_raised(), "the bit is up, and the job does not listen");
        assert_eq!(looks(LATER.plus(Nanos::from_micros(19))), Err(Nanos::from_micros(1)));
        assert_eq!(looks(LATER.plus(slice)), Ok(()));
        assert_eq!(take(), Some(first()));
    }

    // Does a worker that is asked to step aside know it at once, and one whose job would not step
    // aside not at all?
    #[test]
    fn a_flag_is_seen_by_a_job_that_watches() {
        let ingress = watched(false);
        ingress.flag.store(true, Ordering::Relaxed);
        begin(Watch::Never);
        assert!(!is_raised() && looks(LATER) == Err(Nanos::MAX));
        begin(Watch::Notices);
        assert!(is_raised() && looks(LATER) == Ok(()));
        assert_eq!(take(), None, "there was no look");
    }
}
