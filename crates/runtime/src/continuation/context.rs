//! Thread-local state of one poll of a handler. Through it, a worker tells the futures of
//! `leaf.rs` and `fork.rs` when to pause, and they tell the worker why they did.
//!
//! The state is thread-local instead of data in a `Waker`, because this needs no `unsafe`. Outside
//! a worker the state is empty, and these futures are ready at once. So a handler can be tested
//! with any executor.

use super::cancel::CancellationToken;
use super::waiter::{AbortCause, Waiter};
use crate::clock;
use crate::notice;
use crate::sched::Resume;
use crate::time::Nanos;
use std::cell::{Cell, RefCell};
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

/// Why a future of the handler module has returned `Pending` to its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The handler can continue, in this way. With `Here`, the worker must ask the policy, or queue
    /// new or woken children.
    Resume(Resume),
    /// The handler waits for a child that runs elsewhere. Its end wakes the handler.
    Join,
    /// The handler waits for work aside, in this place of the ledger of helpers.
    Aside(u32),
    /// The handler must not continue: its deadline passed, its token is cancelled, or a child that
    /// it needs has no result.
    Abort(AbortCause),
}

/// The times from which checkpoints return to the worker, for one poll. Checkpoints read the clock
/// only now and then, so they may return a little later.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time from which checkpoints return, so that the policy is asked.
    pub ask_at: Nanos,
    /// Time from which checkpoints return, because the answer is worthless.
    pub expires_at: Nanos,
}

impl Limits {
    /// The earlier of the two times.
    fn next(self) -> Nanos {
        self.ask_at.min(self.expires_at)
    }
}

/// The state of the poll on one thread. It is one variable, because each one of another crate costs
/// an instruction more at each access.
struct ThreadPoll {
    /// `None` between polls.
    limits: Cell<Option<Limits>>,
    pause: Cell<Option<Pause>>,
    /// The request or child being polled, if it may fork. It is empty between polls and needs no
    /// destructor, which would cost a check at each access.
    waiter: Cell<Option<ManuallyDrop<Arc<dyn Waiter>>>>,
    /// CPU time of the children joined during the poll.
    joined: Cell<Nanos>,
    /// Number of checkpoints until one reads the clock, including that one.
    left: Cell<u32>,
    /// The last clock reading at a checkpoint of this poll, or the start of the poll. Then the
    /// number of checkpoints from there to the next reading.
    stretch: Cell<(Nanos, u32)>,
}

thread_local! {
    static POLL: ThreadPoll = const {
        ThreadPoll {
            limits: Cell::new(None),
            pause: Cell::new(None),
            waiter: Cell::new(None),
            joined: Cell::new(Nanos::ZERO),
            left: Cell::new(0),
            stretch: Cell::new((Nanos::ZERO, 1)),
        }
    };
    /// The token that checkpoints check.
    static TOKEN: RefCell<Option<CancellationToken>> = const { RefCell::new(None) };
    /// The stack address below which no nested work may begin; 0 on threads that are not workers.
    static DEEPEST: Cell<usize> = const { Cell::new(0) };
}

/// At least one in this many checkpoints reads the clock. If the spacing of checkpoints suddenly
/// grows, a handler pauses up to this many checkpoints late.
const STRETCH_MAX: u32 = 16;

/// The default stack of a worker, in bytes: the same as the standard library's.
pub const STACK_BYTES: usize = 2 << 20;

/// Sets the stack size of the calling thread, a worker that starts, to `bytes`. Nested work may use
/// half of the stack. The other half is for the innermost work, for a panic there, and for dropping
/// nested values.
pub fn begin_stack(bytes: usize) {
    DEEPEST.set(stack_address().saturating_sub(bytes / 2));
}

/// Whether nested work has used its half of the stack.
pub fn is_deep() -> bool {
    stack_address() < DEEPEST.get()
}

/// An address in the stack frame of the caller.
#[inline(always)]
fn stack_address() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(&local).addr()
}

/// One poll, from [`enter`] to [`Entered::leave`]. What is polled in between must not panic.
#[must_use]
pub(super) struct Entered {
    /// What the poll around this one has.
    outer: Option<ManuallyDrop<Arc<dyn Waiter>>>,
    has_token: bool,
}

