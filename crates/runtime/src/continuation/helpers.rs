//! Helpers: threads that do work without checkpoints, at the lowest ordinary priority of the kernel
//! (nice 19).
//!
//! When a worker wakes, the kernel takes the CPU from a helper at once. So long work on a helper
//! does not delay requests, even if each CPU has a worker. Under a real-time policy helpers leave
//! real time, for the same reason.
//!
//! A helper gets nothing of a CPU that workers use without a pause. So one spare helper has a
//! higher priority (nice 6), and takes the oldest work once that has waited for `SPARED`.
//!
//! All servers and runtimes of a process share the helpers. They start when they are first needed,
//! one for each CPU, and live as long as the process.

mod ledger;
mod priority;
mod waiting;

use super::{Panic, guarded, lock};
use crate::clock;
use crate::cpus::cpus;
use crate::time::Nanos;
use ledger::Ledger;
pub use ledger::{HelpersState, Piece, Times};
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getpid};
pub use priority::PRIORITIES;
pub use priority::{give_way, step_back};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Builder};
use waiting::Waiting;

/// Work for a helper.
type HelperWork = Box<dyn FnOnce() + Send>;

/// How long work waits before the spare helper takes it. Helpers that get CPU time keep up with a
/// few tens of pieces meanwhile, and need no other.
const SPARED: Nanos = Nanos::from_millis(20);

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: Waiting::new(), is_watched: false });
/// Notified when work comes.
static SOME: Condvar = Condvar::new();
/// Notified when the spare helper is to watch.
static WATCHED: Condvar = Condvar::new();
/// Pieces of work that wait, or that a helper does.
static WORK: AtomicUsize = AtomicUsize::new(0);
/// The number of helpers without the spare one, once they have been started.
static HELPERS: OnceLock<usize> = OnceLock::new();

struct Queue {
    waiting: Waiting<HelperWork>,
    /// Whether the spare helper looks at the queue from time to time.
    is_watched: bool,
}

/// What helpers do, and have done.
pub static LEDGER: Ledger = Ledger::new();

/// Lets a helper do `work`, and then call `end` with the result. Gives the work back if it would
/// wait too long, too much waits, or the system allows no helper.
pub fn help<W, R>(work: W, end: impl FnOnce(Result<R, Panic>) + Send + 'static) -> Result<Arc<Piece>, W>
where
    W: FnOnce() -> R + Send + 'static,
{
    let (helpers, now) = (*HELPERS.get_or_init(start), clock::now());
    let mut queue = lock(&QUEUE);
    if !queue.waiting.has_room(now, helpers) {
        LEDGER.refuse();
        return Err(work);
    }
    let entry = LEDGER.enter();
    let piece = Arc::clone(&entry.piece);
    // Ordering: relaxed, a hint.
    WORK.fetch_add(1, Ordering::Relaxed);
    let work = move || {
        let made = entry.work(|| guarded(work));
        drop(entry);
        end(made);
    };
    queue.waiting.put(Box::new(work), now);
    let was_watched = mem::replace(&mut queue.is_watched, true);
    drop(queue);
    SOME.notify_one();
    if !was_watched {
        WATCHED.notify_one();
    }
    Ok(piece)
}

/// How long work that is given to a helper now is expected to wait.
pub fn expected_wait() -> Nanos {
    lock(&QUEUE).waiting.expected(clock::now())
}

/// Whether a helper has work; may be stale.
pub fn have_work() -> bool {
    WORK.load(Ordering::Relaxed) > 0
}

/// Starts the helpers; returns how many the system allowed, without the spare one.
fn start() -> usize {
    // CPUs are counted on a separate thread, because this one may be a worker that is bound to one
    // CPU.
    let counted = Builder::new().spawn(|| {
        unbind();
        cpus()
    });
    let wanted = counted.ok().and_then(|thread| thread.join().ok()).unwrap_or(0);
    let begin = |number| Builder::new().name(format!("helper-{number}")).spawn(serve).is_ok();
    let started = (0..wanted).take_while(|number| begin(*number)).count();
    if started > 0 {
        // Without it, work waits longer.
        let _ = Builder::new().name("helper-spare".to_owned()).spawn(serve_late);
    }
    started
}

/// Lets this thread use all CPUs of the process, instead of those of the thread that started it.
fn unbind() {
    if let Ok(cpus) = sched_getaffinity(getpid()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    }
}

/// What a helper does.
fn serve() {
    unbind();
    PRIORITIES.begin(priority::NICE);
    LEDGER.join();
    loop {
        let queue = SOME.wait_while(lock(&QUEUE), |queue| queue.waiting.is_empty());
        let work = queue.unwrap_or_else(PoisonError::into_inner).waiting.take(clock::now());
        work.into_iter().for_each(run);
    }
}

/// What the spare helper does.
fn serve_late() {
    unbind();
    PRIORITIES.begin(priority::NICE_OF_SPARE);
    LEDGER.join();
    loop {
        let queue = WATCHED.wait_while(lock(&QUEUE), |queue| !queue.is_watched);
        let (work, sleeps) = queue.unwrap_or_else(PoisonError::into_inner).take_late(clock::now());
        work.into_iter().for_each(run);
        thread::sleep(sleeps.into());
    }
}

impl Queue {
    /// Takes the oldest work, if it has waited long enough for the spare helper. Also returns the
    /// time until the spare helper is to look again.
    fn take_late(&mut self, now: Nanos) -> (Option<HelperWork>, Nanos) {
        match self.waiting.overdue_at(SPARED) {
            Some(at) if at <= now => (self.waiting.take(now), Nanos::ZERO),
            Some(at) => (None, at.minus(now)),
            None => {
                // Work that comes has it watched again, but not for each piece.
                self.is_watched = false;
                (None, SPARED)
            }
        }
    }
}

fn run(work: HelperWork) {
    // Dropping a result may panic too.
    let _ = guarded(work);
    WORK.fetch_sub(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
