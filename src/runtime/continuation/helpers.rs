//! Helpers: threads that do work without checkpoints, at the lowest ordinary priority of the kernel
//! (nice 19).
//!
//! When a worker wakes, the kernel takes the CPU from a helper at once. So long work on a helper
//! does not delay requests, even if each CPU has a worker.
//!
//! All servers and runtimes of a process share the helpers. They start when they are first needed,
//! one for each CPU, and live as long as the process.

use super::{Panic, guarded, lock};
use crate::runtime::cpus::cpus;
use crate::time::Nanos;
use nix::libc::{SCHED_FLAG_KEEP_POLICY, SYS_sched_setattr, sched_attr, syscall};
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getpid};
use rustix::process::{getpriority_process, setpriority_process};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

/// Work for a helper.
type Work = Box<dyn FnOnce() + Send>;

/// How many pieces of work may wait for each helper. If each takes a millisecond, the last one
/// waits for 64 ms.
const WAITING_PER_HELPER: usize = 64;

/// The nice value of helpers. A helper gets 1/69 of the CPU time of a worker on the same CPU.
const NICE: i32 = 19;

/// The time that a helper may run before the kernel looks for another thread: the longest that
/// Linux allows. A worker, whose time is shorter, takes the CPU when it wakes. With equal times it
/// may have to wait until the helper has used its own.
const SLICE: Nanos = Nanos::from_millis(100);

static WAITING: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());
static SOME: Condvar = Condvar::new();
/// Pieces of work that wait, or that a helper does.
static WORK: AtomicUsize = AtomicUsize::new(0);
/// The number of helpers, once they have been started.
static HELPERS: OnceLock<usize> = OnceLock::new();

/// Lets a helper do `work`, and then call `end` with the result. Gives the work back if too much
/// waits, or if the system allows no helper.
pub(crate) fn help<W, R>(work: W, end: impl FnOnce(Result<R, Panic>) + Send + 'static) -> Result<(), W>
where
    W: FnOnce() -> R + Send + 'static,
{
    let helpers = *HELPERS.get_or_init(start);
    let mut waiting = lock(&WAITING);
    if waiting.len() >= helpers * WAITING_PER_HELPER {
        return Err(work);
    }
    // Ordering: relaxed, a hint.
    WORK.fetch_add(1, Ordering::Relaxed);
    waiting.push_back(Box::new(move || end(guarded(work))));
    drop(waiting);
    SOME.notify_one();
    Ok(())
}

/// Whether a helper has work; may be stale.
pub(crate) fn have_work() -> bool {
    WORK.load(Ordering::Relaxed) > 0
}

/// Starts the helpers; returns how many the system allowed.
fn start() -> usize {
    // CPUs are counted on a separate thread, because this one may be a worker that is bound to one
    // CPU.
    let counted = Builder::new().spawn(|| {
        unbind();
        cpus()
    });
    let wanted = counted.ok().and_then(|thread| thread.join().ok()).unwrap_or(0);
    let begin = |number| Builder::new().name(format!("helper-{number}")).spawn(serve).is_ok();
    (0..wanted).take_while(|number| begin(*number)).count()
}

/// Lets this thread use all CPUs of the process, instead of those of the thread that started it.
fn unbind() {
    if let Ok(cpus) = sched_getaffinity(getpid()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    }
}

/// Gives this thread the lowest ordinary priority, and has it [give way](give_way).
pub fn step_back() {
    // Every thread may lower its own priority, so this does not fail.
    let _ = setpriority_process(None, NICE);
    give_way();
}

/// Lets workers that wake take this thread's CPU at once: `sched_setattr(2)`, from Linux 6.12 on.
pub fn give_way() {
    let Ok(nice) = getpriority_process(None) else { return };
    let attributes = sched_attr {
        size: size_of::<sched_attr>() as u32,
        sched_policy: 0,
        // A server that is started with real-time priority keeps it: the kernel refuses the call.
        sched_flags: SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE.get(),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns. It
    // changes nothing but this thread's scheduling.
    #[expect(unsafe_code, reason = "no crate sets a slice, and p99 is a third lower: benches/RESULTS.md, quic")]
    let _ = unsafe { syscall(SYS_sched_setattr, 0, &raw const attributes, 0) };
}

fn serve() {
    unbind();
    step_back();
    loop {
        let waiting = SOME.wait_while(lock(&WAITING), |waiting| waiting.is_empty());
        let work = waiting.unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(work) = work {
            // Dropping a result may panic too.
            let _ = guarded(work);
            WORK.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpus::allowed;
    use nix::sched::CpuSet;
    use std::sync::mpsc::channel;

    // Is there a helper for each CPU, even if a thread bound to one CPU starts them? Is work done
    // at the lowest priority, and given back if too much waits? Method: all helpers are blocked,
    // then the queue is filled.
    #[test]
    fn helpers_are_nice_and_have_a_bound() {
        let (of_process, mut one) = (cpus(), CpuSet::new());
        one.set(allowed()[0]).expect("a CPU");
        sched_setaffinity(Pid::from_raw(0), &one).expect("it may use that CPU");
        let helpers = *HELPERS.get_or_init(start);
        assert_eq!(helpers, of_process);
        let ((begun, begins), (release, held)) = (channel(), channel::<()>());
        let held = std::sync::Arc::new(Mutex::new(held));
        for _ in 0..helpers {
            let (begun, held) = (begun.clone(), held.clone());
            let work = move || {
                let own = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
                let slice = own.lines().find_map(|line| line.strip_prefix("se.slice")?.split_once(':'));
                let slice = slice.map(|(_, slice)| slice.trim().to_owned());
                begun.send((rustix::process::getpriority_process(None), slice)).expect("the test waits");
                let _ = lock(&held).recv();
            };
            assert!(help(work, |_| {}).is_ok());
        }
        for _ in 0..helpers {
            let (nice, slice) = begins.recv().expect("all begin");
            assert_eq!(nice, Ok(NICE));
            // Kernels before 6.12 do not show it.
            assert!(slice.is_none_or(|slice| slice == SLICE.get().to_string()));
        }
        let (done, ended) = channel();
        let fit = (0..=helpers * WAITING_PER_HELPER)
            .take_while(|number| {
                let (number, done) = (*number, done.clone());
                help(move || done.send(number), |_| {}).is_ok()
            })
            .count();
        assert_eq!(fit, helpers * WAITING_PER_HELPER);
        (0..helpers).for_each(|_| release.send(()).expect("a helper waits"));
        assert_eq!(ended.iter().take(fit).count(), fit);
    }
}