/// Begins one poll of `waiter` at `start`. It has these `limits`, and its checkpoints also check
/// `token`. Without a waiter, other workers cannot run the children.
// Two calls around the poll, and no closure: the compiler does not inline a closure of this size.
#[inline]
pub(super) fn enter(
    waiter: &mut Option<Arc<dyn Waiter>>,
    start: Nanos,
    limits: Limits,
    token: Option<&CancellationToken>,
) -> Entered {
    // The waiter is moved in and out, because to count references would cost more than the whole
    // function.
    let outer = POLL.with(|poll| {
        poll.limits.set(Some(limits));
        poll.pause.set(None);
        poll.left.set(1);
        poll.stretch.set((start, 1));
        poll.waiter.replace(waiter.take().map(ManuallyDrop::new))
    });
    let has_token = token.is_some();
    if has_token {
        TOKEN.set(token.cloned());
    }
    Entered { outer, has_token }
}

impl Entered {
    /// Ends the poll, and gives `waiter` back. Returns the reason to pause that a future has set,
    /// and the CPU time of joined children.
    #[inline]
    pub(super) fn leave(self, waiter: &mut Option<Arc<dyn Waiter>>) -> (Option<Pause>, Nanos) {
        if self.has_token {
            TOKEN.set(None);
        }
        POLL.with(|poll| {
            poll.limits.set(None);
            poll.left.set(0);
            let own = poll.waiter.replace(self.outer).map(ManuallyDrop::into_inner);
            // It was taken out at the beginning, so there is nothing to drop.
            mem::forget(mem::replace(waiter, own));
            (poll.pause.take(), poll.joined.take())
        })
    }
}

/// What a poll has left on this thread while something else is polled; see [`outside`].
struct SetAside {
    limits: Option<Limits>,
    pause: Option<Pause>,
    waiter: Option<ManuallyDrop<Arc<dyn Waiter>>>,
    joined: Nanos,
    left: u32,
    stretch: (Nanos, u32),
    token: Option<CancellationToken>,
}

/// Calls `work` as on a thread that is no worker's, also if this one polls a handler. What `work`
/// polls passes its checkpoints, and cannot pause that handler. With it, a handler polls tasks that
/// are not its own.
pub fn outside<T>(work: impl FnOnce() -> T) -> T {
    let _set_aside = POLL.with(|poll| SetAside {
        limits: poll.limits.take(),
        pause: poll.pause.take(),
        waiter: poll.waiter.take(),
        joined: poll.joined.take(),
        left: poll.left.take(),
        stretch: poll.stretch.get(),
        token: TOKEN.take(),
    });
    work()
}

impl Drop for SetAside {
    fn drop(&mut self) {
        POLL.with(|poll| {
            poll.limits.set(self.limits);
            poll.pause.set(self.pause);
            poll.waiter.set(self.waiter.take());
            poll.joined.set(self.joined);
            poll.left.set(self.left);
            poll.stretch.set(self.stretch);
        });
        TOKEN.set(self.token.take());
    }
}

/// The limits of the poll on this thread; `None` between polls.
fn limits() -> Option<Limits> {
    POLL.with(|poll| poll.limits.get())
}

/// The reason to pause that a future has set in this poll.
fn pause() -> Option<Pause> {
    POLL.with(|poll| poll.pause.get())
}

/// Calls `ask` with the request or child being polled, if it may fork.
fn with_waiter<R>(ask: impl FnOnce(&Arc<dyn Waiter>) -> R) -> Option<R> {
    let waiter = POLL.with(|poll| poll.waiter.take());
    let answer = waiter.as_deref().map(ask);
    POLL.with(|poll| poll.waiter.set(waiter));
    answer
}

/// Called at a checkpoint. If the handler must return to its worker, sets the reason to pause and
/// returns true.
#[inline]
pub(crate) fn checkpoint_pauses() -> bool {
    let left = POLL.with(|poll| poll.left.get());
    if left > 1 && !super::local_queue::has_ready() && !notice::is_raised() {
        POLL.with(|poll| poll.left.set(left - 1));
        return false;
    }
    asks_all()
}

/// As [`checkpoint_pauses`], at a checkpoint that reads the clock.
#[inline(never)]
fn asks_all() -> bool {
    let cancelled = TOKEN.with_borrow(|token| token.as_ref().map(CancellationToken::is_cancelled));
    if cancelled == Some(true) {
        POLL.with(|poll| poll.pause.set(Some(Pause::Abort(AbortCause::Cancelled))));
        return true;
    }
    let Some(limits) = limits() else { return false };
    let now = clock::now();
    let pause = if now >= limits.expires_at {
        Pause::Abort(AbortCause::Expired)
    } else if let Some(cause) = with_waiter(|waiter| waiter.abort_cause()).flatten() {
        Pause::Abort(cause)
    } else {
        // The look comes even if the slice has ended. Otherwise a handler whose checkpoints are
        // farther apart than its slice would never look.
        match notice::looks(now) {
            Err(look_in) if now < limits.ask_at && !super::local_queue::has_ready() => {
                // A cancellation can come at any time, so with a token every checkpoint checks it.
                let until = if cancelled.is_some() { Nanos::ZERO } else { limits.next().minus(now).min(look_in) };
                stretch(now, until);
                return false;
            }
            Ok(()) | Err(_) => Pause::Resume(Resume::Here),
        }
    };
    POLL.with(|poll| poll.pause.set(Some(pause)));
    true
}

/// Lets checkpoints pass without reading the clock. As many as will come within `until`, if their
/// recent spacing continues, but at most twice as many as last time.
fn stretch(now: Nanos, until: Nanos) {
    let (last, passed) = POLL.with(|poll| poll.stretch.get());
    let spacing = (now.minus(last).get() / u64::from(passed)).max(1);
    let within = u32::try_from(until.get() / spacing).unwrap_or(u32::MAX);
    let next = within.clamp(1, STRETCH_MAX.min(2 * passed));
    POLL.with(|poll| {
        poll.stretch.set((now, next));
        poll.left.set(next);
    });
}

/// Inside a worker: sets the reason to pause and returns true. Elsewhere it does nothing and
/// returns false.
pub(crate) fn pauses_for(resume: Resume) -> bool {
    let inside = limits().is_some();
    if inside {
        POLL.with(|poll| poll.pause.set(Some(Pause::Resume(resume))));
    }
    inside
}

/// For a handler that waits for a child: sets the reason [`Pause::Join`], unless there is a reason
/// by which it continues sooner.
pub(crate) fn join_pauses() {
    if pause().is_none() {
        POLL.with(|poll| poll.pause.set(Some(Pause::Join)));
    }
}

/// For a handler that waits for work aside, in this place of the ledger of helpers. Sets the reason
/// [`Pause::Aside`], unless there is a reason by which it continues sooner. A handler that also
/// waits for a child waits for both; what is aside is never broken off.
pub(super) fn aside_pauses(place: u32) {
    if matches!(pause(), None | Some(Pause::Join)) {
        POLL.with(|poll| poll.pause.set(Some(Pause::Aside(place))));
    }
}

/// Whether the handler that is being polled may wait for an event outside of the workers.
pub(crate) fn may_wait() -> bool {
    with_waiter(|waiter| waiter.may_wait()).unwrap_or(true)
}

/// For a handler that waits for something that will never come: sets [`Pause::Abort`] with `cause`.
pub(crate) fn abort_pauses(cause: AbortCause) {
    POLL.with(|poll| poll.pause.set(Some(Pause::Abort(cause))));
}

/// If the worker must first queue new children, sets a reason to pause and returns true.
pub(crate) fn fork_pauses() -> bool {
    let pauses = limits().is_some() && super::local_queue::has_ready();
    if pauses && matches!(pause(), None | Some(Pause::Aside(_))) {
        POLL.with(|poll| poll.pause.set(Some(Pause::Resume(Resume::Here))));
    }
    pauses
}

/// Whether the last poll on this thread, which began at `start`, has passed a checkpoint without
/// pausing there.
#[inline]
pub fn passed_checkpoint(start: Nanos) -> bool {
    // The first checkpoint of each poll reads the clock.
    POLL.with(|poll| poll.stretch.get().0) > start
}

/// Whether there is a reason to pause in this poll, other than a wait for work aside.
pub(crate) fn is_pausing() -> bool {
    pause().is_some_and(|pause| !matches!(pause, Pause::Aside(_)))
}

/// Adds the CPU time of a joined child.
pub(crate) fn joined(cost: Nanos) {
    POLL.with(|poll| poll.joined.set(poll.joined.get().plus(cost)));
}

/// The request or child being polled, if it may fork, and its deadline.
pub(super) fn forker() -> Option<(Arc<dyn Waiter>, Nanos)> {
    let limits = limits()?;
    with_waiter(|waiter| (Arc::clone(waiter), limits.expires_at))
}

#[cfg(test)]
mod tests;
